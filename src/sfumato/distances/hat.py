"""The hat structure: every column's records on a few nodes and on dyadic levels of hats, for any |x - y|^p.

Source: this library (it takes the place of the noisy binary tree of appendix B of Backurs et al. (2024)).

Structure. A column's range is cut into `bins` equal bins. A record at the fraction t of its bin adds the weights 1 - t
and t to the two nodes around it (linear binning), and on level l = 0, 1, ... the height u_l in [0, 1] of the hat over
its cell of the bin's 2^l. These are the Faber-Schauder coordinates of the column: a continuous function phi is

    phi(x) = sum_k phi(node k) lambda_k(x) + sum_l sum_c (phi(mid c) - (phi(left c) + phi(right c)) / 2) hat_c(x),

so one release answers sum_x phi(x) for every phi, with these coefficients as weights. For phi = |x - y| only the cells
that hold y have a weight, minus their half width times the hat's height at y, also for y beyond the bounds, where no
cell has one. Cutting the series after L levels replaces phi by its linear interpolation at the ends of the last cells.

Integers. A position is a multiple of 2^-30 bins, and u_0 = tri(t), u_(l+1) = tri(u_l) = min(2 u_l, 2 - 2 u_l) hold
exactly in integers. With scales s (nodes) and S_l (levels) a record adds s - floor(s t), floor(s t), floor(S_l u_l).

Guarantee. The norms below prove how much one record adds to a column at most, in l1 and in l2; columns add up in both.
Laplace noise of rate epsilon / l1 is epsilon-DP, Gaussian noise scaled to l2 (epsilon, delta)-DP; the levels' budgets
are in the scales, and one law serves all sums.

Error. Noise of variance V on every sum gives an answer the variance V |g(y)|^2, which `read` computes. Bias: the
linear interpolation in the last cells, of width w of a column of width R, is too large by (w / 2)^p at most for one
record, which records in the cell of y reach, and by w^2 R^(p-2) / 6 on average over records and queries spread evenly.

Norms of one record's integers in one column, by the scales s of the nodes and S_l of the levels:

l1. The nodes sum to s exactly. For numbers c_l >= 0 with c_l + c_(l-1) / 2 >= S_l, u_(l+1) <= 2 - 2 u_l gives sum_l
S_l u_l <= sum_l c_l (u_l + u_(l+1) / 2) <= sum_l c_l; the least such numbers are c_l = max(0, S_l - c_(l-1) / 2), and
where none is cut off at 0 a record reaches the bound. For S_l = rho^l, rho >= 1/2, it is below (2/3) / (1 - rho).

l2. t (1 - t) = u_0^2 / 4 + u_0 (1 - u_0) / 2, hence t (1 - t) = sum_l 2^-l u_l^2 / 4 (the variance of a Brownian
bridge by levels). So S_l^2 <= s^2 / 2^(l+1) gives s^2 ((1 - t)^2 + t^2) + sum_l S_l^2 u_l^2 <= s^2: the hats are free.
Rounding adds at most 2 s + 2. With other scales the sum of all largest squares is the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.distances.columns import ColumnReading, ColumnSums, RowByRow, kept_row
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Flag, Many, Schema, Whole
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.quantizers.base import Bound, Floats, Integers
from sfumato.quantizers.clamping import held
from sfumato.quantizers.described import described


@lru_cache(maxsize=4096)
def largest_l1(scales: tuple[int, ...]) -> int:
    """Bound the l1 norm of one record's integers in one column, by scales of nodes and levels.

    Examples
    --------
    >>> largest_l1((100, 40, 25))
    145
    """
    total = carried = 0  # twice to the power of the level times c_l and their sum
    for level, scale in enumerate(scales[1:]):
        carried = max(0, (scale << level) - carried)
        total = 2 * total + carried if level else carried
    return scales[0] + (total >> max(len(scales) - 2, 0))


@lru_cache(maxsize=4096)
def largest_l2_squared(scales: tuple[int, ...]) -> int:
    """Bound the squared l2 norm of one record's integers in one column, by scales of nodes and levels.

    Examples
    --------
    >>> largest_l2_squared((100, 70, 50)), largest_l2_squared((100, 80))
    (10202, 16602)
    """
    nodes = scales[0]
    fits = all(scale**2 << (1 + level) <= nodes**2 for level, scale in enumerate(scales[1:]))
    hats = 0 if fits else sum(scale**2 for scale in scales[1:])
    return nodes**2 + hats + 2 * nodes + 2


BITS = 30  # of a position within a bin
PROFILE_BITS = 24  # of a level's share of a column's unit
LARGEST_UNIT = 1 << 30
MOST_LEVELS = 24
MOST_BINS = 64
WEIGHTS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class HatQuantizer(RowByRow, ColumnSums):
    """Nodes and hats of every column; see the module's text.

    Attributes
    ----------
    metric, bounds
        As in `ColumnSums`; the distance's power p sets the weights of queries.
    bins : int
        Bins of a column.
    units : tuple of int
        Scale of each column's integers.
    profile : tuple of int
        Scales of the nodes and of every level, in units of 2^-24 times the column's unit.
    counted : bool
        Whether the published number of records is read off the nodes.

    Examples
    --------
    >>> from sfumato.kernels import Distance
    >>> from sfumato.quantizers import Box
    >>> hats = HatQuantizer(Distance("l1"), Box((0.0,), (1.0,)), bins=2, units=(1000,), profile=(1 << 24, 1 << 23))
    >>> hats.encode(np.array([[0.1], [0.5]]))
    array([[ 800,  200,    0,  200,    0],
           [   0, 1000,    0,    0,    0]])
    >>> hats.weigh(np.array([[0.25]]), np.array([1000.0, 0, 0, 0, 0])).total
    array([0.25])
    """

    bins: int
    units: tuple[int, ...]
    profile: tuple[int, ...]
    counted: bool = True

    name: ClassVar[str] = "hat"
    schema: ClassVar[Schema] = described(
        name,
        bins=Whole(1, MOST_BINS),
        units=Many(Whole(1, LARGEST_UNIT), most=MOST_COLUMNS),
        profile=Many(Whole(1, 1 << PROFILE_BITS), most=MOST_LEVELS + 1, least=1),
        counted=Flag(),
    )

    def __post_init__(self) -> None:
        if len(self.units) != self.bounds.dimension:
            raise InputError(f"hats over {self.bounds.dimension} columns need a unit for each, got {len(self.units)}")
        if not 1 <= self.bins <= MOST_BINS or not 1 <= len(self.profile) <= MOST_LEVELS + 1:
            raise InputError(f"hats have 1 to {MOST_BINS} bins and at most {MOST_LEVELS} levels")
        if not all(1 <= unit <= LARGEST_UNIT for unit in self.units):
            raise InputError(f"units of hats must lie between 1 and {LARGEST_UNIT}")
        if not all(1 <= share <= 1 << PROFILE_BITS for share in self.profile) or not self.scales.all():
            raise InputError("a level's share of its column must be positive, at most 1, and leave an integer scale")
        _ = self.metric.power  # refuses l2

    @property
    def levels(self) -> int:
        """Levels of hats."""
        return len(self.profile) - 1

    @property
    def column_size(self) -> int:
        """Integers of one column: nodes, then the cells of every level."""
        return self.bins + 1 + self.bins * ((1 << self.levels) - 1)

    @cached_property
    def scales(self) -> Integers:
        """Scales of nodes and levels, shape (columns, 1 + levels)."""
        return np.array([[unit * share >> PROFILE_BITS for share in self.profile] for unit in self.units])

    @cached_property
    def bound(self) -> Bound:
        """Bounds of one record, proved in the module's text."""
        rows = [tuple(map(int, row)) for row in self.scales]
        return Bound(
            l1=sum(map(largest_l1, rows)),
            l2_squared=sum(map(largest_l2_squared, rows)),
            largest=int(self.scales.max()),
            touched=self.dimension * (2 + self.levels),  # two nodes and a cell of every level, in every column
        )

    @property
    def last_cell(self) -> float:
        """Width of a cell of the last level (of a bin, without levels), as a share of its column."""
        return 1 / (self.bins << self.levels)

    @cached_property
    def _places(self) -> tuple[Floats, Floats, bool, Floats]:
        lower, upper = np.array(self.bounds.lower), np.array(self.bounds.upper)
        return lower, upper, self.bounds.outside == "drop", (self.bins << BITS) / (upper - lower)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return int(_add(rows, *self._places, self.bins, self.scales, sums))

    def read_columns(self, Y: Floats, sums: Floats) -> ColumnReading:
        """Weigh the sums of every column with the coefficients of |x - y|^p."""
        totals, squares, products = (np.zeros(Y.shape) for _ in range(3))
        units, first = self.lengths**self.metric.power, np.arange(self.dimension)[:, None] * self.column_size
        for rows, columns in self._blocks(len(Y)):
            block, own, unit = (rows, columns), sums[columns.start * self.column_size :], units[columns]
            for level, (index, weight) in enumerate(self._terms(self.relative(Y[block], columns), columns)):
                totals[block] += unit * (weight * np.take(own, first[: len(unit)] + index)).sum(axis=-1)
                squares[block] += unit**2 * np.square(weight).sum(axis=-1)
                if level == 0 and self.counted:
                    products[block] += unit * self.count_weights[columns] * weight.sum(axis=-1)
        return ColumnReading(totals, squares, np.broadcast_to(self.even_biases, Y.shape), products)

    def _blocks(self, queries: int) -> Iterator[tuple[slice, slice]]:
        """Yield queries and columns whose weights fit in memory at once."""
        pairs = max(1, WEIGHTS_AT_ONCE // (self.bins + 1 if self.metric.power == 1 else self.column_size))
        rows = max(1, min(queries, pairs))
        for start in range(0, queries, rows):
            for column in range(0, self.dimension, pairs // rows):
                yield slice(start, start + rows), slice(column, column + pairs // rows)

    def weights(self, Y: Floats) -> Floats:
        """Weights of all sums, shape (queries, size); `read` is the way to answer many queries."""
        result, every = np.zeros((len(Y), self.dimension, self.column_size)), np.arange(self.dimension)[:, None]
        for index, weight in self._terms(self.relative(Y, slice(None)), slice(None)):
            np.add.at(result, (np.arange(len(Y))[:, None, None], every, index), weight)
        result *= (self.lengths**self.metric.power)[:, None]
        return result.reshape(len(Y), self.size)

    def _terms(self, y: Floats, columns: slice) -> Iterator[tuple[Integers, Floats]]:
        """Yield nodes, then levels: indices in a column's sums, and weights of shape (queries, columns, terms)."""
        scale, power = self.scales[columns], self.metric.power
        nodes = np.arange(self.bins + 1)
        yield nodes, np.abs(y[..., None] - nodes / self.bins) ** power / scale[:, :1]
        for level in range(self.levels):
            cells, first = self.bins << level, 1 + (self.bins << level)
            if power == 1:
                cell = np.clip(np.floor(y * cells), 0, cells - 1).astype(np.int64)
                height = np.maximum(0.0, 0.5 - np.abs(y * cells - cell - 0.5))
                yield (first + cell)[..., None], (-height / cells / scale[:, 1 + level])[..., None]
            else:
                yield first + np.arange(cells), kinks(y, cells, power) / scale[:, 1 + level, None]

    @cached_property
    def count_weights(self) -> Floats:
        """Weight of every node of a column in the number of records: the columns' counts, each as far as it is sure."""
        scales = self.scales[:, 0].astype(np.float64)
        return np.asarray(scales / np.square(scales).sum())

    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records that the nodes show."""
        nodes = sums.reshape(self.dimension, self.column_size)[:, : self.bins + 1]
        return float(self.count_weights @ nodes.sum(axis=1))

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights of that number."""
        return float((self.bins + 1) * np.square(self.count_weights).sum())

    @property
    def even_biases(self) -> Floats:
        """Bias of every column per record, if records and queries are spread evenly over it."""
        return self.lengths**self.metric.power * self.last_cell**2 / 6

    @property
    def worst_bias(self) -> float:
        """Bias per record if all records share the query's last cell, and lie at the worst place in it."""
        return float(((self.last_cell / 2 * self.lengths) ** self.metric.power).sum())


def kinks(y: Floats, cells: int, power: float) -> Floats:
    """Coefficients of |x - y|^power in the hats over equal cells of [0, 1], shape (..., cells)."""
    halves = np.abs(y[..., None] - np.arange(2 * cells + 1) / (2 * cells)) ** power
    return np.asarray(halves[..., 1::2] - (halves[..., :-1:2] + halves[..., 2::2]) / 2)


@njit(nogil=True, cache=True)
def _add(rows, lower, upper, drop, inverse, bins, scales, sums):  # type: ignore[no-untyped-def]
    """Add the integers of the rows that the box keeps to `sums`, and return how many those were."""
    columns, levels = scales.shape[0], scales.shape[1] - 1
    size = bins + 1 + bins * ((1 << levels) - 1)
    one = np.int64(1) << BITS
    values = np.empty(columns)
    kept = 0
    for i in range(rows.shape[0]):
        if not kept_row(rows[i], lower, upper, drop, values):
            continue
        kept += 1
        for j in range(columns):
            # One subtraction and one product, each rounded once: the same position on every machine.
            position = held(np.rint((values[j] - lower[j]) * inverse[j]), 0, bins * one)
            start = j * size
            cell = min(position >> BITS, bins - 1)
            part = position - (cell << BITS)
            right = (scales[j, 0] * part) >> BITS
            sums[start + cell] += scales[j, 0] - right
            sums[start + cell + 1] += right
            height = part
            start += bins + 1
            for level in range(levels):
                height = 2 * min(height, one - height)
                cells = bins << level
                cell = min(position >> (BITS - level), cells - 1)
                sums[start + cell] += (scales[j, 1 + level] * height) >> BITS
                start += cells
    return kept
