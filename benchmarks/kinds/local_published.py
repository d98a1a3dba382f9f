"""Mean square error of local mechanisms under one epsilon, beside the answer that asks nobody.

Settings: `kernel`, `epsilons` (texts), `seeds` (how many), `queries`, `held_out`, `data` (a table with `set`, `rows`
and `bandwidth`, or several that differ in `n` or `d`, each with its own `radius`), `radius` and `eta` of the metric
guarantees, and `mechanisms` (tables with `name`, `label` and maybe `options`, `metric`, `radius` and `seeds` of their
own; the first is the one that the others are compared with, and `beside` names an earlier label of the same promise).

Run s takes s as public seed and as the seed of the coins, for people who hold the points; all mechanisms see the same
points and queries. The error is the mean over seeds and queries of the squared error against the exact density, its
uncertainty taken from the spread between seeds. The predicted error is the plan's, made without the data. The constant
answer is the best one there is, the mean of the exact answers: its error is their variance. Promises up to eta are made
as published, for a seed that nobody chose: `published_options`.
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
from sfumato.kernels import Kernel, get_kernel
from sfumato.local import Protocol
from sfumato.local.organiser import choose, make_request
from sfumato.local.server import Design

COLUMNS = {
    "epsilon": "epsilon",
    "promise": "epsilon holds for",
    "size": "size",
    "bytes": "bytes a report",
    "mse": "MSE",
    "mse_error": "+-",
    "ratio": "measured / predicted",
    "bar_ratio": "error bar / measured",
    "over_constant": "MSE / constant's",
    "over_default": "MSE / first row's",
    "over_beside": "MSE / mldp-kde's, same radius",
    "collect_seconds": "simulated collection, CPU s",
    "query_seconds": "queries, CPU s",
}


def units(settings: Settings) -> Sequence[Unit]:
    if isinstance(settings["data"], Mapping):
        return [{"epsilon": epsilon} for epsilon in settings["epsilons"]]
    tables = settings["data"]
    return [
        {"n": table["n"], "d": table["d"], "epsilon": epsilon} for table in tables for epsilon in settings["epsilons"]
    ]


def _table(settings: Settings, unit: Unit) -> dict[str, Any]:
    if isinstance(settings["data"], Mapping):
        return dict(settings["data"])
    return dict(next(table for table in settings["data"] if (table["n"], table["d"]) == (unit["n"], unit["d"])))


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = _table(settings, unit)
    settings = {**settings, "radius": table.pop("radius", settings["radius"])}
    split = load_split(table, settings["held_out"])
    kernel = get_kernel(settings["kernel"], table.get("bandwidth"))
    queries = split.held_out[: settings["queries"]]
    truth = kernel.exact_density(split.points, queries)
    constant, first = float(np.var(truth)), None
    measured: dict[str, float] = {}
    for mechanism in settings["mechanisms"]:
        values = _errors(settings, unit["epsilon"], mechanism, split, kernel, queries, truth)
        first = values["mse"] if first is None else first
        values |= {"over_constant": values["mse"] / constant, "over_default": values["mse"] / first}
        measured[mechanism["label"]] = values["mse"]
        if "beside" in mechanism:
            values["over_beside"] = values["mse"] / measured[mechanism["beside"]]
        seeds = _seeds(settings, mechanism)
        yield _row(seeds, mechanism["label"], {"epsilon": unit["epsilon"], **values}, split, len(queries))
    last = {"epsilon": unit["epsilon"], "promise": "nobody is asked", "mse": constant, "over_constant": 1.0}
    yield _row([], "constant answer", {**last, "over_default": constant / (first or constant)}, split, len(queries))


def published_options(mechanism: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a mechanism; its eta does not pay for tries of the seed, which no publication does."""
    unpaid = {"grinding": 0} if mechanism["name"] in ("mldp-kde", "fkm-lr") else {}
    return {**unpaid, **mechanism.get("options", {})}


def _seeds(settings: Settings, mechanism: Mapping[str, Any]) -> list[int]:
    """Quick mechanisms may have more runs than others, for a smaller uncertainty."""
    return list(range(1, mechanism.get("seeds", settings["seeds"]) + 1))


def _row(seeds: list[int], label: str, values: Mapping[str, Any], split: Split, queries: int) -> Measurement:
    return Measurement(label, values, split.facts | {"queries": queries}, seeds, neighbours="replace")


def _errors(
    settings: Settings,
    epsilon: str,
    mechanism: Mapping[str, Any],
    split: Split,
    kernel: Kernel,
    queries: NDArray[np.float64],
    truth: NDArray[np.float64],
) -> dict[str, Any]:
    metric = mechanism.get("metric", False)
    radius, eta = (mechanism.get("radius", settings["radius"]), settings["eta"]) if metric else (None, None)
    options, name, n = published_options(mechanism), mechanism["name"], len(split.points)
    request = make_request(kernel, None, queries.shape[1], epsilon, n, radius, eta, split.bounds, options)
    name, design = choose(request, name)
    squares, bars, seconds = [], [], np.zeros(2)
    for seed in _seeds(settings, mechanism):
        protocol = Protocol(
            kernel,
            queries.shape[1],
            epsilon,
            n,
            mechanism=name,
            radius=radius,
            eta=eta,
            bounds=split.bounds,
            seed=seed,
            options=options,
        )
        start = time.process_time()
        release = protocol.simulate(split.points, random_state=seed)
        collected = time.process_time()
        answers, errors = release.query(queries, return_std=True)
        seconds += (collected - start, time.process_time() - collected)
        squares.append(float(np.mean((answers - truth) ** 2)))
        bars.append(float(np.mean(errors**2)))
    mse = float(np.mean(squares))
    return {
        "promise": _promise(design, options),
        "size": _size(design.parameters),
        "bytes": design.report_bytes,
        "mse": mse,
        "mse_error": float(np.std(squares, ddof=1)) / math.sqrt(len(squares)),
        "ratio": mse / design.variance,
        "bar_ratio": math.sqrt(float(np.mean(bars)) / mse),
        "collect_seconds": float(seconds[0]) / len(squares),
        "query_seconds": float(seconds[1]) / len(squares),
    }


def _promise(design: Design, options: Mapping[str, Any]) -> str:
    if options.get("not_private"):
        return "nobody: NOT PRIVATE"
    return "every two points" if design.pure else "within the radius"


def _size(parameters: Mapping[str, Any]) -> str:
    if "rows" in parameters:
        return f"L {parameters['rows']}, R {parameters['buckets']}"
    if "rows_each" in parameters:
        outcomes = parameters.get("buckets", parameters.get("positions", ""))
        return f"{parameters['rows_each']} of {parameters['groups'] * parameters['rows_each']}, R {outcomes}"
    return ""
