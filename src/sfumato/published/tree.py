"""The published structure: a binary tree of noisy counts in every column, read by geometric intervals.

Source: Algorithms 1 to 4 and Corollary D.3 of Backurs et al. (2024). The leaves are 2^H equal cells of the column
and every node counts the records below it. A distance query cuts the column around y into intervals whose ends are at
distances (1 + a)^-j, answers each from the fewest nodes that tile it, and weighs its count with the larger distance.
For |x - y|^p, a is taken p times smaller and the distance to the p-th power.

Bound. A record adds the level's scale to one node of every level, hence l1 = the sum of the scales, in every column.

Error. The weights are too large by a factor between 1 and 1 + a, and about half of that on average (the stated bias);
the noise is that of a few nodes on every level for each of the many intervals.
Queries beyond the bounds: the nearest end, plus the count times the rest of the way (for p > 1 the intervals start at
the far end of the column).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.distances.columns import ColumnReading, ColumnSums, HoldsCounts, RowByRow, kept_row
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Flag, Many, Real, Schema, Whole
from sfumato.quantizers.base import Bound, Floats, Integers
from sfumato.quantizers.clamping import held
from sfumato.quantizers.described import described

MOST_DEPTH = 22
LARGEST_SCALE = 1 << 30
ALPHAS = Real(1e-3, 0.9999)  # a query looks at log(2^depth) / alpha intervals


@dataclass(frozen=True, eq=False)
class BinaryTree(RowByRow, ColumnSums, HoldsCounts):
    """Counts of every column in the nodes of a binary tree, from the root down.

    Attributes
    ----------
    metric, bounds
        As in `ColumnSums`.
    scales : tuple of int
        What a record adds to its node of every level, root first.
    counted : bool
        Whether the published number of records is read off the trees.
    """

    scales: tuple[int, ...]
    counted: bool = True

    schema: ClassVar[Schema] = described(
        "tree", scales=Many(Whole(1, LARGEST_SCALE), most=MOST_DEPTH + 1, least=2), counted=Flag()
    )

    def __post_init__(self) -> None:
        if not 2 <= len(self.scales) <= MOST_DEPTH + 1 or not all(1 <= s <= LARGEST_SCALE for s in self.scales):
            raise InputError(f"a tree has 1 to {MOST_DEPTH} levels below its root, each with a positive scale")
        _ = self.metric.power  # refuses l2

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.scales) - 1

    @property
    def leaves(self) -> int:
        """Cells of a column."""
        return 1 << self.depth

    @property
    def column_size(self) -> int:
        """Nodes of a tree."""
        return 2 * self.leaves - 1

    @property
    def bound(self) -> Bound:
        """Every column adds its levels."""
        columns, scales = self.dimension, self.scales
        touched = columns * len(scales)
        return Bound(columns * sum(scales), columns * sum(scale**2 for scale in scales), max(scales), touched)

    @cached_property
    def _places(self) -> tuple[Floats, Floats, bool, Floats, Integers]:
        lower, upper = np.array(self.bounds.lower), np.array(self.bounds.upper)
        return lower, upper, self.bounds.outside == "drop", self.leaves / (upper - lower), np.array(self.scales)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return int(_add(rows, *self._places, sums))

    def counts_between(self, sums: Floats, noise: float, ends: list[Floats], column: int) -> tuple[Floats, Floats]:
        """Add up the fewest nodes that tile each interval, its ends rounded to leaves."""
        own = sums[self.part(column)]
        first, last = (np.clip(np.rint(self.relative(end, column) * self.leaves), 0, self.leaves) for end in ends)
        pairs = list(zip(first.astype(int).tolist(), last.astype(int).tolist(), strict=True))
        tilings = [list(self._tiling(begin, end)) for begin, end in pairs]
        errors = [math.sqrt(noise * sum(self.scales[level] ** -2.0 for level, _ in nodes)) for nodes in tilings]
        counts = [sum(own[(1 << level) - 1 + node] / self.scales[level] for level, node in nodes) for nodes in tilings]
        return np.array(counts, dtype=np.float64), np.array(errors, dtype=np.float64)

    def _tiling(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the level and place of the fewest nodes that tile the leaves from `begin` to before `end`."""
        level = self.depth
        while begin < end:
            if begin & 1:
                yield level, begin
                begin += 1
            if end & 1:
                end -= 1
                yield level, end
            begin, end, level = begin >> 1, end >> 1, level - 1


@dataclass(frozen=True, eq=False)
class IntervalTree(BinaryTree):
    """Trees that are read by geometric intervals, see the module's text.

    Attributes
    ----------
    alpha : float
        Relative width of the intervals, between 0 and 1.

    Examples
    --------
    >>> from sfumato.kernels import Distance
    >>> from sfumato.quantizers import Box
    >>> tree = IntervalTree(Distance("l1"), Box((0.0,), (1.0,)), scales=(1,) * 11)
    >>> sums = tree.encode(np.array([[0.2]])).sum(axis=0)
    >>> tree.weigh(np.array([[0.7]]), sums.astype(float)).total.round(3)
    array([0.513])
    """

    alpha: float = 0.1

    name: ClassVar[str] = "interval-tree"
    schema: ClassVar[Schema] = BinaryTree.schema.extended({"quantizer": name}, alpha=ALPHAS)

    def __post_init__(self) -> None:
        super().__post_init__()
        ALPHAS.read(self.alpha, "alpha")

    def read_columns(self, Y: Floats, sums: Floats) -> ColumnReading:
        """Answer the intervals around every query."""
        totals, squares, products = (np.zeros(Y.shape) for _ in range(3))
        for column, unit in enumerate(self.lengths**self.metric.power):
            own, root = sums[self.part(column)], self.scales[0]
            inside, beyond = self._split(self.relative(Y[:, column], column))
            total, square = self._intervals(inside, own, np.empty((0, 0)))
            totals[:, column] = unit * (total + beyond * own[0] / root)
            squares[:, column] = unit**2 * (square + (beyond / root) ** 2)
            if self.counted:  # no interval holds the root, so only the way beyond the bounds shares its noise
                products[:, column] = unit * beyond * self.count_squares
        biases = self.alpha / 2 * np.abs(totals) / max(self.count(sums), 1.0)
        return ColumnReading(totals, squares, biases, products)

    def _split(self, y: Floats) -> tuple[Floats, Floats]:
        """Cut the way to a query at the column's end, for distances to the first power."""
        inside = np.clip(y, 0.0, 1.0) if self.metric.power == 1 else y
        return inside, np.abs(y - inside)

    def _intervals(self, y: Floats, sums: Floats, weights: Floats) -> tuple[Floats, Floats]:
        ratio, power = 1 + self.alpha / self.metric.power, self.metric.power
        reach = np.maximum(1.0, np.maximum(y, 1 - y))
        steps = math.ceil(math.log(self.leaves * float(reach.max(initial=1.0))) / math.log(ratio)) + 1
        totals, squares = _read(y, reach, ratio, power, steps, sums, np.array(self.scales), weights)
        return totals, squares

    def weights(self, Y: Floats) -> Floats:
        """Weights of all sums, shape (queries, size); `read` is the way to answer many queries."""
        result = np.zeros((len(Y), self.size))
        for column, unit in enumerate(self.lengths**self.metric.power):
            inside, beyond = self._split(self.relative(Y[:, column], column))
            own = np.zeros((len(Y), self.column_size))
            self._intervals(inside, np.zeros(self.column_size), own)
            own[:, 0] += beyond / self.scales[0]
            result[:, self.part(column)] = unit * own
        return result

    def count(self, sums: NDArray[Any]) -> float:
        """Return the mean of the columns' roots."""
        return float(sums[:: self.column_size].mean() / self.scales[0])

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights of that number."""
        return 1 / (self.dimension * self.scales[0] ** 2)


@njit(nogil=True, cache=True)
def _add(rows, lower, upper, drop, inverse, scales, sums):  # type: ignore[no-untyped-def]
    """Count the rows that the box keeps in the nodes above their leaves, and return how many those were."""
    columns, depth = rows.shape[1], len(scales) - 1
    values = np.empty(columns)
    kept = 0
    for i in range(rows.shape[0]):
        if not kept_row(rows[i], lower, upper, drop, values):
            continue
        kept += 1
        for j in range(columns):
            cell = held((values[j] - lower[j]) * inverse[j], 0, (1 << depth) - 1)
            start = j * ((2 << depth) - 1)
            for level in range(depth + 1):
                sums[start + (1 << level) - 1 + (cell >> (depth - level))] += scales[level]
    return kept


@njit(reads=True, nogil=True, cache=True)
def _read(y, reach, ratio, power, steps, sums, scales, weights):  # type: ignore[no-untyped-def]
    """Return sums and squared weights of the intervals around every query; write the weights where there is room."""
    depth = len(scales) - 1
    leaves = 1 << depth
    totals, squares = np.zeros(len(y)), np.zeros(len(y))
    for q in range(len(y)):
        middle = np.rint(y[q] * leaves)
        far = reach[q]
        for _ in range(steps):
            out = np.rint(far * leaves)
            if out == 0.0 or middle - out >= leaves or middle + out <= 0.0:
                break  # what is left lies within the query's own leaf, or on its side of a box that it is beyond
            near = far / ratio
            for side in (-1, 1):
                begin = held(middle + side * np.rint((near if side > 0 else far) * leaves), 0, leaves)
                end = held(middle + side * np.rint((far if side > 0 else near) * leaves), 0, leaves)
                level = depth
                while begin < end:  # the fewest nodes that tile [begin, end), from the leaves up
                    weight = far**power / scales[level]
                    if begin & 1:
                        node = (1 << level) - 1 + begin
                        totals[q] += weight * sums[node]
                        squares[q] += weight**2
                        if weights.shape[0]:
                            weights[q, node] += weight
                        begin += 1
                    if end & 1:
                        end -= 1
                        node = (1 << level) - 1 + end
                        totals[q] += weight * sums[node]
                        squares[q] += weight**2
                        if weights.shape[0]:
                            weights[q, node] += weight
                    begin >>= 1
                    end >>= 1
                    level -= 1
            far = near
    return totals, squares
