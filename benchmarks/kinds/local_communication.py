"""Bytes that a client sends and a collector keeps, as functions of epsilon.

Settings: `kernel`, `bandwidth`, `d`, `participants`, `epsilons` (texts), `radius` and `eta` of the metric guarantees,
and `mechanisms` (tables with `name` and maybe `metric` and `options`).

A report is counted with its header: fingerprint and identity. The sketch is what a collector keeps, in integers, and
the release is its file, for people spread uniformly over the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.kinds.local_published import published_options
from sfumato.kernels import get_kernel
from sfumato.local import Protocol
from sfumato.local.organiser import choose, make_request

SEED = 1
COLUMNS = {
    "epsilon": "epsilon",
    "promise": "epsilon holds for",
    "bytes": "bytes a report",
    "integers": "integers kept",
    "file": "bytes of the release",
    "error": "predicted error",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"epsilon": epsilon} for epsilon in settings["epsilons"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    d, n, epsilon = settings["d"], settings["participants"], unit["epsilon"]
    kernel = get_kernel(settings["kernel"], settings["bandwidth"])
    points = np.random.default_rng(SEED).random((n, d), dtype=np.float32)
    for mechanism in settings["mechanisms"]:
        metric = mechanism.get("metric", False)
        radius, eta = (settings["radius"], settings["eta"]) if metric else (None, None)
        options = published_options(mechanism)
        request = make_request(kernel, None, d, epsilon, n, radius, eta, (0, 1), options)
        name, design = choose(request, mechanism["name"])
        protocol = Protocol(
            kernel,
            d,
            epsilon,
            n,
            mechanism=name,
            radius=radius,
            eta=eta,
            bounds=(0, 1),
            seed=SEED,
            options=options,
        )
        release = protocol.simulate(points, random_state=SEED)
        values = {
            "epsilon": epsilon,
            "promise": "every two points" if design.pure else "within the radius",
            "bytes": design.report_bytes,
            "integers": release.quantizer.size,
            "file": len(release.to_bytes()),
            "error": float(np.sqrt(design.variance)),
        }
        yield Measurement(name, values, {"set": "uniform", "n": n, "d": d}, [SEED], neighbours="replace")
