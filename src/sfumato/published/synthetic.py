"""Records on a public grid: an exact histogram to be read by a mechanism, and synthetic records in its place.

`GridRecords` moves a record to the nearest node of a grid over the box and adds `scale` there, so l1 = l2 = scale. A
mechanism that publishes synthetic records keeps the layout: `scale` times the number of records at each node, and in
the last place `scale` times its own measure of the largest error of a sum, which a query's error bar shows. Such
a release is read as what it stands for, a set of records: the sum of k(node, y) times the number there.

`Constant` is the reading of a release that says the same for every query.

Moving records costs accuracy: up to half a spacing, which changes a smooth density by about spacing^2 / 24 of its
second derivative (in bandwidths), of which the bias takes twice the density as typical.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Many, Real, Schema, Whole
from sfumato.public.ranges import MOST_COLUMNS, MOST_RECORDS, size_of
from sfumato.published.common import LARGEST_SCALE
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, LinearReader, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import kept_rows, midpoints, whole_within
from sfumato.quantizers.described import Described, described
from sfumato.quantizers.portable_kernels import PortableKernel, axis_lengths, refuse_columns

MOST_NODES = 1 << 18  # of a column, and in all


@dataclass(frozen=True, eq=False)
class GridRecords(Described, LinearQuantizer):
    """Numbers of records at the nodes of a grid.

    Attributes
    ----------
    kernel : Kernel
        A product over the columns, with portable values.
    bounds : Box
        The public box.
    nodes : tuple of int
        Nodes of each column, in the middles of equal parts.
    scale : int
        What stands for one record.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> grid = GridRecords(Gaussian(1.0), Box((0.0,), (3.0,)), (3,), scale=10)
    >>> grid.encode(np.array([[0.2], [2.9]]))
    array([[10,  0,  0,  0],
           [ 0,  0, 10,  0]])
    """

    kernel: Any
    bounds: Box
    nodes: tuple[int, ...]
    scale: int = 1

    name: ClassVar[str] = "grid-records"
    schema: ClassVar[Schema] = described(
        name, nodes=Many(Whole(1, MOST_NODES), most=MOST_COLUMNS), scale=Whole(1, LARGEST_SCALE)
    )

    def __post_init__(self) -> None:
        reason = refuse_columns(self.kernel)
        if reason is not None:
            raise InputError(f"a grid of records does not apply: {reason}")
        if len(self.nodes) != self.bounds.dimension or min(self.nodes) < 1 or self.scale < 1:
            raise InputError(f"a box of {self.bounds.dimension} columns has no grid of {self.nodes} nodes")
        self.kernel.scale.check(self.bounds.dimension)

    @property
    def cells(self) -> int:
        """Nodes of the grid."""
        return size_of(self.nodes)

    @property
    def width(self) -> int:
        """One number a node, and the error."""
        return self.cells + 1

    @property
    def bound(self) -> Bound:
        """One node, once."""
        return Bound(l1=self.scale, l2_squared=self.scale**2, largest=self.scale)

    @cached_property
    def columns(self) -> list[Floats]:
        """Places of the nodes in each column."""
        edges = zip(self.bounds.lower, self.bounds.upper, self.nodes, strict=True)
        return [midpoints(low, high, count) for low, high, count in edges]

    def axis_values(self, column: int, y: Floats) -> Floats:
        """Kernel factor of one column between its nodes and places, shape (nodes, len(y))."""
        return PortableKernel(self.kernel).axis(column, len(self.nodes), self.columns[column], y)

    @property
    def query_numbers(self) -> int:
        """The first column's factors, or what is left of the sums after it."""
        return max(self.nodes[0], self.size // self.nodes[0])

    def places(self, rows: NDArray[Any]) -> Integers:
        """Node of each kept row."""
        kept = kept_rows(self.bounds, rows)
        place = np.zeros(len(kept), dtype=np.int64)
        for column, count in enumerate(self.nodes):
            low, high = self.bounds.lower[column], self.bounds.upper[column]
            place = place * count + whole_within((kept[:, column] - low) / (high - low) * count, 0, count - 1)
        return place

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        place = self.places(rows)
        encoded = np.zeros((len(place), self.size), dtype=np.int64)
        encoded[np.arange(len(place)), place] = self.scale
        return encoded

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Count the rows at each node."""
        place = self.places(rows)
        sums += self.scale * np.bincount(place, minlength=self.size)
        return len(place)

    def weights(self, Y: Floats) -> Floats:
        """Kernel values at the nodes, over the scale."""
        product = np.full((len(Y), 1), 1 / self.scale)
        for column in range(self.dimension):
            factor = self.axis_values(column, Y[:, column]).T
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(Y), -1)
        return np.hstack([product, np.zeros((len(Y), 1))])

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Sum the kernel over the synthetic records; their measured error is the bias."""
        partial = sums[:-1] / self.scale
        for column in range(self.dimension):
            factor = self.axis_values(column, Y[:, column])
            if column == 0:
                partial = factor.T @ partial.reshape(self.nodes[0], -1)
            else:
                partial = np.einsum("nq,qnr->qr", factor, partial.reshape(len(Y), self.nodes[column], -1))
        records = max(float(sums[:-1].sum()), float(self.scale)) / self.scale
        measured = max(float(sums[-1]), 0.0) / self.scale / records
        moved = self.displacement * np.abs(partial[:, 0]) / records
        return Reading(partial[:, 0], np.zeros(len(Y)), np.hypot(measured, moved))

    @property
    def displacement(self) -> float:
        """What moving records to nodes does to a density, as a fraction of it: spacing^2 / 24 of 2 for each column."""
        lengths = axis_lengths(self.kernel, self.dimension)
        spacings = 2 * self.bounds.half_widths / np.array(self.nodes) / lengths
        return float(np.square(spacings).sum()) / 12


@dataclass(frozen=True, eq=False)
class Constant(Described, LinearReader):
    """One published number, the same answer to every query; records are not encoded by it.

    Attributes
    ----------
    bounds : Box
        Where the records lived.
    scale : int
        What stands for one record's similarity.
    noise_weight : float
        Weight of the mechanism's noise in the published sum.
    spread : float
        How far densities typically lie from their mean, as a fraction of it.
    records : int
        Public guess of the number of records.
    """

    bounds: Box
    scale: int
    noise_weight: float
    spread: float
    records: int

    name: ClassVar[str] = "constant"
    schema: ClassVar[Schema] = described(
        name,
        scale=Whole(1, LARGEST_SCALE),
        noise_weight=Real(0.0, 1e6),
        spread=Real(0.0, 1e6),
        records=Whole(1, MOST_RECORDS),
    )

    @property
    def width(self) -> int:
        """One number."""
        return 1

    def weights(self, Y: Floats) -> Floats:
        """Read the number, over its scale."""
        return np.full((len(Y), 1), 1 / self.scale)

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Say the same to everyone; the bias is how far densities typically lie from their mean."""
        total = float(sums[0]) / self.scale
        size = len(Y)
        bias = self.spread * max(total, 0.0) / self.records
        return Reading(np.full(size, total), np.full(size, self.noise_weight**2), np.full(size, bias))
