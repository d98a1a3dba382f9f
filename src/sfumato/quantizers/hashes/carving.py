r"""Families that carve space or order sets: random grids, random balls and random orders.

**Random binning**: a grid with random widths and offsets in every column; the bucket is the cell.

Source: A. Rahimi and B. Recht, "Random features for large-scale machine learning", NIPS 2007
(Wagner et al. 2023, C.4). With width w and a uniform offset two numbers share a cell with probability max(0, 1
- |x - y| / w): the product over the columns is the kernel `Hat`. With random widths of density w exp(-w), the sum of
two exponential numbers, the mean of that hat is exp(-|x - y|): the kernel `Laplacian`. Other mixtures of hats need
another law of the widths only.

Approximation: widths are at least 2**-12 bandwidths (narrower ones have probability 3e-8), and points are displaced
by at most 2**-9 bandwidths.

**Ball carving**: the bucket is the first of a sequence of random balls that holds the point. Hashes the kernel `Erfc`.

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

**Min-hash**: the bucket is the element of a set that comes first in a random order of all elements.

For two sets the first element of their union is in both with probability |x and y| / |x or y|: the kernel `Jaccard`.
Orders are random permutations, so this is exact. The empty set has a bucket of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import Erfc, Hat, Jaccard, Laplacian
from sfumato.public import portable
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family
from sfumato.quantizers.hashes.projections import exact_grid, uniform_table

NARROWEST = 2.0**-12


@register_family
@dataclass(frozen=True, eq=False)
class Binning(HashFamily):
    """One grid a hash function; a bucket has one integer for each column."""

    _lattice: Lattice
    bits: int
    slopes: Floats
    offsets: Floats

    name = "binning"
    kernels = (Laplacian, Hat)

    @classmethod
    def refuse(cls, kernel: Laplacian | Hat, dimension: int, bounds: Any) -> str | None:
        """Grids have axes."""
        if len(kernel.scale.shape) == 2:
            return f"hashing {kernel.name} needs one bandwidth, or one for each column, not a matrix"
        return None

    @classmethod
    def draw(
        cls,
        kernel: Laplacian | Hat,
        rows: int,
        dimension: int,
        stream: PublicStream,
        bounds: Any = None,
        outside: str = "clip",
    ) -> Binning:
        """Draw for each hash function an offset and, if it is random, a width for every column."""
        parts = 3 if isinstance(kernel, Laplacian) else 1
        uniforms = uniform_table(stream, rows, parts * dimension).reshape(rows, parts, dimension)
        widths = np.ones((rows, dimension))
        if parts == 3:
            widths = -(portable.log(uniforms[:, 1]) + portable.log(uniforms[:, 2]))
        scales = kernel.scale.column_lengths(dimension)
        slopes = 1.0 / (np.maximum(widths, NARROWEST) * scales)
        # As projections on the axes, all columns share one exact grid.
        steepest = slopes.max(axis=0)
        lattice, bits = exact_grid(lambda far: far * steepest, scales, bounds, outside)
        offsets = np.floor(np.ldexp(uniforms[:, 0], bits))
        return cls(lattice, bits, np.rint(np.ldexp(slopes * lattice.steps, bits)), offsets)

    @property
    def lattice(self) -> Lattice:
        """The grid on which points become integers."""
        return self._lattice

    @property
    def rows(self) -> int:
        """One grid each."""
        return len(self.slopes)

    @property
    def length(self) -> int:
        """One integer for each column."""
        return int(self.slopes.shape[1])

    def cells(self, coordinates: Floats) -> Integers:
        """Cells of the grids; every product stays below 2**51."""
        cells = np.empty((len(coordinates), *self.slopes.shape), dtype=np.int64)
        _bin(coordinates, self.slopes, self.offsets, math.ldexp(1.0, -self.bits), cells)
        return cells

    def part(self, start: int, stop: int) -> Binning:
        """Return some of the functions."""
        return replace(self, slopes=self.slopes[start:stop], offsets=self.offsets[start:stop])

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Cells per lattice step and offsets, in units of 2**-bits cells."""
        return self.slopes.astype(np.int64), self.offsets.astype(np.int64)


@njit(reads=True, nogil=True, cache=True)
def _bin(coordinates, slopes, offsets, unit, cells):  # type: ignore[no-untyped-def]
    for i in range(coordinates.shape[0]):
        for r in range(slopes.shape[0]):
            for j in range(slopes.shape[1]):
                cells[i, r, j] = np.int64(np.floor((coordinates[i, j] * slopes[r, j] + offsets[r, j]) * unit))


LARGEST_MEASURE = 256.0
MOST_CARVED = 16  # with more, a box of any size takes thousands of times that
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

    @classmethod
    def drawn(cls, kernel: Erfc, dimension: int, bounds: Any) -> float:
        """Count centres, radii and terms of all balls."""
        return (dimension + 3) * cls.buckets(kernel, dimension, bounds)

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
    if dimension > MOST_CARVED:
        return [math.inf]
    symmetric = np.abs(np.poly(widths))  # e_0, ..., e_d
    return [
        float(symmetric[dimension - k]) * 2 ** (1.5 * k) * math.gamma(k / 2 + 1) * (2 * math.pi) ** (-dimension / 2)
        for k in range(dimension + 1)
    ]


@njit(reads=True, nogil=True, cache=True)
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


@register_family
@dataclass(frozen=True, eq=False)
class MinHash(HashFamily):
    """One order of the columns a hash function; the bucket is the place of the set's first element in it."""

    box: Box
    places: NDArray[np.int32]

    name = "min-hash"
    kernels = (Jaccard,)

    @classmethod
    def draw(
        cls, kernel: Jaccard, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> MinHash:
        """Draw orders one hash function after another, each by sorting random words.

        Ties between 64-bit words, which would favour the earlier column, have probability below columns^2 * 2**-65.
        """
        box = Box.from_bounds((0.0, 1.0) if bounds is None else bounds, dimension, outside)
        order = np.argsort(stream.words(rows * dimension).reshape(rows, dimension), axis=1, kind="stable")
        return cls(box, np.argsort(order, axis=1, kind="stable").astype(np.int32))

    @classmethod
    def buckets(cls, kernel: Jaccard, dimension: int, bounds: Any) -> int:
        """Every element, and nothing."""
        return dimension + 1

    @property
    def lattice(self) -> Lattice:
        """Whole numbers."""
        return Lattice(self.box, (0,) * self.box.dimension)

    @property
    def rows(self) -> int:
        """One order each."""
        return len(self.places)

    def cells(self, coordinates: Floats) -> Integers:
        """Place of the first element; the number of columns for the empty set."""
        members = coordinates + self.lattice.centre >= 1
        cells = np.empty((len(members), self.rows, 1), dtype=np.int64)
        _first(members, self.places, cells)
        return cells

    def part(self, start: int, stop: int) -> MinHash:
        """Return some of the functions."""
        return replace(self, places=self.places[start:stop])

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Place of every column in every order."""
        return (self.places,)


@njit(reads=True, nogil=True, cache=True)
def _first(members, places, cells):  # type: ignore[no-untyped-def]
    columns = members.shape[1]
    for i in range(members.shape[0]):
        present = np.nonzero(members[i])[0]
        for r in range(places.shape[0]):
            first = columns
            for j in present:
                first = min(first, places[r, j])
            cells[i, r, 0] = first
