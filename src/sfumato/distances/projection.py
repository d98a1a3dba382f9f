"""Euclidean distances as l1 distances: public projections, exact in integers, before a structure for l1.

Source: Theorem D.1 and Corollary D.2 of Backurs et al. (2024), which project on k rows of independent normal
numbers. Here the k directions u_i are random orthonormal frames instead: blocks of `dimension` normal vectors,
orthogonalised. T(x)_i = u_i . x / (b k) with b = E |u_i . e|, e a unit vector, gives E |T(x) - T(y)|_1 = |x - y|_2
exactly.

Variance over the draw, of one distance relative to itself: (pi/2 - 1) / k for independent normal vectors; for q whole
frames (1 / d + (d - 1) 2 / (pi d) - d b^2) / (k b^2), about 0.07 / k. A sum over records in many directions from the
query keeps a part of it. As a function of the direction u, a sum of |u . (x - y)| is made of even spherical harmonics,
of which independent directions leave an error of the degrees 2, 4, ... (and normal vectors one of their lengths), and
frames, which sum u u' to the identity, of 4, 6, ... only. If the records spread around the box's centre evenly in all
directions, with the mean square r^2 / 3, r the half diagonal, the part that is kept is the squared mean of the zonal
harmonic of the angle between x - y and centre - y (`kept_parts`); this gives the stated bias. Within the box about a
fifth is left of degree 2 and a few percent of degree 4; far from the box all is left.

Clipping. A projection of the box can be as wide as its diagonal, and a structure's noise grows with the width. With r
the half diagonal, projections are clipped to the smaller of their true range and `clip` r / sqrt(d) (before the scale
1 / (b k)) around the box's centre. A record at the distance q from the centre loses about q m(clip r / q) / beta on
average over the draw, m(t) = E (|Z| - t)+ for a normal Z, beta = E |Z|: for clip = 2.5 that is 0.5 % of r for records
at the corners of the box, and less than 0.001 % for records spread evenly. Clipping moves each record alone and costs
no privacy.

Integers. Values are multiples of a power of two in every column, and the projection's weights are whole numbers of
another; all partial sums stay below 2^53, so that a float64 matrix product is exact in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.distances.columns import ColumnSums
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.unscaled import Distance
from sfumato.public.codec import Flag, Object, Real, Schema, Whole, brief
from sfumato.public.portable import PublicStream, product
from sfumato.public.ranges import check_reader_cost, check_reader_work
from sfumato.quantizers.answer import Answer, Floats, Known
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.described import described
from sfumato.quantizers.mapped import Projected

VALUE_BITS = 22
PRODUCT_BITS = 52
CLIP, CLIPS = 2.5, (0.5, 10.0)
MOST_PROJECTIONS = 4096
MOST_NUMBERS = 1 << 27  # of all directions together
TOGETHER = 32  # vectors that are orthogonalised at once
LARGEST_SEED = 2**256
NEARER = tuple((step / 8) ** 2 for step in range(1, 9))  # squared distances of queries on the way to one
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


def mean_cosine(dimension: int) -> float:
    """b: the mean of |u . e| over directions u.

    Examples
    --------
    >>> round(mean_cosine(1), 4), round(mean_cosine(2), 4)
    (1.0, 0.6366)
    """
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def kept_parts(dimension: int, squared_distance: Floats) -> tuple[Floats, Floats]:
    """Parts of the variances of degrees 2 and 4 that a sum of distances keeps, see the module's text.

    Parameters
    ----------
    dimension : int
        Columns.
    squared_distance : ndarray
        Of queries from the centre, in units of the records' mean square distance from it.

    Examples
    --------
    >>> quadratic, quartic = kept_parts(10, np.array([0.0, 1.0, 1e6]))
    >>> quadratic.round(2), quartic.round(2)
    (array([0. , 0.2, 1. ]), array([0.  , 0.02, 1.  ]))
    """
    if dimension == 1:
        return np.ones(len(squared_distance)), np.ones(len(squared_distance))
    along = np.square(np.sqrt(squared_distance)[:, None] + _NODES / math.sqrt(dimension))
    squares = along / (along + 1 - 1 / dimension)
    weights, d = _NODE_WEIGHTS / _NODE_WEIGHTS.sum(), dimension
    quadratic = (d * squares - 1) / (d - 1)
    quartic = ((d + 2) * (d + 4) * squares**2 - 6 * (d + 2) * squares + 3) / (d**2 - 1)
    return np.square(quadratic @ weights), np.square(quartic @ weights)


def embedding_error(dimension: int, count: int, frames: bool, squared_distance: Floats) -> Floats:
    """Typical error of a sum of distances relative to itself; `squared_distance` as in `kept_parts`.

    Examples
    --------
    >>> typical = np.array([1.0])
    >>> embedding_error(10, 20, True, typical).round(4), embedding_error(10, 20, False, typical).round(4)
    (array([0.0072]), array([0.0881]))
    """
    quadratic, quartic = kept_parts(dimension, squared_distance)
    mean = mean_cosine(dimension)
    if not frames:
        lengths = math.pi / 2 * dimension * mean**2 - 1  # of normal vectors, which all distances share
        return np.sqrt((lengths + quadratic * (math.pi / 2 - 1 - lengths)) / count)

    def variance(directions: int) -> float:
        squares = directions / dimension + directions * (directions - 1) * 2 / (math.pi * dimension)
        return max(0.0, squares - (directions * mean) ** 2)

    whole, rest = divmod(count, dimension)
    return np.sqrt(quartic * whole * variance(dimension) + quadratic * variance(rest)) / (count * mean)


def clipped_share(clip: float) -> float:
    """Mean part of the half diagonal that clipping takes off a record at a corner of the box: m(clip) / beta.

    Examples
    --------
    >>> round(clipped_share(2.5), 4)
    0.005
    """
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return 2 * (density - clip * math.erfc(clip / math.sqrt(2)) / 2) / math.sqrt(2 / math.pi)


def check_projections(dimension: int, count: int, frames: bool = True) -> None:
    """Refuse projections that a reader does not draw, by memory or, orthogonalised, by time.

    Examples
    --------
    >>> check_projections(100, 200)
    """
    check_reader_cost(count * dimension)
    if frames:  # half a product each, because those of some vectors at once stay in the cache
        check_reader_work(count * min(count, dimension) * dimension / 2, "fewer projections or columns")


@dataclass(frozen=True)
class Projection:
    """k public projections of a box, scaled so that l1 distances of images are Euclidean ones on average.

    Attributes
    ----------
    bounds : Box
        The public box.
    count : int
        k.
    seed : int
        Public seed of the projections.
    clip : float
        Where images are clipped, see the module's text.
    frames : bool
        Whether directions come in orthonormal frames; else they are independent normal vectors, as published.

    Examples
    --------
    >>> projection = Projection(Box((0.0,) * 3, (1.0,) * 3), count=30, seed=7)
    >>> images = projection.apply(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]))
    >>> round(float(np.abs(images[0] - images[1]).sum()), 2)
    1.44
    """

    bounds: Box
    count: int
    seed: int
    clip: float = CLIP
    frames: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_PROJECTIONS:
            raise InputError(f"the number of projections must lie between 1 and {MOST_PROJECTIONS}, got {self.count}")
        if self.count * self.bounds.dimension > MOST_NUMBERS:
            raise InputError(f"{self.count} projections of {self.bounds.dimension} columns do not fit in memory")
        check_projections(self.bounds.dimension, self.count, self.frames)
        if not CLIPS[0] <= self.clip <= CLIPS[1]:
            raise InputError(
                f"clip must lie between {CLIPS[0]:g} and {CLIPS[1]:g} half diagonals, not {brief(self.clip)}"
            )

    @property
    def directions(self) -> Floats:
        """The directions, shape (columns, k): unit vectors, or normal vectors over the root of their length."""
        return _directions(self.bounds.dimension, self.count, self.seed, self.frames)

    @property
    def scale(self) -> float:
        """What an image is divided by: b k, and sqrt(2 / (pi d)) k for independent normal vectors."""
        columns = self.bounds.dimension
        return self.count * (mean_cosine(columns) if self.frames else math.sqrt(2 / (math.pi * columns)))

    @cached_property
    def lattice(self) -> Lattice:
        """Grid of the values."""
        exponents = [math.ceil(math.log2(half)) - VALUE_BITS for half in self.bounds.half_widths]
        return Lattice(self.bounds, tuple(exponents))

    @cached_property
    def _integers(self) -> tuple[Floats, float]:
        """Whole weights of the lattice's coordinates, shape (columns, k), and the length of one unit of an image."""
        exact = self.directions / self.scale * self.lattice.steps[:, None]
        room = PRODUCT_BITS - math.ceil(math.log2(len(exact) * (self.lattice.reach.max() + 1)))
        exponent = math.ceil(math.log2(np.abs(exact).max())) - room
        return np.rint(np.ldexp(exact, -exponent)), math.ldexp(1.0, exponent)

    @cached_property
    def box(self) -> Box:
        """Where the images lie after clipping."""
        weights, unit = self._integers
        reach = product(self.lattice.reach[None], np.abs(weights))[0] * unit
        halves = self.bounds.half_widths[None]
        radius = math.sqrt(float(product(halves, halves.T)[0, 0]))
        most = np.minimum(reach, self.clip * radius / (math.sqrt(self.bounds.dimension) * self.scale))
        return Box(tuple((-most).tolist()), tuple(most.tolist()))

    def place(self, rows: NDArray[Any]) -> Floats:
        """Images of the rows that the box keeps, exact multiples of one unit."""
        placed = np.empty((len(rows), self.bounds.dimension))
        kept = self.lattice.place(rows, placed)
        weights, unit = self._integers
        return np.asarray(placed[:kept] @ weights * unit)

    def apply(self, Y: Floats) -> Floats:
        """Images of queries, which may lie anywhere."""
        weights, unit = self._integers
        return np.asarray(self.lattice.centred(Y) @ weights * unit)


@lru_cache(maxsize=4)
def _directions(columns: int, count: int, seed: int, frames: bool) -> Floats:
    """Draw directions; a plan and the release after it ask for the same ones."""
    normals = PublicStream(seed, "distance projections").normals(count * columns).reshape(count, columns)
    vectors = np.ascontiguousarray(normals.T)
    if not frames:
        return vectors / math.sqrt(columns)
    return np.hstack([orthonormal(vectors[:, start : start + columns]) for start in range(0, count, columns)])


def orthonormal(vectors: Floats) -> Floats:
    """Orthogonalise columns one after the other (Gram and Schmidt), with the same bits on every machine.

    Examples
    --------
    >>> orthonormal(np.array([[3.0, 1.0], [4.0, 0.0]]))
    array([[ 0.6,  0.8],
           [ 0.8, -0.6]])
    """
    result = np.array(vectors, dtype=np.float64, order="C")
    _orthogonalise(result)
    return result


def _by_columns(vectors: Floats) -> None:
    for column in range(vectors.shape[1]):
        current = vectors[:, column : column + 1]
        current /= np.sqrt(product(current.T, current))
        rest = vectors[:, column + 1 :]
        rest -= current * product(current.T, rest)


@njit(reads=_by_columns, nogil=True, cache=True)
def _orthogonalise(vectors):  # type: ignore[no-untyped-def]
    """Do the same, to some vectors at a time: those before them are read once for all, and they stay in the cache."""
    size, count = vectors.shape
    finished = np.empty((count, size))
    for start in range(0, count, TOGETHER):
        block = vectors[:, start : start + TOGETHER].copy()
        products = np.empty(block.shape[1])
        for j in range(start):
            _take_off(finished[j], block, products)
        for i in range(block.shape[1]):
            square = 0.0
            for k in range(size):
                square += block[k, i] * block[k, i]
            finished[start + i] = block[:, i] / np.sqrt(square)
            vectors[:, start + i] = finished[start + i]
            _take_off(finished[start + i], block[:, i + 1 :], products[i + 1 :])


@njit(reads=True, nogil=True, cache=True)
def _take_off(unit, block, products):  # type: ignore[no-untyped-def]
    """Subtract from a block's vectors what they have of a unit vector; sums go from the first term to the last."""
    size, width = block.shape
    products[:] = 0.0
    for k in range(size):
        for i in range(width):
            products[i] += unit[k] * block[k, i]
    for k in range(size):
        for i in range(width):
            block[k, i] -= unit[k] * products[i]


@dataclass(frozen=True, eq=False)
class ProjectedQuantizer(Projected):
    """A structure for l1 distances on projected points.

    Attributes
    ----------
    projection : Projection
        The public map.
    inner : ColumnSums
        The structure, over the projection's box.
    """

    projection: Projection
    inner: ColumnSums

    name: ClassVar[str] = "projected"
    schema: ClassVar[Schema] = described(
        name,
        projections=Whole(1, MOST_PROJECTIONS),
        seed=Whole(-LARGEST_SEED, LARGEST_SEED),
        clip=Real(*CLIPS),
        frames=Flag(),
        inner=Object(),
    )

    def __post_init__(self) -> None:
        if self.inner.box != self.projection.box or self.inner.metric != Distance("l1"):
            raise InputError("the structure behind a projection must be one for l1 over the projection's own box")

    def moved(self, Y: Floats, answer: Answer, sums: Floats, known: Known) -> Floats:
        """Typical error of the embedding, no less than that of nearer queries.

        A mean harmonic changes its sign on the way from the centre, for these records at another place than for those
        that it is computed for.
        """
        projection = self.projection
        away = np.square(Y - self.box.centre).sum(axis=1) / (float(np.square(self.box.half_widths).sum()) / 3)
        error = np.max(
            [embedding_error(self.dimension, projection.count, projection.frames, away * part) for part in NEARER],
            axis=0,
        )
        return np.asarray(error * np.abs(answer.total) / max(self.count(sums), 1.0))

    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records that the sums show."""
        return self.inner.count(sums)

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights of that number."""
        return self.inner.count_squares

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        inner, arrays = self.inner.to_document()
        del inner["box"]  # it follows from the projection
        document = {
            "quantizer": self.name,
            "box": self.box.to_document(),
            "projections": self.projection.count,
            "seed": self.projection.seed,
            "clip": self.projection.clip,
            "frames": self.projection.frames,
            "inner": inner,
        }
        return document, arrays

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the projection and the structure behind it."""
        from sfumato.quantizers import quantizer_from_document

        if fields["projections"] > size:
            raise ReleaseFileError(f"the header describes more projections than its {size} sums have room for")
        projection = Projection(*(fields[name] for name in ("box", "projections", "seed", "clip", "frames")))
        inner = {**fields["inner"], "box": projection.box.to_document()}
        if inner.get("quantizer") == cls.name:
            raise ReleaseFileError("points are projected once")
        made = quantizer_from_document(inner, arrays, Distance("l1"), size)
        if not isinstance(made, ColumnSums):
            raise ReleaseFileError(f"projections are read by a structure of columns, not by {made.name}")
        return cls(projection, made)
