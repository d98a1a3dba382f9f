"""CPU time of inserting rows into a raw sketch, against hashing them alone.

Settings: `n`, `d`, `kernel`, `bandwidth`, `repetitions`, and `sizes` (pairs of R and W).

All run in one process and one thread, in turn, and the least CPU time of each counts. Hashing alone finds the counter
of every row of points in every row of the sketch (projections, floors, universal rehash) and forgets it; insertion
adds one there, through the sketch's own stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.datasets import mixture
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.timing import least_cpu_seconds
from sfumato import RaceSketch
from sfumato.kernels import get_kernel

FEATURE_SEED = 1
WARM_UP_ROWS = 1000
COLUMNS = {
    "size": "size",
    "cpu_seconds": "CPU s",
    "nanoseconds": "ns for a row and hash function",
    "over_hashing": "/ hashing alone",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"rows": rows, "width": width} for rows, width in settings["sizes"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    points = mixture(settings["n"], settings["d"])[0]
    kernel = get_kernel(settings["kernel"], settings["bandwidth"])
    sketch = RaceSketch(
        kernel, dimension=settings["d"], rows=unit["rows"], width=unit["width"], feature_seed=FEATURE_SEED
    )
    actions: dict[str, Callable[[], object]] = {
        "hashing alone": lambda: _hash(sketch, points),
        "insertion": lambda: sketch.add(points, threads=1),
    }
    with threadpool_limits(limits=1, user_api="blas"):
        _hash(sketch, points[:WARM_UP_ROWS])
        sketch.add(points[:WARM_UP_ROWS], threads=1)
        seconds = least_cpu_seconds(actions, settings["repetitions"])
    for label, cpu_seconds in seconds.items():
        values: dict[str, Any] = {
            "size": f"R {unit['rows']}, W {unit['width']}",
            "cpu_seconds": cpu_seconds,
            "nanoseconds": 1e9 * cpu_seconds / (len(points) * unit["rows"]),
            "over_hashing": cpu_seconds / seconds["hashing alone"],
        }
        data = {"set": "mixture", "n": settings["n"], "d": settings["d"]}
        yield Measurement(label, values, data, seeds=[FEATURE_SEED])


def _hash(sketch: RaceSketch, points: NDArray[np.float32]) -> None:
    for _ in sketch.quantizer.hashed(points):
        pass
