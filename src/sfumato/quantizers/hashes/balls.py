r"""Ball carving: the bucket is the first of a sequence of random balls that holds the point. Hashes the kernel `Erfc`.

Source: the LSH family that A. Andoni and P. Indyk gave for the Erfc kernel (Wagner et al. 2023, C.4) takes
balls in high dimension, whose limit is the kernel. Here balls in the data's own dimension give it exactly. Let balls
with centre c and radius r have the measure (2 pi)^(-d/2) dc r exp(-r^2 / 2) dr. With r^2 = |c|^2 + 2 h it becomes
that of a standard normal c and an h of density exp(-h), and x is in the ball if h > |x|^2 / 2 - c . x. So the balls
that hold x have measure E exp(c . x - |x|^2 / 2) = 1, those that hold x and y

    E min(exp(c . x - |x|^2 / 2), exp(c . y - |y|^2 / 2)) = 2 Phi(-|x - y| / 2) = erfc(|x - y| / sqrt(8)),

and the first ball of a random sequence that holds x or y holds both with probability erfc(z) / (2 - erfc(z)),
z = |x - y| / sqrt(8). The coordinates are scaled so that z is the distance in bandwidths.

Cost. Only balls that meet the box of the points are drawn, and one of them holds a given point with probability 1 /
M, M their measure: (2 pi)^(-d/2) sum_k e_{d-k}(l) 2^(3k/2) Gamma(k/2 + 1), where e_i are the elementary symmetric
polynomials of the box's widths l. M grows like (width in bandwidths)^d: a few bandwidths in three columns, and no
hope in ten. 30 M balls are drawn for each hash function; a point that none of them holds (probability exp(-30)) has a
last bucket.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import Erfc
from sfumato.public import portable
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family

LARGEST_MEASURE = 256.0
MOST_COLUMNS = 16  # with more, a box of any size takes thousands of times that
BALLS_PER_MEASURE = 30
POINT_BITS, DISTANCE_BITS = 10, 38
FARTHEST = 2**21  # lattice steps; no ball reaches that far


@register_family
@dataclass(frozen=True, eq=False)
class BallCarving(HashFamily):
    """A sequence of balls a hash function; the bucket is the number of the first that holds the point."""

    _lattice: Lattice
    weights: Integers
    centres: Integers
    squares: Integers

    name = "ball-carving"
    kernels = (Erfc,)

    @classmethod
    def refuse(cls, kernel: Erfc, dimension: int, bounds: Any) -> str | None:
        """Balls cover a box of a few bandwidths only."""
        if len(kernel.scale.shape) == 2:
            return f"hashing {kernel.name} needs one bandwidth, or one for each column, not a matrix"
        if bounds is None:
            return f"hashing {kernel.name} needs bounds=, which the points and the queries keep"
        measure = cls._measure(kernel, dimension, bounds)
        if not measure <= LARGEST_MEASURE:
            return (
                f"hashing {kernel.name} within these bounds takes {BALLS_PER_MEASURE * measure:.3g} balls for each "
                f"hash function, and {BALLS_PER_MEASURE * LARGEST_MEASURE:g} are the most; pass a larger bandwidth or "
                "tighter bounds (the number grows exponentially with the columns)"
            )
        return None

    @classmethod
    def buckets(cls, kernel: Erfc, dimension: int, bounds: Any) -> int:
        """Every ball, and none."""
        return math.ceil(BALLS_PER_MEASURE * cls._measure(kernel, dimension, bounds)) + 1

    @classmethod
    def work(cls, kernel: Erfc, dimension: int, bounds: Any) -> float:
        """Count M balls, the mean number of the first that holds a point."""
        return dimension * (cls._measure(kernel, dimension, bounds) + 1)

    @staticmethod
    def _measure(kernel: Erfc, dimension: int, bounds: Any) -> float:
        return math.fsum(_measures(_widths(kernel, Box.from_bounds(bounds, dimension))))

    @classmethod
    def draw(
        cls, kernel: Erfc, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> BallCarving:
        """Draw the terms k, then radii (chi with k + 2 degrees of freedom) and centres (uniform in the widened box)."""
        box = Box.from_bounds(bounds, dimension, outside)
        widths = _widths(kernel, box)
        measures = _measures(widths)
        count = rows * math.ceil(BALLS_PER_MEASURE * math.fsum(measures))
        term = np.searchsorted(np.cumsum(measures)[:-1] / math.fsum(measures), stream.uniforms(count))
        squares = -2.0 * portable.log(stream.uniforms(count))
        for k in range(dimension):
            squares += np.where(term > k, np.square(stream.normals(count)), 0.0)
        steps = widths / (2 * box.half_widths)  # from data units to those of the proof
        lattice = Lattice(box, tuple(math.floor(math.log2(1 / step)) - POINT_BITS for step in steps))
        spans = widths + 2 * np.sqrt(squares)[:, None]
        centres = (stream.uniforms(count * dimension).reshape(count, dimension) - 0.5) * spans
        per_step = steps * lattice.steps
        return cls(
            lattice,
            np.rint(np.ldexp(per_step * per_step, DISTANCE_BITS)).astype(np.int64),
            np.rint(centres / per_step).astype(np.int64).reshape(rows, -1, dimension),
            np.rint(np.ldexp(squares, DISTANCE_BITS)).astype(np.int64).reshape(rows, -1),
        )

    @property
    def lattice(self) -> Lattice:
        """The grid on which points become integers."""
        return self._lattice

    @property
    def rows(self) -> int:
        """One sequence each."""
        return len(self.squares)

    def cells(self, coordinates: Floats) -> Integers:
        """Find the first ball that holds each point, in integer arithmetic."""
        cells = np.empty((len(coordinates), self.rows, 1), dtype=np.int64)
        _carve(coordinates.astype(np.int64), self.weights, self.centres, self.squares, FARTHEST, cells)
        return cells

    def part(self, start: int, stop: int) -> BallCarving:
        """Return some of the functions."""
        return replace(self, centres=self.centres[start:stop], squares=self.squares[start:stop])

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Weights of the columns, centres and squared radii."""
        return self.weights, self.centres, self.squares


def _widths(kernel: Erfc, box: Box) -> Floats:
    """Widths of the box in the units of the proof, where erfc's argument is the distance over sqrt(8)."""
    return np.asarray(2 * box.half_widths * math.sqrt(8.0) / kernel.scale.column_lengths(box.dimension))


def _measures(widths: Floats) -> list[float]:
    """Terms k = 0, ..., d of the measure M."""
    dimension = len(widths)
    if dimension > MOST_COLUMNS:
        return [math.inf]
    symmetric = np.abs(np.poly(widths))  # e_0, ..., e_d
    return [
        float(symmetric[dimension - k]) * 2 ** (1.5 * k) * math.gamma(k / 2 + 1) * (2 * math.pi) ** (-dimension / 2)
        for k in range(dimension + 1)
    ]


@njit(nogil=True, cache=True)
def _carve(points, weights, centres, squares, farthest, cells):  # type: ignore[no-untyped-def]
    for i in range(points.shape[0]):
        for r in range(centres.shape[0]):
            found = centres.shape[1]
            for ball in range(centres.shape[1]):
                left = squares[r, ball]
                for j in range(points.shape[1]):
                    away = abs(points[i, j] - centres[r, ball, j])
                    if away > farthest:
                        left = -1
                        break
                    left -= weights[j] * away * away
                    if left <= 0:  # and no sum of many columns leaves 64 bits
                        break
                if left > 0:
                    found = ball
                    break
            cells[i, r, 0] = found
