"""Euclidean distances as l1 distances: public Gaussian projections, exact in integers, before a structure for l1.

Source: Theorem D.1 and Corollary D.2 of 003_8abe5b5ce9db92a1.txt. With k rows Z_i of standard normal numbers,
T(x)_i = Z_i . x / (beta k), beta = sqrt(2 / pi), E |T(x) - T(y)|_1 = |x - y|_2 exactly, because |Z_i . v| has the mean
beta |v|. The variance of |T(v)|_1 over the draw is (pi/2 - 1) |v|^2 / k, so one distance is off by 0.756 / sqrt(k)
relative to itself; a sum of distances in many directions less.

Clipping. A projection of the box can be as wide as its diagonal, and a structure's noise grows with the width. With
r the half diagonal, projections are clipped to the smaller of their true range and `clip` r / (beta k) around the
box's centre. A record at the distance q from the centre loses at most q m(clip r / q) / beta on average over the
draw, m(t) = E (|Z| - t)+: for clip = 2.5 that is 0.5 % of r for records at the corners of the box, and less than
0.001 % for records spread evenly. Clipping moves each record alone and costs no privacy.

Integers. Values are multiples of a power of two in every column, and the projection's weights are whole numbers of
another; all partial sums stay below 2^53, so that a float64 matrix product is exact in any order.

Error bar. The k projections are k independent estimates of the same sum, so their sample variance shows noise and
embedding together (`Reading.spread`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.columns import ColumnSums
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.distance import Distance
from sfumato.privacy.bits import SecureBits
from sfumato.public_randomness import PublicStream
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, Reading
from sfumato.quantizers.box import Box, Lattice

BETA = math.sqrt(2 / math.pi)
EMBEDDING_VARIANCE = math.pi / 2 - 1
VALUE_BITS = 22
PRODUCT_BITS = 52
CLIP = 2.5
MOST_PROJECTIONS = 4096


@dataclass(frozen=True)
class Projection:
    """k public Gaussian projections of a box, scaled so that l1 distances of images are Euclidean ones on average.

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

    Examples
    --------
    >>> projection = Projection(Box((0.0,) * 3, (1.0,) * 3), count=2000, seed=7)
    >>> images = projection.apply(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]))
    >>> round(np.abs(images[0] - images[1]).sum(), 2)
    1.42
    """

    bounds: Box
    count: int
    seed: int
    clip: float = CLIP

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_PROJECTIONS:
            raise InputError(f"the number of projections must lie between 1 and {MOST_PROJECTIONS}, got {self.count}")
        if not 0.5 <= self.clip <= 10:
            raise InputError(f"clip must lie between 0.5 and 10 half diagonals, got {self.clip!r}")

    @cached_property
    def lattice(self) -> Lattice:
        """Grid of the values."""
        exponents = [math.ceil(math.log2(half)) - VALUE_BITS for half in self.bounds.half_widths]
        return Lattice(self.bounds, tuple(exponents))

    @cached_property
    def _integers(self) -> tuple[Floats, float]:
        """Whole weights of the lattice's coordinates, shape (columns, k), and the length of one unit of an image."""
        columns = self.bounds.dimension
        normals = PublicStream(self.seed, "distance projections").normals(self.count * columns)
        exact = normals.reshape(self.count, columns).T / (BETA * self.count) * self.lattice.steps[:, None]
        room = PRODUCT_BITS - math.ceil(math.log2(columns * (self.lattice.reach.max() + 1)))
        exponent = math.ceil(math.log2(np.abs(exact).max())) - room
        return np.rint(np.ldexp(exact, -exponent)), math.ldexp(1.0, exponent)

    @cached_property
    def box(self) -> Box:
        """Where the images lie after clipping."""
        weights, unit = self._integers
        range_ = np.abs(weights).T @ (self.lattice.reach + 1) * unit
        radius = math.sqrt(float(np.square(self.bounds.half_widths).sum()))
        reach = np.minimum(range_, self.clip * radius / (BETA * self.count))
        return Box.centred(reach)

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


@dataclass(frozen=True, eq=False)
class ProjectedQuantizer(LinearQuantizer):
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

    def __post_init__(self) -> None:
        if self.inner.box != self.projection.box or self.inner.metric != Distance("l1"):
            raise InputError("the structure behind a projection must be one for l1 over the projection's own box")

    @property
    def box(self) -> Box:
        """The declared box of the points."""
        return self.projection.bounds

    @property
    def width(self) -> int:
        """Sums of the inner structure."""
        return self.inner.size

    @property
    def sparsity(self) -> int:
        """Sums that a record touches."""
        return self.inner.sparsity

    @property
    def bound(self) -> Bound:
        """Bounds of the inner structure, which hold for every image."""
        return self.inner.bound

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        return self.inner.encode(self.projection.place(rows), coins)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return self.inner.accumulate(self.projection.place(rows), sums, coins)

    def weights(self, Y: Floats) -> Floats:
        """Weights of the inner structure at the images."""
        return self.inner.weights(self.projection.apply(Y))

    def read(self, Y: Floats, sums: Floats) -> Reading:
        """Add up the projections; their spread shows noise and embedding."""
        columns = self.inner.read_columns(self.projection.apply(Y), sums)
        total, squares, count = columns.totals.sum(axis=1), columns.squares.sum(axis=1), self.projection.count
        spread = count * columns.totals.var(axis=1, ddof=1) / squares if count > 1 else np.full(len(Y), np.inf)
        product = columns.count_products.sum(axis=1)
        return Reading(total, squares, columns.biases.sum(axis=1), spread, product)

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
            "inner": inner,
        }
        return document, arrays

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> ProjectedQuantizer:
        """Rebuild from a release."""
        from sfumato.quantizers import quantizer_from_document

        if int(document["projections"]) > size:
            raise ReleaseFileError(f"the header describes more projections than its {size} sums have room for")
        box = Box.from_document(document["box"])
        seed, clip = int(document["seed"]), float(document["clip"])
        projection = Projection(box, int(document["projections"]), seed, clip)
        inner = {**document["inner"], "box": projection.box.to_document()}
        made = quantizer_from_document(inner, arrays, Distance("l1"), size)
        if not isinstance(made, ColumnSums):
            raise ReleaseFileError(f"projections are read by a structure of columns, not by {made.name}")
        return cls(projection, made)
