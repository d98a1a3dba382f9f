"""CPU time of the spline grid against NumPy's histogram (summing) and SciPy's kernel density (answering).

Settings: `epsilon`, `queries` (how many), `repetitions`, `data` (tables with `set` and `bandwidth`). All run in one
process, one thread each, in turn, and the least CPU time of each counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.stats import gaussian_kde
from threadpoolctl import threadpool_limits

from benchmarks.datasets import load_split
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.timing import least_cpu_seconds
from sfumato import PrivateKDE
from sfumato.quantizers import GridQuantizer

SEED = 1
SUM, HISTOGRAM = "encode and sum, grid", "np.histogram2d, as many cells"
ANSWER, SCIPY = "queries, grid release", "queries, scipy.stats.gaussian_kde"
COLUMNS = {
    "size": "spacing",
    "nodes": "nodes",
    "queries": "queries",
    "cpu_seconds": "CPU s",
    "over_histogram": "/ histogram2d",
    "speedup": "times faster than gaussian_kde",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"set": table["set"]} for table in settings["data"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["data"] if table["set"] == unit["set"])
    split = load_split(table, settings["queries"])
    model = PrivateKDE(
        bandwidth=table["bandwidth"],
        epsilon=settings["epsilon"],
        method="grid",
        bounds=split.bounds,
        n_hint=len(split.points),
        feature_seed=SEED,
        random_state=SEED,
    ).fit(split.points)
    release, quantizer = model.release_, model.release_.reader
    assert isinstance(quantizer, GridQuantizer)
    first, second = split.points.T
    actions: dict[str, Callable[[], object]] = {
        SUM: lambda: quantizer.accumulate(split.points, np.zeros(quantizer.size, dtype=np.int64)),
        HISTOGRAM: lambda: np.histogram2d(first, second, bins=quantizer.shape, range=split.bounds),
        ANSWER: lambda: release.query(split.held_out, return_std=True),
        SCIPY: lambda: gaussian_kde(split.points.T)(split.held_out.T),
    }
    release.query(split.held_out[:2])
    with threadpool_limits(limits=1, user_api="blas"):
        seconds = least_cpu_seconds(actions, settings["repetitions"])
    for label, cpu_seconds in seconds.items():
        values = {"size": release.parameters["spacing"], "nodes": quantizer.size, "cpu_seconds": cpu_seconds}
        if label == SUM:
            values["over_histogram"] = cpu_seconds / seconds[HISTOGRAM]
        if label in (ANSWER, SCIPY):
            values |= {"queries": len(split.held_out), "speedup": seconds[SCIPY] / cpu_seconds}
        yield Measurement(label, values, split.facts, seeds=[SEED])
