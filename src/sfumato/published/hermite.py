"""The Hermite expansion of the Gaussian kernel, cell by cell, on integers.

Source: the fast Gauss transform as used in sections 3.2, B.1 and E.1 of Wagner et al. (2023). With u = x over the
bandwidth, space is cut into the cells of side 1 whose corners are whole numbers; a record in the cell with centre z
adds prod_j (u_j - z_j)^r_j to that cell's orders r_1, ..., r_d < rho, and a query reads them with prod_j h_{r_j}(v_j -
z_j) / r_j!, h_r the Hermite functions, because e^(-(u - v)^2) = sum_r (u - z)^r h_r(v - z) / r!. Only the cells that
meet the public box are kept.

Bound of one record, order by order (the refinement of B.1). |u_j - z_j| <= 1/2, so order r is at most 2^-|r|. The
powers are products of dyadic bounds, and correct rounding never passes a power of two: the integer `rint(2^B prod_j
(u_j - z_j)^r_j)` is at most 2^(B - |r|), or 0 where that is below 1. l1 is the sum of these bounds over the orders, at
most 2^B (2 - 2^(1 - rho))^d, and is taken from the integers themselves. (B.1 prints (2 - 2^(2 - rho))^d, which is too
small; the released code of the source has it right.)

The cut-off. As published, a query reads the cells whose centre lies within sqrt(rho) of it, and leaves out others
however much of the kernel they hold: at rho = 4 a record 1.3 bandwidths away, where the kernel is 0.18, may be missed.
"fixed" reads every cell with a point within 4 bandwidths, beyond which the kernel is below 2e-7.

J repetitions release the same sums J times, each with noise of its own, and answer by the median.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Schema, Text, Whole, brief
from sfumato.public.ranges import size_of
from sfumato.published.common import DENSITY
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import held, kept_rows, midpoints, raised_bias, relative_misfit
from sfumato.quantizers.described import Described, described
from sfumato.quantizers.portable_kernels import axis_lengths

CUTOFFS = ("published", "fixed")
FIXED_REACH = 4.0
MOST_RHO = 32
MISFIT_POINTS = 8
# Cells of a column that a query looks at: more than it can read (MOST_RHO), and all that the misfit feels.
WINDOW = 16
# Queries times cells that are looked at together.
BLOCK_CELLS = 1 << 21


@dataclass(frozen=True, eq=False)
class HermiteQuantizer(Described, LinearQuantizer):
    """Orders below rho of the expansion around each cell's centre.

    Attributes
    ----------
    kernel : Gaussian
        With one bandwidth or one a column.
    bounds : Box
        The public box.
    rho : int
        Orders of one column.
    cutoff : {"published", "fixed"}
        Which cells a query reads, see the module's text.
    repetitions : int
        J.
    bits : int
        B: the integer 2^B stands for 1.
    density : float
        Public guess of the density: the least for which the bias is stated.

    Examples
    --------
    >>> quantizer = HermiteQuantizer(Gaussian(1.0), Box((0.0,), (2.0,)), rho=3, bits=10)
    >>> quantizer.encode(np.array([[1.25]]))
    array([[   0,    0,    0, 1024, -256,   64]])
    >>> quantizer.bound.l1
    1792
    """

    kernel: Any
    bounds: Box
    rho: int
    cutoff: str = "published"
    repetitions: int = 1
    bits: int = 20
    density: float = 0.02

    name: ClassVar[str] = "hermite"
    schema: ClassVar[Schema] = described(
        name,
        rho=Whole(1, MOST_RHO),
        cutoff=Text(*CUTOFFS),
        repetitions=Whole(1, 1 << 20),
        bits=Whole(1, 40),
        density=DENSITY,
    )

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Gaussian) or len(self.kernel.scale.shape) == 2:
            raise InputError("a Hermite expansion needs a gaussian kernel with one bandwidth, or one for each column")
        if self.cutoff not in CUTOFFS:
            raise InputError(f"cutoff must be 'published' or 'fixed', got {brief(self.cutoff)}")
        if not 1 <= self.rho <= MOST_RHO:
            raise InputError(f"rho must be from 1 to {MOST_RHO}, got {self.rho}")
        if self.repetitions < 1 or not 1 <= self.bits <= 40:
            raise InputError(f"{self.repetitions} repetitions of {self.bits} bits cannot be")
        self.kernel.scale.check(self.bounds.dimension)

    @cached_property
    def lengths(self) -> Floats:
        """Bandwidth of each column."""
        return axis_lengths(self.kernel, self.bounds.dimension)

    @cached_property
    def origin(self) -> Floats:
        """Lower corner of the first cell, in data units."""
        return first_corner(self.bounds, self.lengths)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Cells of each column."""
        return cells_of(self.bounds, self.lengths)

    @property
    def width(self) -> int:
        """All orders of all cells, once for each repetition."""
        return size_of((self.repetitions, *self.cells, *[self.rho] * self.dimension))

    @cached_property
    def bound(self) -> Bound:
        """Sums of the orders' own bounds, see the module's text."""
        largest = [(1 << (self.bits - total), many) for total, many in enumerate(self._totals) if total <= self.bits]
        return Bound(
            l1=self.repetitions * sum(value * many for value, many in largest),
            l2_squared=self.repetitions * sum(value**2 * many for value, many in largest),
            largest=1 << self.bits,
        )

    @property
    def _totals(self) -> list[int]:
        """How many orders have each total |r| = 0, 1, 2, ...: coefficients of (1 + t + ... + t^(rho - 1))^d."""
        counts = [1]
        for _ in range(self.dimension):
            grown = [0] * (len(counts) + self.rho - 1)
            for total, many in enumerate(counts):
                for order in range(self.rho):
                    grown[total + order] += many
            counts = grown
        return counts

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows: repetition by repetition, cell by cell, order by order."""
        kept = kept_rows(self.bounds, rows)
        encoded = np.zeros((len(kept), self.size // self.repetitions), dtype=np.int64)
        self._add(kept, encoded)
        return np.tile(encoded, (1, self.repetitions))

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to the sums of their cells."""
        kept = kept_rows(self.bounds, rows)
        once = np.zeros((1, self.size // self.repetitions), dtype=np.int64)
        self._add(kept, once)
        sums.reshape(self.repetitions, -1)[:] += once
        return len(kept)

    def _add(self, rows: Floats, out: Integers) -> None:
        """Add each row to its own row of `out`, or all of them to the only one."""
        add_orders(rows, self.origin, self.lengths, np.array(self.cells), self.rho, 2.0**self.bits, out)

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read the cells near each query; the median of the repetitions."""
        block = max(1, BLOCK_CELLS // math.prod(min(count, WINDOW) for count in self.cells))
        parts = [self._read(Y[start : start + block], sums) for start in range(0, len(Y), block)]
        totals, squares, misfits = (np.concatenate(part) for part in zip(*parts, strict=True))
        # A median of J answers has about pi / (2 J) times the variance of one.
        inflation = math.pi / (2 * self.repetitions) if self.repetitions > 1 else 1.0
        unit = 2.0**-self.bits
        total = np.asarray(np.median(totals, axis=1), dtype=np.float64)
        return Reading(total * unit, inflation * squares * unit**2, self.density * misfits)

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read answers; where they are larger than the guess of the density, so is the bias."""
        return raised_bias(self.weigh(Y, sums), self.density, known)

    def _read(self, Y: Floats, sums: Floats) -> tuple[Floats, Floats, Floats]:
        first, aways = self._aways(Y)
        tables = [scaled_hermite(away, self.rho) for away in aways]
        near, lengths = self._near(aways), np.array([away.shape[1] for away in aways])
        repeated = sums.reshape(self.repetitions, -1)
        totals, squares = contract(stacked(tables), first, lengths, np.array(self.cells), near, repeated, self.rho)
        return totals, squares, self._misfit(aways, tables, near)

    def weight_squares(self, Y: Floats) -> tuple[Floats, Floats]:
        """Return the sums of one repetition's squared weights, in units of 1, and the misfits: what a plan asks."""
        _, aways = self._aways(Y)
        tables = [scaled_hermite(away, self.rho) for away in aways]
        near, squares = self._near(aways), np.ones((len(Y), 1))
        for table in tables:
            squares = np.einsum("qc,qd->qcd", squares, np.square(table).sum(axis=2)).reshape(len(Y), -1)
        return (squares * near).sum(axis=1), self._misfit(aways, tables, near)

    def weights(self, Y: Floats) -> Floats:
        """Weights of all cells, zero beyond the cut-off; the mean over the repetitions."""
        dense = np.full((len(Y), 1, 1), 2.0**-self.bits / self.repetitions)
        _, aways = self._aways(Y, whole=True)
        for away in aways:
            table = scaled_hermite(away, self.rho)
            dense = np.einsum("qcr,qds->qcdrs", dense, table).reshape(
                len(Y), dense.shape[1] * table.shape[1], dense.shape[2] * table.shape[2]
            )
        once = np.where(self._near(aways)[:, :, None], dense, 0.0).reshape(len(Y), -1)
        return np.tile(once, (1, self.repetitions))

    def _aways(self, Y: Floats, whole: bool = False) -> tuple[Integers, list[Floats]]:
        """Return the first cell that each query looks at in each column, and how far it is from those cells' centres.

        It looks at the `WINDOW` cells around it: beyond them the kernel's square is below 1e-40 of what it is within.
        """
        firsts, aways = [], []
        for column, count in enumerate(self.cells):
            place = (Y[:, column] - self.origin[column]) / self.lengths[column]
            length = count if whole else min(count, WINDOW)
            first = np.clip(np.floor(place) - length // 2, 0, count - length)
            firsts.append(first.astype(np.int64))
            aways.append(place[:, None] - (first[:, None] + np.arange(length) + 0.5))
        return np.stack(firsts, axis=1), aways

    def _near(self, aways: list[Floats]) -> NDArray[np.bool_]:
        """Which cells each query reads, shape (queries, cells that it looks at)."""
        squares = np.zeros((len(aways[0]), 1))
        for away in aways:
            distance = np.abs(away)
            if self.cutoff == "fixed":
                distance = np.maximum(distance - 0.5, 0.0)  # to the nearest point of the cell, not to its centre
            squares = (squares[:, :, None] + np.square(distance)[:, None, :]).reshape(len(distance), -1)
        return np.asarray(squares <= (self.rho if self.cutoff == "published" else FIXED_REACH**2))

    def _misfit(self, aways: list[Floats], tables: list[Floats], near: NDArray[np.bool_]) -> Floats:
        """``|k(., y) - f.g(y)| / |k(., y)|`` in L2 over the cells at each query, truncation and cut-off together."""
        place = midpoints(-0.5, 0.5, MISFIT_POINTS)
        powers = np.power(place[:, None], np.arange(self.rho))
        exact = mixed = fitted = np.ones((len(near), 1))
        for away, table in zip(aways, tables, strict=True):
            kernel, fit = np.exp(-np.square(away[:, :, None] - place)), table @ powers.T
            exact = outer(exact, np.square(kernel).mean(axis=2))
            mixed = outer(mixed, (kernel * fit).mean(axis=2))
            fitted = outer(fitted, np.square(fit).mean(axis=2))
        return relative_misfit(exact.sum(axis=1), (mixed * near).sum(axis=1), (fitted * near).sum(axis=1))


def cells_of(box: Box, lengths: Floats) -> tuple[int, ...]:
    """Count the cells of one bandwidth that each column of a box meets.

    Examples
    --------
    >>> cells_of(Box((0.0, 0.5), (10.0, 2.5)), np.array([1.0, 1.0]))
    (10, 3)
    """
    with np.errstate(over="ignore"):  # more cells than anyone can have are refused further on
        extents = (np.array(box.upper) - first_corner(box, lengths)) / lengths
    return tuple(max(1, math.ceil(extent)) if extent < 2**53 else 2**53 for extent in extents)


def first_corner(box: Box, lengths: Floats) -> Floats:
    """Whole number of bandwidths at or below the lower edge of each column, in data units."""
    with np.errstate(over="ignore"):
        return np.asarray(np.floor(np.array(box.lower) / lengths) * lengths)


def scaled_hermite(x: Floats, rho: int) -> Floats:
    """``h_r(x) / r!`` for r < rho along a new last axis, by h_(r+1) = 2 x h_r - 2 r h_(r-1).

    Examples
    --------
    >>> scaled_hermite(np.array([0.0, 1.0]), 3).round(4)
    array([[ 1.    ,  0.    , -1.    ],
           [ 0.3679,  0.7358,  0.3679]])
    """
    values = np.empty((*x.shape, rho))
    values[..., 0] = np.exp(-np.square(x))
    if rho > 1:
        values[..., 1] = 2 * x * values[..., 0]
    for order in range(1, rho - 1):
        values[..., order + 1] = 2 * (x * values[..., order] - values[..., order - 1]) / (order + 1)
    return values


def outer(left: Floats, right: Floats) -> Floats:
    """Products of the rows' entries, the right one's index the fastest."""
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(left), -1))


def stacked(tables: list[Floats]) -> Floats:
    """Tables of the columns side by side, shape (queries, columns, most cells, rho)."""
    most = max(table.shape[1] for table in tables)
    stacked = np.zeros((tables[0].shape[0], len(tables), most, tables[0].shape[2]))
    for column, table in enumerate(tables):
        stacked[:, column, : table.shape[1]] = table
    return stacked


@njit(nogil=True, cache=True)
def add_orders(rows, origin, lengths, cells, rho, scale, out):  # type: ignore[no-untyped-def]
    """Add each row's powers; only correctly rounded operations on the row's own numbers decide them."""
    dimension = len(cells)
    powers = np.empty((dimension, rho))
    orders = rho**dimension
    for i in range(rows.shape[0]):
        cell = 0
        for j in range(dimension):
            place = (rows[i, j] - origin[j]) / lengths[j]
            index = held(place, 0, cells[j] - 1)
            offset = place - index - 0.5
            if not abs(offset) <= 0.5:
                offset = 0.5 if offset > 0.5 else -0.5
            cell = cell * cells[j] + index
            powers[j, 0] = 1.0
            for r in range(1, rho):
                powers[j, r] = powers[j, r - 1] * offset
        for order in range(orders):
            value, left = scale, order
            for j in range(dimension - 1, -1, -1):
                value = value * powers[j, left % rho]
                left //= rho
            out[i % out.shape[0], cell * orders + order] += int(np.rint(value))


@njit(reads=True, nogil=True, cache=True)
def contract(tables, first, lengths, cells, near, sums, rho):  # type: ignore[no-untyped-def]
    """Contract the sums of near cells with the products of the columns' weights, and sum the products' squares."""
    queries, dimension = tables.shape[0], len(cells)
    repetitions, orders = sums.shape[0], rho**dimension
    totals, squares = np.zeros((queries, repetitions)), np.zeros(queries)
    at = np.empty(dimension, dtype=np.int64)
    for query in range(queries):
        for looked in range(near.shape[1]):
            if not near[query, looked]:
                continue
            left = looked
            for j in range(dimension - 1, -1, -1):
                at[j] = left % lengths[j]
                left //= lengths[j]
            cell = 0
            for j in range(dimension):
                cell = cell * cells[j] + first[query, j] + at[j]
            for order in range(orders):
                weight, left = 1.0, order
                for j in range(dimension - 1, -1, -1):
                    weight *= tables[query, j, at[j], left % rho]
                    left //= rho
                squares[query] += weight * weight
                for copy in range(repetitions):
                    totals[query, copy] += weight * sums[copy, cell * orders + order]
    return totals, squares
