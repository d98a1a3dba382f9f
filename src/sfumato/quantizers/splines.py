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

What is left, r = k - g.B, is orthogonal to the splines away from the edges: records that are spread smoothly see it
with changing signs and hardly any error remains, records that share few values may see it whole. `Dual.residual` is its
largest value (over quadrature points and the query itself), relative to the kernel's; `Dual.missed` its root mean
square, of which `RESIDUAL_SHARE` remains for typical records. What records can miss at most is the matter of `reach`.

Roughness. The bias at y is the sum of r over the records, and depends on that part of their density alone which no
spline sees. Were the density white beyond the grid's resolution, with variance v(x) per length, the squared bias would
be the integral of v r^2, and a second difference of the node sums B_c would have the square sum of v times the squared
difference of the splines: so squared differences of the sums, weighed by r^2 where they are (`Dual.watch`), estimate
the squared bias. Densities have less power at finer scales, so this is rather too much for them; for single far places
it is right, and for a lattice of values it may be too little where the lattice looks like a slow wave to the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np

from sfumato.errors import InputError
from sfumato.quantizers.banded import banded_factor, banded_solve
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
REACH_STEP = 1.05
BLOCK_VALUES = 1 << 20

# Parts of residual and rounding that remain in an answer of typical records: calibrated on mixtures of normal laws of
# .05 to 2 bandwidths, where they are .02 to .5 and .02 to .06. Records on lattices and few places have 4 times as much.
RESIDUAL_SHARE, ROUNDING_SHARE = 1 / 3, 0.1
# Order of the differences between neighbouring nodes' sums that show how rough the records are.
DIFFERENCES = 2

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


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(QUADRATURE_POINTS)


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
    watch : ndarray, shape (queries, nodes of the window - DIFFERENCES)
        What a squared difference of neighbouring nodes' sums says of the squared bias; see the module's text.
    """

    first: Integers
    weights: Floats
    residual: Floats
    missed: Floats
    drift: Floats
    watch: Floats

    def at(self, places: Integers) -> Dual:
        """Weights of chosen queries, which may repeat."""
        floats = (self.weights, self.residual, self.missed, self.drift, self.watch)
        return Dual(self.first[places], *(part[places] for part in floats))

    @cached_property
    def squares(self) -> Floats:
        """Sum of the squared weights."""
        return np.asarray(np.square(self.weights).sum(axis=1))

    @property
    def blind(self) -> bool:
        """Whether the nodes are too few to show anything of where the records are."""
        return bool(self.watch.shape[1] == 0)

    @property
    def certain(self) -> Floats:
        """Bias relative to the answer that does not average out: the edges' part, and all of few nodes'."""
        return self.drift + self.residual if self.blind else self.drift

    def typical(self, rounding: float) -> Floats:
        """Bias relative to the answer for typical records, the table's `rounding` (`table_error`) included."""
        rounded = ROUNDING_SHARE * rounding * self.steepness
        return rounded if self.blind else np.asarray(np.hypot(RESIDUAL_SHARE * self.missed, rounded))

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
        steps = 2 + max(0, math.ceil(math.log(cells * spacing, REACH_STEP)))
        reaches = np.multiply.accumulate(np.append(1.0, np.full(steps, REACH_STEP)))
        far = (reaches >= cells * spacing) | (self.profile(reaches) <= NEGLIGIBLE)
        return min(cells, 2 * (math.ceil(float(reaches[far.argmax()]) / spacing) + MARGIN) + 1)

    @property
    def truncation(self) -> float:
        """Bound of what records beyond the window would have added, each."""
        return NEGLIGIBLE if self.window < self.axis.cells else 0.0

    @cached_property
    def _quadrature(self) -> tuple[Floats, Floats, Floats]:
        """Gauss-Legendre points of all cells of a window in bandwidths, weights in a cell, splines at the points."""
        points, weights = _gauss_legendre()
        inside = (points + 1) / 2
        places = (np.arange(self.window)[:, None] + inside) * self.axis.spacing
        return places, weights / 2, spline_values(self.axis.degree, inside)

    @cached_property
    def _factor(self) -> Floats:
        """Banded Cholesky factor of the window's Gram matrix with its ridge."""
        _, weights, splines = self._quadrature
        degree, window = self.axis.degree, self.window
        element = splines.T @ (weights[:, None] * splines)
        gram, mass = np.zeros((degree + 1, window + degree)), np.zeros(window + degree)
        for a in range(degree + 1):
            mass[a : a + window] += weights @ splines[:, a]
            for b in range(a, degree + 1):
                gram[b - a, a : a + window] += element[a, b]
        gram[0] += RIDGE
        # All queries' values at once would be hundreds of megabytes for the longest windows: they are made twice.
        places = np.linspace(0, window * self.axis.spacing, RIDGE_QUERIES)
        blocks = [slice(start, start + self._block) for start in range(0, RIDGE_QUERIES, self._block)]
        right = np.hstack([self._moments(self._values(places[block])) for block in blocks])
        dual = np.ascontiguousarray(banded_solve(banded_factor(gram), right).T)
        missed = [self._missed(self._values(places[block]), dual[block]) ** 2 @ weights for block in blocks]
        matched = np.concatenate(missed).sum() / max(float(np.square(dual).sum()), RIDGE)
        gram[0] += EDGE_RIDGE * matched * np.maximum(1 - mass, 0)
        return banded_factor(gram)

    def _solve(self, places: Floats, factor: Floats) -> tuple[Floats, Floats, Floats]:
        """Kernel values, dual weights and residuals for queries, given in bandwidths from the window's beginning."""
        values = self._values(places)
        dual = np.ascontiguousarray(banded_solve(factor, self._moments(values)).T)
        return values, dual, self._missed(values, dual)

    @property
    def _block(self) -> int:
        """Queries whose values are made at once."""
        return max(1, BLOCK_VALUES // (self.window * QUADRATURE_POINTS))

    def _values(self, places: Floats) -> Floats:
        with np.errstate(over="ignore"):  # far away the kernel is 0
            return self.profile(self._quadrature[0] - places[:, None, None])

    def _moments(self, values: Floats) -> Floats:
        """Right sides of the normal equations, one column a query."""
        _, weights, splines = self._quadrature
        moments = values @ (weights[:, None] * splines)
        right = np.zeros((self.window + self.axis.degree, len(values)))
        for a in range(self.axis.degree + 1):
            right[a : a + self.window] += moments[:, :, a].T
        return right

    def _missed(self, values: Floats, dual: Floats) -> Floats:
        """Return what the weights leave of the kernel."""
        touched = np.stack([dual[:, a : a + self.window] for a in range(self.axis.degree + 1)], axis=2)
        return np.asarray(values - touched @ self._quadrature[2].T)

    def _most_missed(self, places: Floats, weights: Floats, missed: Floats) -> Floats:
        """Largest |k - g.B| of each query over the quadrature points and, as cusps need, the query itself."""
        cells = places / self.axis.spacing
        on_axis = (cells >= 0) & (cells <= self.window)
        cell = np.where(on_axis, np.minimum(np.floor(cells), self.window - 1), 0).astype(np.int64)
        splines = spline_values(self.axis.degree, np.where(on_axis, cells - cell, 0.0))
        touched = np.take_along_axis(weights, cell[:, None] + np.arange(self.axis.degree + 1), axis=1)
        itself = np.where(on_axis, np.abs(1.0 - (touched * splines).sum(axis=1)), 0.0)
        return np.asarray(np.maximum(np.abs(missed).max(axis=(1, 2)), itself))

    @cached_property
    def _energy(self) -> Floats:
        """Mean squared differences that one record makes, for the cells that a difference covers, last cell first."""
        _, weights, splines = self._quadrature
        degree = self.axis.degree
        padded = np.zeros((degree + 1 + 2 * DIFFERENCES, len(weights)))
        padded[DIFFERENCES : DIFFERENCES + degree + 1] = splines.T
        return np.asarray(np.square(np.diff(padded, DIFFERENCES, axis=0)) @ weights)

    def _watch(self, missed: Floats) -> Floats:
        """Weights of the squared differences, from the residual's mean square in every cell."""
        degree, energy = self.axis.degree, self._energy
        centres = max(self.window + degree - DIFFERENCES, 0)
        padded = np.zeros((len(missed), self.window + 2 * (degree + DIFFERENCES)))
        padded[:, degree : degree + self.window] = missed
        parts = (share * padded[:, t : t + centres] for t, share in enumerate(energy[::-1]))
        return np.asarray(sum(parts, np.zeros((len(missed), centres))) / energy.sum() ** 2)

    def at(self, Y: Floats) -> Dual:
        """Weights for queries, in data units and anywhere."""
        axis, window = self.axis, self.window
        places = (Y - axis.origin) / axis.bandwidth
        first = np.clip(np.nan_to_num(np.floor(places / axis.spacing)) - window // 2, 0, axis.cells - window)
        local = places - first * axis.spacing
        starts = range(0, max(len(Y), 1), self._block)
        parts = [self._fit(local[start : start + self._block]) for start in starts]
        return Dual(first.astype(np.int64), *(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _fit(self, local: Floats) -> tuple[Floats, ...]:
        """Weights and what they miss, the fields of `Dual`, for queries given from their windows' beginnings."""
        _, quadrature, _ = self._quadrature
        values, weights, missed = self._solve(local, self._factor)
        largest = values.max(axis=(1, 2))
        squares, cells = np.square(values).sum(axis=1) @ quadrature, np.square(missed) @ quadrature
        sums = values.sum(axis=1) @ quadrature
        return (
            weights,
            self._most_missed(local, weights, missed) / np.where(largest > 0, largest, 1.0),
            np.sqrt(cells.sum(axis=1) / np.where(squares > 0, squares, 1.0)),
            np.abs(missed.sum(axis=1) @ quadrature) / np.where(sums > 0, sums, 1.0),
            self._watch(cells),
        )
