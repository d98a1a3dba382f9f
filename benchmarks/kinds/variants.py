"""Error, size and time of several ways to release the same points, one after the other.

Settings: `kernel`, `data` (tables with `set` and `bandwidth`), `epsilons` (texts), `seeds` (how many), `queries`, and
`variants`: tables with `label`, and `method` ("auto" by default), `delta`, `options` where they have them; with
`error_rows` the error is measured on so many of the points (enough where the noise does not count). Time is the CPU
time of the first seed's release of all points. The first variant is the baseline. Run s takes s as feature seed and as
noise seed; the count is bought, or not, as each method does by default.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Split, load_split
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateKDE
from sfumato.kernels import Kernel, get_kernel

COLUMNS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "method": "method",
    "integers": "integers",
    "rmse": "RMSE",
    "over_baseline": "RMSE / baseline's",
    "bar_ratio": "error bar / measured",
    "cpu_seconds": "curator CPU s",
    "cpu_over_baseline": "CPU / baseline's",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"data": place, "epsilon": epsilon}
        for place in range(len(settings["data"]))
        for epsilon in settings["epsilons"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = settings["data"][unit["data"]]
    split = load_split(table, settings["queries"])
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    seeds = list(range(1, settings["seeds"] + 1))
    baseline: dict[str, Any] = {}
    for variant in settings["variants"]:
        values = _measured(split, kernel, unit["epsilon"], variant, seeds)
        baseline = baseline or values
        values["over_baseline"] = values["rmse"] / baseline["rmse"]
        values["cpu_over_baseline"] = values["cpu_seconds"] / baseline["cpu_seconds"]
        values |= {name: table[name] for name in ("side",) if name in table} | {"d": split.points.shape[1]}
        yield Measurement(variant["label"], values, split.facts, seeds, neighbours="add-remove")


def _measured(
    split: Split, kernel: Kernel, epsilon: str, variant: Mapping[str, Any], seeds: Sequence[int]
) -> dict[str, Any]:
    start = time.process_time()
    first = _fitted(split, split.points, kernel, epsilon, variant, seeds[0])
    cpu_seconds = time.process_time() - start
    rows = split.points[: variant.get("error_rows")]
    truth = kernel.exact_density(rows, split.held_out)
    squares, bars = [], []
    for seed in seeds:
        model = first
        if seed != seeds[0] or len(rows) < len(split.points):
            model = _fitted(split, rows, kernel, epsilon, variant, seed)
        answers, errors = model.query(split.held_out, return_std=True)
        squares.append(float(np.mean(np.square(answers - truth))))
        bars.append(float(np.mean(np.square(errors))))
    rmse = math.sqrt(float(np.mean(squares)))
    return {
        "epsilon": epsilon,
        "delta": float(variant.get("delta", 0.0)),
        "method": first.release_.method,
        "integers": len(first.release_.values),
        "rmse": rmse,
        "bar_ratio": math.sqrt(float(np.mean(bars))) / rmse,
        "cpu_seconds": cpu_seconds,
    }


def _fitted(
    split: Split, rows: NDArray[Any], kernel: Kernel, epsilon: str, variant: Mapping[str, Any], seed: int
) -> PrivateKDE:
    model = PrivateKDE(
        kernel,
        epsilon=epsilon,
        delta=float(variant.get("delta", 0.0)),
        method=variant.get("method", "auto"),
        bounds=split.bounds,
        n_hint=len(rows),
        options=dict(variant.get("options", {})),
        feature_seed=seed,
        random_state=seed,
    )
    return model.fit(rows)
