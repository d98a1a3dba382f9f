r"""Families of random projections: p-stable hashes, signed projections and random tessellations.

**p-stable hashes** ``floor(a . A^-1 x + b)`` of the kernels `L1LSH` (Cauchy directions) and `L2LSH` (normal ones).

Approximation: Cauchy directions are cut at 2**16 bandwidths^-1, so that products stay exact; that has a probability of
about 10**-5 for each column, and changes a bucket only where the points differ by less than 2**-16 bandwidths in it.

**Signed projections**: the bucket is on which side of `power` random hyperplanes through the origin a point lies.

Two points lie on the same side of one with probability 1 - theta / pi, of all with its power: the kernel `Angular`.
The signs are the bits of one integer. Lengths do not matter, but the lattice does: without bounds it covers [-1, 1]
in every column, which holds unit vectors; rounding turns a vector of length l by at most 2**-20 sqrt(columns) / l.

**Random tessellations**: the bucket is on which side of every one of many random hyperplanes a point lies.

Source: the embedding of l2 into l1 behind the exponential kernel (Wagner et al. 2023, C.4), made exact. Give the
hyperplanes {z : a . z = t}, a standard normal and t real, the measure P(da) dt. Those that separate x from y have
measure E |a . (x - y)| = sqrt(2 / pi) |x - y|_2. So a Poisson process of hyperplanes with sqrt(pi / 2) / s times that
measure separates x and y by none with probability exp(-|x - y|_2 / s): the kernel `Exponential` with p = 2, with no
approximation.

Only hyperplanes that meet the box of the points matter. Given a, the box of widths l_j meets those with t in an
interval of length sum_j l_j |a_j|, so their number is Poisson with mean sum_j l_j / s (in the coordinates A^-1 x),
and their law is that of a, weighted by the interval's length: choose a column j with probability proportional to l_j,
let a_j have density proportional to |a_j| exp(-a_j^2 / 2) (a Rayleigh number with a random sign), the other
coordinates be normal, and t uniform in the interval. Queries outside the bounds are told apart by these hyperplanes
alone, so they look closer than they are: declare bounds that hold the queries too. A hash function costs as many
projections as the largest number drawn; the others are filled up with hyperplanes that nothing can meet.

The same measure with p-stable a gives exp(-|x - y|_p) for 1 < p < 2, but there weighting by |a_j| leaves a law
without a short exact sampler. The Fourier route (`kernels.Exponential`) is exact for those p, and is what the library
uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import L1LSH, L2LSH, Angular, Exponential
from sfumato.public import portable
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family
from sfumato.quantizers.hashes.projections import Projections, cauchys, normals, uniform_table

LARGEST_CAUCHY = 2.0**16


@dataclass(frozen=True, eq=False)
class Projected(HashFamily):
    """What the families of this file share: their projections decide the buckets."""

    projections: Projections

    @property
    def lattice(self) -> Lattice:
        """The projections' lattice."""
        return self.projections.lattice

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Directions and offsets."""
        return self.projections.parameters()


@register_family
@dataclass(frozen=True, eq=False)
class PStable(Projected):
    """One projection a hash function; the bucket is its floor."""

    name = "p-stable"
    kernels = (L1LSH, L2LSH)

    @classmethod
    def draw(
        cls,
        kernel: L1LSH | L2LSH,
        rows: int,
        dimension: int,
        stream: PublicStream,
        bounds: Any = None,
        outside: str = "clip",
    ) -> PStable:
        """Draw for each hash function its offset and its direction."""
        if isinstance(kernel, L1LSH):
            uniforms = uniform_table(stream, rows, 1 + dimension)
            numbers = np.clip(cauchys(uniforms[:, 1:]), -LARGEST_CAUCHY, LARGEST_CAUCHY)
        else:
            uniforms = uniform_table(stream, rows, 1 + 2 * ((dimension + 1) // 2))
            numbers = normals(uniforms[:, 1:])[:, :dimension]
        directions = kernel.scale.divide_frequencies(np.ascontiguousarray(numbers.T))
        scales = kernel.scale.column_lengths(dimension)
        return cls(Projections.fit(directions, scales, uniforms[:, 0], bounds, outside))

    @property
    def rows(self) -> int:
        """One projection each."""
        return self.projections.count

    def cells(self, coordinates: Floats) -> Integers:
        """Floors of the projections."""
        return self.projections.floors(coordinates)[:, :, None]

    def part(self, start: int, stop: int) -> PStable:
        """Return some of the functions."""
        return PStable(self.projections.part(start, stop))


UNIT_BOUNDS = (-1.0, 1.0)


@register_family
@dataclass(frozen=True, eq=False)
class SignedProjections(Projected):
    """`power` hyperplanes a hash function; the bucket is their signs as one integer."""

    power: int

    name = "signed-projections"
    kernels = (Angular,)

    @classmethod
    def draw(
        cls, kernel: Angular, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> SignedProjections:
        """Draw `power` normal directions for each hash function."""
        bounds = UNIT_BOUNDS if bounds is None else bounds
        count, even = rows * kernel.power, 2 * ((dimension + 1) // 2)
        numbers = normals(uniform_table(stream, rows, kernel.power * even)).reshape(count, even)
        directions = np.ascontiguousarray(numbers[:, :dimension].T)
        scales = Box.from_bounds(bounds, dimension, outside).half_widths
        projections = Projections.fit(directions, scales, np.zeros(count), bounds, outside, centred=False)
        return cls(projections, kernel.power)

    @classmethod
    def buckets(cls, kernel: Angular, dimension: int, bounds: Any) -> int:
        """Every combination of signs."""
        return 1 << kernel.power

    @classmethod
    def drawn(cls, kernel: Angular, dimension: int, bounds: Any) -> float:
        """Count the directions of all hyperplanes, three times: they are drawn all at once, through uniform numbers."""
        return float(3 * kernel.power * (dimension + 1))

    @classmethod
    def work(cls, kernel: Angular, dimension: int, bounds: Any) -> float:
        """One projection for each hyperplane."""
        return float(kernel.power * dimension)

    @property
    def rows(self) -> int:
        """`power` projections each."""
        return self.projections.count // self.power

    def cells(self, coordinates: Floats) -> Integers:
        """Signs, the first hyperplane's in the lowest bit; a point on a hyperplane lies on its positive side."""
        cells = np.empty((len(coordinates), self.rows, 1), dtype=np.int64)
        _pack(self.projections.floors(coordinates), self.power, cells)
        return cells

    def part(self, start: int, stop: int) -> SignedProjections:
        """Return some of the functions."""
        return SignedProjections(self.projections.part(self.power * start, self.power * stop), self.power)


@njit(reads=True, nogil=True, cache=True)
def _pack(floors, power, cells):  # type: ignore[no-untyped-def]
    for i in range(cells.shape[0]):
        for r in range(cells.shape[1]):
            signs = 0
            for plane in range(power):
                signs |= (floors[i, r * power + plane] >= 0) << plane
            cells[i, r, 0] = signs


MOST_HYPERPLANES = 2000.0


@register_family
@dataclass(frozen=True, eq=False)
class Hyperplanes(Projected):
    """`length` hyperplanes a hash function; a bucket's integers are 0 or 1, one for each."""

    planes: int

    name = "hyperplanes"
    kernels = (Exponential,)

    @classmethod
    def refuse(cls, kernel: Exponential, dimension: int, bounds: Any) -> str | None:
        """Without bounds there are infinitely many hyperplanes; for p below 2 there is no sampler."""
        if kernel.p != 2.0:
            return f"hashing {kernel.name} needs p = 2; the Fourier methods take every p"
        if len(kernel.scale.shape) == 2:
            return f"hashing {kernel.name} needs one bandwidth, or one for each column, not a matrix"
        if bounds is None:
            return f"hashing {kernel.name} needs bounds=, which the points and the queries keep"
        mean = cls._mean(kernel, dimension, bounds)
        if not mean <= MOST_HYPERPLANES:
            return f"the bounds span {mean:.0f} bandwidths, all columns together; hashing takes {MOST_HYPERPLANES:g}"
        return None

    @classmethod
    def work(cls, kernel: Exponential, dimension: int, bounds: Any) -> float:
        """About twice the mean number of hyperplanes, because of the filling up."""
        return dimension * (2 * cls._mean(kernel, dimension, bounds) + 10)

    @classmethod
    def drawn(cls, kernel: Exponential, dimension: int, bounds: Any) -> float:
        """Count directions and offsets of as many hyperplanes as there may be."""
        return (dimension + 5) * _most_poisson(cls._mean(kernel, dimension, bounds))

    @staticmethod
    def _mean(kernel: Exponential, dimension: int, bounds: Any) -> float:
        box = Box.from_bounds(bounds, dimension)
        return math.fsum(2 * box.half_widths / kernel.scale.column_lengths(dimension))

    @classmethod
    def draw(
        cls,
        kernel: Exponential,
        rows: int,
        dimension: int,
        stream: PublicStream,
        bounds: Any = None,
        outside: str = "clip",
    ) -> Hyperplanes:
        """Draw the numbers of hyperplanes, then for all of them columns, signs, radii, normals and offsets."""
        scales = kernel.scale.column_lengths(dimension)
        box = Box.from_bounds(bounds, dimension, outside)
        widths = 2 * box.half_widths / scales
        numbers = _poissons(stream, rows, math.fsum(widths))
        planes = max(1, int(numbers.max()))
        count = rows * planes
        chosen = np.searchsorted(np.cumsum(widths)[:-1] / math.fsum(widths), stream.uniforms(count))
        signs = np.where(stream.uniforms(count) < 0.5, -1.0, 1.0)
        radii = np.sqrt(-2.0 * portable.log(stream.uniforms(count)))
        directions = stream.normals(count * dimension).reshape(count, dimension)
        directions[np.arange(count), chosen] = signs * radii
        offsets = (stream.uniforms(count) - 0.5) * portable.product(np.abs(directions), widths[:, None])[:, 0]
        idle = np.arange(planes) >= numbers[:, None]
        directions[idle.ravel()], offsets[idle.ravel()] = 0.0, 0.0
        directions = np.ascontiguousarray(directions.T) / scales[:, None]
        return cls(Projections.fit(directions, scales, offsets, bounds, outside), planes)

    @property
    def rows(self) -> int:
        """`planes` projections each."""
        return self.projections.count // self.planes

    @property
    def length(self) -> int:
        """One integer for each hyperplane."""
        return self.planes

    def cells(self, coordinates: Floats) -> Integers:
        """1 on the positive side of a hyperplane, 0 on the other."""
        sides = self.projections.floors(coordinates) >= 0
        return sides.reshape(len(coordinates), self.rows, self.planes).astype(np.int64)

    def part(self, start: int, stop: int) -> Hyperplanes:
        """Return some of the functions."""
        return Hyperplanes(self.projections.part(self.planes * start, self.planes * stop), self.planes)


def _most_poisson(mean: float) -> int:
    """Return what a Poisson number exceeds with a probability below 1e-30."""
    return int(mean + 12 * np.sqrt(mean) + 40)


def _poissons(stream: PublicStream, count: int, mean: float) -> Integers:
    """Poisson numbers: how many exponential steps fit into `mean`, one after another."""
    steps = _most_poisson(mean)
    waits = -portable.log(stream.uniforms(count * steps)).reshape(count, steps)
    return np.asarray((np.cumsum(waits, axis=1) <= mean).sum(axis=1), dtype=np.int64)
