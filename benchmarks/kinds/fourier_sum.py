"""CPU time of the exact sum of Fourier features against its parts alone and against the usual floating-point ways.

Settings: `n`, `d`, `m`, `repetitions`, `matrix_gigabytes` (memory of one float64 matrix in the full-matrix way),
`row_blocks` (rows per block of the same expression cut to the cache's size).

All run in one process, one thread each, in turn, and the least CPU time of each counts. The parts (matrix products
alone, table look-ups alone) use the library's own blocks. The usual way is `np.cos(X @ W + b).sum(axis=0)` on float64
inputs; its result is not the same for every order of the rows, so it could not be used for a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.datasets import mixture
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.timing import least_cpu_seconds
from sfumato.engines import Threads
from sfumato.kernels import Gaussian
from sfumato.quantizers import FourierQuantizer
from sfumato.quantizers.cosines import cosine_table
from sfumato.quantizers.fourier import ROW_BLOCK, TABLE_BITS, add_cosines
from sfumato.sources import open_source

FEATURE_SEED = 1
BATCH_ROWS = 65_536
PARTS = ("matrix products alone", "cosines alone")
FULL_MATRIX = "np.cos(X @ W + b).sum(0), full float64 matrix"
COLUMNS = {
    "m": "m",
    "cpu_seconds": "CPU s",
    "over_parts": "/ (products + cosines)",
    "speedup": "times faster than full matrix",
    "speedup_blocked": "times faster than in blocks",
}


@dataclass(frozen=True, eq=False)
class Workload:
    """The points and features of one comparison."""

    points: NDArray[np.float32]
    quantizer: FourierQuantizer

    @cached_property
    def wide_points(self) -> NDArray[np.float64]:
        return self.points.astype(np.float64)

    @cached_property
    def angles(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Frequencies and offsets in radians, as the usual way takes them."""
        phases = self.quantizer.phases
        radians = 2 * np.pi * 2.0**-phases.bits
        frequencies = phases.frequencies * (radians / phases.lattice.steps[:, None])
        return frequencies, np.asarray(phases.offsets * radians, dtype=np.float64)

    @cached_property
    def placed(self) -> NDArray[np.float64]:
        """One block of rows on the library's grid."""
        block = self.quantizer.phases.rows(ROW_BLOCK)
        self.quantizer.phases.lattice.place(self.points[:ROW_BLOCK], block)
        return block

    @cached_property
    def products(self) -> list[NDArray[np.float64]]:
        return [self.placed @ columns for columns in self.quantizer.phases.blocks]

    @property
    def row_blocks(self) -> int:
        return -(-len(self.points) // ROW_BLOCK)

    def accumulate(self) -> NDArray[np.int64]:
        sums = np.zeros(self.quantizer.size, dtype=np.int64)
        self.quantizer.accumulate(self.points, sums)
        return sums

    def stream(self) -> NDArray[np.int64]:
        return Threads(1).sum(open_source(self.points), self.quantizer)[0]

    def products_alone(self) -> None:
        space = max(self.products, key=lambda product: product.size).ravel().copy()
        for _ in range(self.row_blocks):
            for columns in self.quantizer.phases.blocks:
                shape = (ROW_BLOCK, columns.shape[1])
                np.dot(self.placed, columns, out=space[: shape[0] * shape[1]].reshape(shape))

    def cosines_alone(self) -> None:
        table, shift = cosine_table(self.quantizer.radius), self.quantizer.phases.bits - TABLE_BITS
        for _ in range(self.row_blocks):
            for product in self.products:
                add_cosines(product.view(np.int64), table, shift, np.zeros(product.shape[1], dtype=np.int64))

    def usual(self, rows: int) -> NDArray[np.float64]:
        (frequencies, offsets), sums = self.angles, np.zeros(self.quantizer.terms)
        for start in range(0, len(self.points), rows):
            sums += np.cos(self.wide_points[start : start + rows] @ frequencies + offsets).sum(axis=0)
        return sums


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    n, d, m = settings["n"], settings["d"], settings["m"]
    quantizer = FourierQuantizer.draw(Gaussian(np.sqrt(d)), d, m, FEATURE_SEED, layout="phase")
    workload = Workload(mixture(n, d)[0], quantizer)
    full_rows = min(n, int(settings["matrix_gigabytes"] * 1e9 / (8 * m)))
    blocked = f"the same in blocks of {settings['row_blocks']} rows"
    actions: dict[str, Callable[[], object]] = {
        "exact sum, accumulate": workload.accumulate,
        "exact sum, stream_sum": workload.stream,
        PARTS[0]: workload.products_alone,
        PARTS[1]: workload.cosines_alone,
        FULL_MATRIX: lambda: workload.usual(full_rows),
        blocked: lambda: workload.usual(settings["row_blocks"]),
    }
    with threadpool_limits(limits=1, user_api="blas"):
        _warm_up(workload)
        seconds = least_cpu_seconds(actions, settings["repetitions"])
    parts = sum(seconds[part] for part in PARTS)
    for label, cpu_seconds in seconds.items():
        values = {"m": m, "cpu_seconds": cpu_seconds}
        values |= {"speedup": seconds[FULL_MATRIX] / cpu_seconds, "speedup_blocked": seconds[blocked] / cpu_seconds}
        if label not in PARTS:
            values["over_parts"] = cpu_seconds / parts
        yield Measurement(label, values, {"set": "mixture", "n": n, "d": d}, seeds=[FEATURE_SEED])


def _warm_up(workload: Workload) -> None:
    """Compile, fill the caches, and check that both ways sum the same thing."""
    few = Workload(workload.points[: 4 * ROW_BLOCK], workload.quantizer)
    exact, usual = few.accumulate() / few.quantizer.gain, few.usual(ROW_BLOCK)
    worst = float(np.abs(exact - usual).max())
    # Cell width 2**-12 turns and grid steps move a row's cosine by about 1e-3 at most, and in the mean by far less.
    if worst > 1e-3 * len(few.points) or not np.array_equal(exact, few.stream() / few.quantizer.gain):
        raise AssertionError(f"the exact sum is {worst:.3g} away from the floating-point one")
    few.cosines_alone()
    few.products_alone()
    workload.wide_points.sum()
