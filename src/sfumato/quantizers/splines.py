"""Uniform B-splines along one column: integer weights for a record, least-squares dual weights for a query.

An axis is cut into `cells` cells of equal length. A point in a cell touches degree + 1 B-splines, whose values are
non-negative and sum to 1; the outer splines reach beyond the axis, so this holds up to its edges.

Integers. The values are tabulated at the middle of 2^12 positions inside a cell and rounded to integers that sum to
`total` exactly: all are rounded to the nearest, and the largest takes the residual. The residual is at most
(degree + 1) / 2 <= 2 and the largest value at least total / (degree + 1) - 1/2, so no integer is negative from
total = 10 on. The table uses only operations that IEEE 754 defines exactly: it is the same on every machine.

Dual weights. g(y) minimises the integral over the axis of (k(x - y) - sum_c g_c B_c(x))^2 plus a small ridge: g = (A +
ridge)^-1 b(y) with A the Gram matrix of the splines, which is banded, and b_c(y) the integral of B_c(x) k(x - y). Far
from y the weights decay like the kernel or like 0.54^nodes, whichever is slower, so a long axis is solved on a window
of cells around y. The ridge grows where a spline sticks out of the axis: such a spline is nearly undetermined there,
and its weight would cost noise and gain nothing.

What is left, k - g.B, is orthogonal to the splines away from the edges: records that are spread smoothly see it with
changing signs and hardly any error remains, records that share few values may see it whole. `Dual.residual` is its
largest value (over quadrature points and the query itself), relative to the kernel's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.sparse import csr_array, diags_array

from sfumato.errors import InputError
from sfumato.quantizers.base import Floats, Integers

DEGREES = (0, 1, 2, 3)
POSITION_BITS = 12
POSITIONS = 1 << POSITION_BITS
MOST_NODES = 1 << 22
SMALLEST_TOTAL = 10
QUADRATURE_POINTS = 6
# Keeps the factorisation safe; the Gram matrix has eigenvalues between 0.05 and 1 away from the edges.
RIDGE = 1e-10
# The edge's ridge in units of the one that would cost as much as the residual that is there anyway.
EDGE_RIDGE = 10.0
RIDGE_QUERIES = 64
# A window ends where the kernel is below this and, beyond that, the weights have had this many cells to fall off.
NEGLIGIBLE = 1e-6
MARGIN = 6
BLOCK_VALUES = 1 << 20

# Parts of residual and rounding that remain in an answer of typical records: calibrated on mixtures of normal laws of
# .05 to 2 bandwidths, where they are .1 to .5 and .02 to .06. Records on lattices and few places have 4 times as much.
RESIDUAL_SHARE, ROUNDING_SHARE = 1 / 3, 0.1
# A grid of twice the spacing can begin at an even cell or at an odd one.
PHASES = 2

Profile = Callable[[Floats], Floats]


def spline_values(degree: int, positions: Floats) -> Floats:
    """Values of the degree + 1 B-splines that are not zero in a cell, shape (positions, degree + 1).

    Parameters
    ----------
    degree : int
        Degree of the splines.
    positions : ndarray
        Places inside the cell, from 0 to 1.

    Examples
    --------
    >>> spline_values(1, np.array([0.25]))
    array([[0.75, 0.25]])
    >>> (6 * spline_values(3, np.array([0.0]))).round(12)
    array([[1., 4., 1., 0.]])
    """
    values = np.ones((len(positions), 1))
    for order in range(1, degree + 1):
        # Cox and de Boor's recursion on whole-numbered knots: each spline is shared out between two of higher degree.
        raised = np.zeros((len(positions), order + 1))
        for m in range(order):
            share = (positions + float(order - 1 - m)) / float(order)
            raised[:, m] += (1.0 - share) * values[:, m]
            raised[:, m + 1] += share * values[:, m]
        values = raised
    return values


@lru_cache(maxsize=16)
def integer_table(degree: int, total: int) -> Integers:
    """Integer spline values at the middle of every position in a cell: each row is non-negative and sums to `total`.

    Examples
    --------
    >>> integer_table(3, 1000)[0]
    array([167, 666, 167,   0])
    """
    if degree and total < SMALLEST_TOTAL:
        raise InputError(f"spline weights need a total of at least {SMALLEST_TOTAL}, got {total}")
    values = spline_values(degree, (np.arange(POSITIONS) + 0.5) / POSITIONS)
    table = np.rint(values * float(total)).astype(np.int64)
    table[np.arange(POSITIONS), table.argmax(axis=1)] += total - table.sum(axis=1)
    table.setflags(write=False)
    return table


@lru_cache(maxsize=16)
def table_error(degree: int, total: int) -> float:
    """Give the typical effect of the table's rounding on g.B, for dual weights that differ by 1 from node to node.

    The rounding errors of a position sum to zero, so what the weights have in common cancels. The effect is at most the
    errors' Euclidean length (root mean square over the positions) times that of (0, 1, ..., degree) around its mean.
    """
    values = spline_values(degree, (np.arange(POSITIONS) + 0.5) / POSITIONS)
    length = np.sqrt(np.square(integer_table(degree, total) / total - values).sum(axis=1).mean())
    return float(length * math.sqrt(degree * (degree + 1) * (degree + 2) / 12))


@dataclass(frozen=True)
class Axis:
    """One column's cells; lengths in data units, except `spacing`, which is in bandwidths.

    Attributes
    ----------
    origin, bandwidth : float
        Where the first cell begins, and the column's bandwidth.
    spacing : float
        Length of a cell in bandwidths.
    cells, degree : int
        Number of cells, and degree of the splines; one cell of degree 0 is a single node that all records share.
    """

    origin: float
    bandwidth: float
    spacing: float
    cells: int
    degree: int

    @classmethod
    def over(cls, lower: float, upper: float, bandwidth: float, spacing: float, degree: int, narrow: float) -> Axis:
        """Cover a range by whole cells, its excess on both sides alike; a range below `narrow` bandwidths by one node.

        Examples
        --------
        >>> Axis.over(0.0, 10.0, bandwidth=2.0, spacing=0.6, degree=3, narrow=0.6).nodes
        12
        >>> Axis.over(0.0, 1.0, bandwidth=2.0, spacing=0.6, degree=3, narrow=0.6).nodes
        1
        """
        extent = (upper - lower) / bandwidth
        if extent < narrow:
            return cls(lower, bandwidth, extent, 1, 0)
        if not extent / spacing <= MOST_NODES - degree:
            raise InputError(
                f"a range of {upper - lower:g} is {extent:.3g} bandwidths long, too many for a grid of spacing "
                f"{spacing:g}: pass tighter bounds or a larger bandwidth"
            )
        cells = max(1, math.ceil(extent / spacing))
        return cls(lower - (cells * spacing - extent) * bandwidth / 2, bandwidth, spacing, cells, degree)

    @property
    def nodes(self) -> int:
        """Number of splines."""
        return self.cells + self.degree

    @property
    def single(self) -> bool:
        """Whether all records share one node."""
        return self.nodes == 1


@dataclass(frozen=True, eq=False)
class Dual:
    """Weights of queries along one axis.

    Attributes
    ----------
    first : ndarray of int
        First node of each query's window.
    weights : ndarray, shape (queries, nodes of the window)
        Dual weights.
    residual : ndarray
        Largest |k - g.B| over the axis, relative to the largest k.
    missed, drift : ndarray
        Root mean square of k - g.B over the axis relative to that of k, and its mean relative to k's: 0 but for edges.
    probes : ndarray, shape (queries, PHASES, nodes of the window)
        Weights whose answers have the bias' typical size; see the module's text.
    """

    first: Integers
    weights: Floats
    residual: Floats
    missed: Floats
    drift: Floats
    probes: Floats

    def at(self, places: Integers) -> Dual:
        """Weights of chosen queries, which may repeat."""
        parts = (self.first, self.weights, self.residual, self.missed, self.drift, self.probes)
        return Dual(*(part[places] for part in parts))

    @cached_property
    def squares(self) -> Floats:
        """Sum of the squared weights."""
        return np.asarray(np.square(self.weights).sum(axis=1))

    @property
    def single(self) -> bool:
        """Whether all records share one node, which shows nothing of where they are."""
        return self.weights.shape[1] == 1

    @property
    def certain(self) -> Floats:
        """Bias relative to the answer that does not average out: the edges' part, and all of a single node's."""
        return self.drift + self.residual if self.single else self.drift

    def typical(self, rounding: float) -> Floats:
        """Bias relative to the answer for typical records, the table's `rounding` (`table_error`) included."""
        rounded = ROUNDING_SHARE * rounding * self.steepness
        return rounded if self.single else np.asarray(np.hypot(RESIDUAL_SHARE * self.missed, rounded))

    @cached_property
    def steepness(self) -> Floats:
        """Largest difference between the weights of neighbouring nodes."""
        return np.asarray(np.abs(np.diff(self.weights, axis=1)).max(axis=1, initial=0.0))


@dataclass(frozen=True, eq=False)
class DualSolver:
    """Least-squares weights for queries along an axis; see the module's text.

    Attributes
    ----------
    profile : callable
        The kernel's factor for a difference in bandwidths; not increasing in its absolute value.
    axis : Axis
        The cells.

    Examples
    --------
    >>> axis = Axis.over(0.0, 20.0, bandwidth=1.0, spacing=0.5, degree=3, narrow=0.6)
    >>> dual = DualSolver(lambda u: np.exp(-u * u), axis).at(np.array([10.0]))
    >>> dual.squares.round(2), bool(dual.residual[0] < 2e-3)
    (array([2.75]), True)
    """

    profile: Profile
    axis: Axis

    @cached_property
    def window(self) -> int:
        """Cells of a query's window."""
        cells, spacing = self.axis.cells, self.axis.spacing
        reach = 1.0
        while reach < cells * spacing and self.profile(np.array([reach]))[0] > NEGLIGIBLE:
            reach *= 1.05
        return min(cells, 2 * (math.ceil(reach / spacing) + MARGIN) + 1)

    @property
    def truncation(self) -> float:
        """Bound of what records beyond the window would have added, each."""
        return NEGLIGIBLE if self.window < self.axis.cells else 0.0

    @cached_property
    def _quadrature(self) -> tuple[Floats, Floats, Floats]:
        """Gauss-Legendre points of all cells of a window in bandwidths, weights in a cell, splines at the points."""
        points, weights = np.polynomial.legendre.leggauss(QUADRATURE_POINTS)
        inside = (points + 1) / 2
        places = (np.arange(self.window)[:, None] + inside) * self.axis.spacing
        return places, weights / 2, spline_values(self.axis.degree, inside)

    @cached_property
    def _band(self) -> tuple[Floats, Floats]:
        """Gram matrix of the window's splines, its lower diagonals, and the splines' integrals."""
        _, weights, splines = self._quadrature
        degree, window = self.axis.degree, self.window
        element = splines.T @ (weights[:, None] * splines)
        gram, mass = np.zeros((degree + 1, window + degree)), np.zeros(window + degree)
        for a in range(degree + 1):
            mass[a : a + window] += weights @ splines[:, a]
            for b in range(a, degree + 1):
                gram[b - a, a : a + window] += element[a, b]
        gram[0] += RIDGE
        return gram, mass

    @cached_property
    def _gram(self) -> Any:
        """The same, as a sparse matrix."""
        gram, _ = self._band
        offsets = range(-len(gram) + 1, len(gram))
        nodes = gram.shape[1]
        return diags_array([gram[abs(k)][: nodes - abs(k)] for k in offsets], offsets=list(offsets)).tocsr()

    @cached_property
    def _factor(self) -> Floats:
        """Banded Cholesky factor of the window's Gram matrix with its ridge."""
        gram, mass = self._band
        _, weights, _ = self._quadrature
        plain = cholesky_banded(gram, lower=True)
        _, dual, missed = self._solve(np.linspace(0, self.window * self.axis.spacing, RIDGE_QUERIES), plain)
        matched = (missed**2 @ weights).sum() / max(float(np.square(dual).sum()), RIDGE)
        ridged = gram.copy()
        ridged[0] += EDGE_RIDGE * matched * np.maximum(1 - mass, 0)
        return np.asarray(cholesky_banded(ridged, lower=True))

    def _solve(self, places: Floats, factor: Floats) -> tuple[Floats, Floats, Floats]:
        """Kernel values, dual weights and residuals for queries, given in bandwidths from the window's beginning."""
        points, weights, splines = self._quadrature
        degree, window = self.axis.degree, self.window
        with np.errstate(over="ignore"):  # far away the kernel is 0
            values = self.profile(points - places[:, None, None])
        moments = values @ (weights[:, None] * splines)
        right = np.zeros((window + degree, len(places)))
        for a in range(degree + 1):
            right[a : a + window] += moments[:, :, a].T
        dual = np.ascontiguousarray(cho_solve_banded((factor, True), right).T)
        touched = np.stack([dual[:, a : a + window] for a in range(degree + 1)], axis=2)
        return values, dual, values - touched @ splines.T

    def _missed_at_itself(self, places: Floats, weights: Floats) -> Floats:
        """|k - g.B| for a record at the query itself, where a kernel with a cusp is missed most; 0 off the axis."""
        cells = places / self.axis.spacing
        on_axis = (cells >= 0) & (cells <= self.window)
        cell = np.where(on_axis, np.minimum(np.floor(cells), self.window - 1), 0).astype(np.int64)
        splines = spline_values(self.axis.degree, np.where(on_axis, cells - cell, 0.0))
        touched = np.take_along_axis(weights, cell[:, None] + np.arange(self.axis.degree + 1), axis=1)
        return np.where(on_axis, np.abs(1.0 - (touched * splines).sum(axis=1)), 0.0)

    @cached_property
    def _coarser(self) -> list[tuple[Any, Floats]]:
        """Splines of twice the spacing in terms of the window's own, and their Gram matrix' banded factor."""
        degree, nodes = self.axis.degree, self.window + self.axis.degree
        parts = []
        for phase in range(PHASES if nodes > degree + 1 else 0):
            # Each coarse spline is a sum of degree + 2 fine ones with binomial weights; some reach out of the window.
            count = (nodes + degree + 1 + phase) // 2
            fine = 2 * np.arange(count)[:, None] - degree - phase + np.arange(degree + 2)
            inside = (fine >= 0) & (fine < nodes)
            shares = np.array([math.comb(degree + 1, k) for k in range(degree + 2)]) / 2.0**degree
            columns = np.broadcast_to(np.arange(count)[:, None], fine.shape)
            values = np.broadcast_to(shares, fine.shape)[inside]
            refine = csr_array((values, (fine[inside], columns[inside])), shape=(nodes, count))
            product = (refine.T @ self._gram @ refine).todia()
            band = np.stack([np.pad(product.diagonal(-k), (0, k)) for k in range(min(degree, count - 1) + 1)])
            band[0] += RIDGE * max(float(band[0].max()), 1.0)
            parts.append((refine, np.asarray(cholesky_banded(band, lower=True))))
        return parts

    def _probes(self, weights: Floats, missed: Floats) -> Floats:
        """What a grid of twice the spacing would answer differently, scaled to the residual's own size."""
        probes = np.zeros((len(weights), PHASES, weights.shape[1]))
        moments = self._gram @ weights.T
        for phase, (refine, factor) in enumerate(self._coarser):
            change = weights.T - refine @ cho_solve_banded((factor, True), refine.T @ moments)
            size = np.sqrt(np.maximum((change * (self._gram @ change)).sum(axis=0), 0.0))
            probes[:, phase] = (change * np.where(size > 0, missed / np.where(size > 0, size, 1.0), 0.0)).T
        return probes

    def at(self, Y: Floats) -> Dual:
        """Weights for queries, in data units and anywhere."""
        axis, window = self.axis, self.window
        places = (Y - axis.origin) / axis.bandwidth
        first = np.clip(np.nan_to_num(np.floor(places / axis.spacing)) - window // 2, 0, axis.cells - window)
        local = places - first * axis.spacing
        block = max(1, BLOCK_VALUES // (window * QUADRATURE_POINTS))
        parts = [self._fit(local[start : start + block]) for start in range(0, max(len(Y), 1), block)]
        return Dual(first.astype(np.int64), *(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _fit(self, local: Floats) -> tuple[Floats, ...]:
        """Weights and what they miss, the fields of `Dual`, for queries given from their windows' beginnings."""
        _, quadrature, _ = self._quadrature
        values, weights, missed = self._solve(local, self._factor)
        largest = values.max(axis=(1, 2))
        most = np.maximum(np.abs(missed).max(axis=(1, 2)), self._missed_at_itself(local, weights))
        squares, cells = np.square(values).sum(axis=1) @ quadrature, np.square(missed) @ quadrature
        sums = values.sum(axis=1) @ quadrature
        return (
            weights,
            most / np.where(largest > 0, largest, 1.0),
            np.sqrt(cells.sum(axis=1) / np.where(squares > 0, squares, 1.0)),
            np.abs(missed.sum(axis=1) @ quadrature) / np.where(sums > 0, sums, 1.0),
            self._probes(weights, np.sqrt(cells.sum(axis=1))),
        )
