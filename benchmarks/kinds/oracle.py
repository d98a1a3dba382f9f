"""The exact density at held-out points: the oracle's own check values.

Settings: `kernel`, `held_out` (list of numbers of points), `data` (tables with `set` and `bandwidth`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from benchmarks.datasets import load_split
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.kernels import get_kernel

COLUMNS = {"bandwidth": "bandwidth", "queries": "queries", "mean": "mean", "sd": "sd", "wall": "seconds"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"set": table["set"], "held_out": size} for table in settings["data"] for size in settings["held_out"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["data"] if table["set"] == unit["set"])
    split = load_split(table, unit["held_out"])
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    start = time.perf_counter()
    density = kernel.exact_density(split.points, split.held_out)
    wall = time.perf_counter() - start
    values = {"mean": density.mean(), "sd": density.std(), "wall": wall}
    yield Measurement(
        label=f"exact, {settings['kernel']}",
        values={"bandwidth": table["bandwidth"], "queries": len(density)} | {k: float(v) for k, v in values.items()},
        data=split.facts,
    )
