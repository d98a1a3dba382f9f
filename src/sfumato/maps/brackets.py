r"""Spline coefficients around a region's indicator: nearest to it, and never below or above it.

For splines B_c of a grid, not negative and adding up to 1, and a region R (`sharp` says what for):

    l.B(x) <= 1_R(x) <= u.B(x)  for all x in the bounds.

The plain u is 1 wherever a spline touches R, else 0; it exceeds 1_R by two cells' widths along the edge for cubic
splines. The least excess is a linear programme: minimise the integral of u.B subject to u.B >= 1_R. To make that finite
without losing proof, knots are inserted: B_c is a combination of splines of a half, a quarter or an eighth of the width
with coefficients P >= 0 (subdivision), so it is enough that (P u)_k >= 1 where the finer spline k touches R, and >= 0
elsewhere. A quarter halves the excess. u depends on region and grid, which are public, and not on the sums, so the
noise of u.T has its stated variance. l is 1 less the u of what is not in R. Records are encoded at the middles of 2^12
positions in a cell and in integers: edges are widened by a position, and around them u is raised by what rounding can
take away.

The fitted coefficients are those of the least-squares approximation over the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solveh_banded
from scipy.ndimage import maximum_filter
from scipy.optimize import linprog
from scipy.special import comb

from sfumato.errors import InputError
from sfumato.maps.polygons import (
    CUT,
    IN,
    OUT,
    Cells,
    States,
    clipped,
    covered,
    interval_states,
    polygon_states,
    rings_of,
)
from sfumato.quantizers.answer import Floats
from sfumato.quantizers.box import Box
from sfumato.quantizers.grid import GridQuantizer
from sfumato.quantizers.splines import POSITIONS, Axis, spline_values

MOST_HALVINGS = 3
AROUND = 12  # cells around the region after which fitted coefficients have fallen off
STRIPES = 8  # of a cell, for areas of polygons
RIDGE = 1e-6
SMALLEST, LARGEST = -1.0, 3.0  # of a coefficient
MOST_CONDITIONS = 8_000  # of a programme, a second or so; beyond, cells are halved less often, or not at all
MOST_FINE = 1 << 21
MOST_CELLS = 1 << 20  # of one column, a GB or so


@dataclass(frozen=True, eq=False)
class Outline:
    """A region in units of a grid's cells, cut to the bounds: its two corners, and rings if it is polygons."""

    corners: tuple[Floats, Floats]
    rings: tuple[Floats, ...] = ()

    def moved(self, start: Floats) -> Outline:
        """Return the same from another origin."""
        return Outline((self.corners[0] - start, self.corners[1] - start), tuple(ring - start for ring in self.rings))

    def states(self, finer: NDArray[np.int64], fine: Cells) -> States:
        """Whether it holds, cuts or leaves out each finer cell."""
        if self.rings:
            return polygon_states([finer * ring for ring in self.rings], fine)
        ends = zip(finer * self.corners[0], finer * self.corners[1], strict=True)
        sides = [interval_states(float(low), float(high), fine, column) for column, (low, high) in enumerate(ends)]
        return np.asarray(reduce(np.minimum.outer, sides))

    def moments(self, axes: tuple[Axis, ...], cells: tuple[int, ...]) -> Floats:
        """Integrals of the splines over it, in units of cells."""
        if self.rings:
            return _polygon_moments(axes, cells, self.rings)
        sides = zip(axes, cells, self.corners[0].tolist(), self.corners[1].tolist(), strict=True)
        return np.asarray(reduce(np.multiply.outer, [_interval_moments(*side) for side in sides]))


def _outline(grid: GridQuantizer, region: Any, lower: Floats, upper: Floats) -> Outline | None:
    """Read a region; None if it holds nothing of the bounds."""
    if not isinstance(region, Mapping):
        box = Box.from_bounds(region, grid.dimension)
        low, high = (_in_cells(grid, np.array([edges]))[0] for edges in (box.lower, box.upper))
        low, high = np.maximum(low, lower), np.minimum(high, upper)
        return Outline((low, high)) if (low < high).all() else None
    if grid.dimension != 2:
        raise InputError(
            f"a polygon lies in two columns and the release has {grid.dimension}; pass one pair per column"
        )
    rings = clipped([_in_cells(grid, ring) for ring in rings_of(region)], lower, upper)
    if not rings:
        return None
    corners = np.concatenate(rings)
    low, high = corners.min(axis=0), corners.max(axis=0)
    return Outline((low, high), tuple(rings)) if (low < high).all() else None


@dataclass(frozen=True, eq=False)
class Laid:
    """A region on the part of a grid around it.

    Attributes
    ----------
    axes : tuple of Axis
        Every column of the grid.
    first, cells : tuple of int
        First cell of the part, and how many there are, for every column.
    fine : Cells
        The same part in finer cells.
    states : ndarray of int8
        Whether the region holds a finer cell, cuts it, or leaves it out.
    moments : ndarray
        Integral of every spline of the part over the region, in units of cells.
    unit : int
        What a record's integers along one column sum to.
    """

    axes: tuple[Axis, ...]
    first: tuple[int, ...]
    cells: tuple[int, ...]
    fine: Cells
    states: States
    moments: Floats
    unit: int

    @classmethod
    def on(cls, grid: GridQuantizer, region: Any) -> Laid | None:
        """Lay a region on a grid, as finely as its programme can be solved; None if it holds nothing of the bounds."""
        limits = [_in_cells(grid, np.array([edges]))[0] for edges in (grid.domain.lower, grid.domain.upper)]
        outline = _outline(grid, region, *limits)
        if outline is None:
            return None
        laid = cls._laid(grid, outline, limits, 0)
        free = int(laid.near.sum())
        wide = sum(axis.degree > 0 for axis in grid.axes)
        for halvings in range(MOST_HALVINGS if wide else 0, 0, -1):
            growth = 2 ** (halvings * wide)
            if 1.5 * free * growth <= MOST_CONDITIONS and laid.states.size * growth <= MOST_FINE:
                return cls._laid(grid, outline, limits, halvings)
        return laid

    @classmethod
    def _laid(cls, grid: GridQuantizer, outline: Outline, limits: list[Floats], halvings: int) -> Laid:
        axes, (low, high) = grid.axes, outline.corners
        first = [max(0, int(edge) - AROUND) for edge in low]
        last = [min(axis.cells, int(edge) + 1 + AROUND) for axis, edge in zip(axes, high, strict=True)]
        start, cells = np.array(first, dtype=np.float64), tuple(b - a for a, b in zip(first, last, strict=True))
        if max(cells) > MOST_CELLS:
            raise InputError(
                f"the region spans {max(cells):,} cells of one column, and a sharp count takes {MOST_CELLS:,}: pass a "
                "smaller region, or take the smoothed count (people)"
            )
        finer = np.array([1 << halvings if axis.degree else 1 for axis in axes])
        lower, upper = (finer * (limit - start) for limit in limits)
        # Records stand at the middles of positions, so edges are widened by one.
        slack = (1 << halvings) / POSITIONS
        fine = Cells(tuple((finer * cells).tolist()), tuple(lower.tolist()), tuple(upper.tolist()), slack)
        moved = outline.moved(start)
        return cls(axes, tuple(first), cells, fine, moved.states(finer, fine), moved.moments(axes, cells), grid.unit)

    @property
    def window(self) -> tuple[slice, ...]:
        """Nodes of the part."""
        parts = zip(self.first, self.cells, self.axes, strict=True)
        return tuple(slice(first, first + cells + axis.degree) for first, cells, axis in parts)

    @cached_property
    def fitted(self) -> Floats:
        """Coefficients of the least-squares approximation of the region over the bounds."""
        grams, masses = zip(*(self._gram(column) for column in range(len(self.axes))), strict=True)
        mass = reduce(np.multiply.outer, masses)
        # Splines that stick out of the bounds are nearly undetermined: the ridge draws them to the mean of the region.
        plain = np.divide(self.moments, mass, out=np.zeros(mass.shape), where=mass > RIDGE**2)
        left = self.moments - _along([gram.dot for gram in grams], plain)
        return np.asarray(plain + _along([partial(_ridged, gram) for gram in grams], left))

    def _gram(self, column: int) -> tuple[sparse.csr_matrix, Floats]:
        """Products of a column's splines integrated over the bounds, and their integrals."""
        axis, cells = self.axes[column], self.cells[column]
        scale = self.fine.counts[column] / cells
        low, high = max(self.fine.lower[column] / scale, 0.0), min(self.fine.upper[column] / scale, float(cells))
        values, weights = _quadrature(axis, cells, low, high)
        return (values.T @ sparse.diags(weights) @ values).tocsr(), weights @ values

    @cached_property
    def above(self) -> Floats:
        """Coefficients whose splines are nowhere below the region's indicator."""
        return self._above(self.states != OUT)

    @cached_property
    def below(self) -> Floats:
        """Coefficients whose splines are nowhere above the region's indicator."""
        return np.asarray(1.0 - self._above(self.states != IN))

    def _above(self, held: NDArray[np.bool_]) -> Floats:
        """Coefficients whose splines are at least 1 in the finer cells that are held, and at least 0 elsewhere."""
        for column, count in enumerate(self.fine.counts):
            edges = np.arange(count)
            slack = self.fine.slack
            within = (edges + 1 >= self.fine.lower[column] - slack) & (edges <= self.fine.upper[column] + slack)
            held = held & _aligned(within, column, held.ndim)
        degrees = [axis.degree for axis in self.axes]
        plain = _touching(self._any(held), degrees).astype(np.float64)
        if not any(degrees) or self.fine.counts == self.cells:
            return plain
        return self._least(plain, _touching(held, degrees))

    def _any(self, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cells have a finer cell that is held."""
        parts = [
            part for fine, cells in zip(self.fine.counts, self.cells, strict=True) for part in (cells, fine // cells)
        ]
        return np.asarray(held.reshape(parts).any(axis=tuple(range(1, len(parts), 2))))

    @cached_property
    def near(self) -> NDArray[np.bool_]:
        """Splines over cells that the edge cuts: the programme may choose their coefficients."""
        return _touching(self._any(self.states == CUT), [axis.degree for axis in self.axes])

    def _least(self, plain: Floats, wanted: NDArray[np.bool_]) -> Floats:
        """Solve the programme around the edge; `plain` is far from it, and wherever it is too large."""
        degrees, near = [axis.degree for axis in self.axes], self.near.reshape(-1)
        sizes = zip(degrees, self.cells, self.fine.counts, strict=True)
        columns = [_subdivision(degree, cells, (fine // cells).bit_length() - 1) for degree, cells, fine in sizes]
        finer = reduce(lambda left, right: sparse.kron(left, right, format="csr"), columns)
        rows = np.flatnonzero(finer @ near > 0)
        if not len(rows):
            return plain
        conditions, result = finer[rows], plain.reshape(-1).copy()
        least = wanted.reshape(-1)[rows] - conditions[:, ~near] @ result[~near]
        masses = reduce(np.multiply.outer, [self._gram(column)[1] for column in range(len(self.axes))]).reshape(-1)
        found = linprog(
            masses[near] + RIDGE, A_ub=-conditions[:, near], b_ub=-least, bounds=(SMALLEST, LARGEST), method="highs-ipm"
        )
        if found.x is None:
            return plain
        result[near] = found.x
        # The solver keeps conditions within its tolerance, and integers round: both are made up for around the edge.
        short = max(0.0, float((least - conditions[:, near] @ found.x).max())) + self._rounding(np.ptp(result))
        around = maximum_filter(self.near, size=[2 * degree + 1 for degree in degrees])
        return np.asarray(result.reshape(plain.shape) + short * around)

    def _rounding(self, extent: float) -> float:
        """Return what integers for splines can take away from a combination whose coefficients lie so far apart.

        Along one column the integers of a record err by (degree + 1) / unit in all, and sum to what the splines do.
        """
        return extent * sum((axis.degree + 1) / 2 for axis in self.axes if axis.degree) / self.unit


def _in_cells(grid: GridQuantizer, places: Floats) -> Floats:
    """Places in units of the grid's cells."""
    origins = np.array([axis.origin for axis in grid.axes])
    widths = np.array([axis.spacing * axis.bandwidth for axis in grid.axes])
    return np.asarray((places - origins) / widths)


def _aligned(values: NDArray[np.bool_], column: int, dimension: int) -> NDArray[np.bool_]:
    return values.reshape([-1 if other == column else 1 for other in range(dimension)])


def _touching(held: NDArray[np.bool_], degrees: list[int]) -> NDArray[np.bool_]:
    """Which splines touch a cell that is held: spline c lies over the cells c - degree to c."""
    for column, degree in enumerate(degrees):
        moved = np.moveaxis(held, column, 0)
        wide = np.zeros((len(moved) + degree, *moved.shape[1:]), dtype=bool)
        for shift in range(degree + 1):
            wide[shift : shift + len(moved)] |= moved
        held = np.moveaxis(wide, 0, column)
    return held


def _subdivision(degree: int, cells: int, halvings: int) -> sparse.csr_matrix:
    """Coefficients of splines over cells as those over finer cells: rows are not negative and add up to 1."""
    matrix = sparse.identity(cells + degree, format="csr")
    for _ in range(halvings):
        coarse = np.repeat(np.arange(cells + degree), degree + 2)
        steps = np.tile(np.arange(degree + 2), cells + degree)
        finer, values = 2 * coarse - degree + steps, comb(degree + 1, steps) / 2**degree
        cells *= 2
        kept = (finer >= 0) & (finer < cells + degree)
        shape = (cells + degree, matrix.shape[0])
        matrix = sparse.csr_matrix((values[kept], (finer[kept], coarse[kept])), shape=shape) @ matrix
    return matrix


def _splines_at(axis: Axis, cells: int, places: Floats) -> sparse.csr_matrix:
    """Values of all splines over cells at places from 0 to cells, shape (places, cells + degree)."""
    cell, touched = np.clip(places.astype(np.int64), 0, cells - 1), np.arange(axis.degree + 1)
    values, starts = spline_values(axis.degree, places - cell), np.arange(len(places) + 1) * len(touched)
    shape = len(places), cells + axis.degree
    return sparse.csr_matrix((values.reshape(-1), (cell[:, None] + touched).reshape(-1), starts), shape=shape)


def _quadrature(axis: Axis, cells: int, low: float, high: float) -> tuple[sparse.csr_matrix, Floats]:
    """Splines at Gauss-Legendre nodes of every cell between two places, and weights: exact for products of two."""
    nodes, weights = np.polynomial.legendre.leggauss(axis.degree + 1)
    left = np.clip(np.arange(cells), low, high)
    half = (np.clip(np.arange(cells) + 1, low, high) - left) / 2
    places = (left + half)[:, None] + half[:, None] * nodes
    return _splines_at(axis, cells, places.reshape(-1)), (half[:, None] * weights).reshape(-1)


def _interval_moments(axis: Axis, cells: int, low: float, high: float) -> Floats:
    values, weights = _quadrature(axis, cells, low, high)
    return np.asarray(weights @ values)


def _polygon_moments(axes: tuple[Axis, ...], cells: tuple[int, ...], rings: Sequence[Floats]) -> Floats:
    """Integrals over polygons, by stripes: exact lengths along each stripe's middle line."""
    across, up = axes
    heights = (np.arange(STRIPES * cells[1]) + 0.5) / STRIPES
    widths = (np.arange(STRIPES * cells[0]) + 0.5) / STRIPES
    parts = covered([ring * (STRIPES, 1) for ring in rings], STRIPES * cells[0], heights) / STRIPES**2
    return np.asarray(_splines_at(across, cells[0], widths).T @ parts @ _splines_at(up, cells[1], heights))


def _ridged(gram: sparse.csr_matrix, right: Floats) -> Floats:
    """Solve for every column of the right side; only neighbouring splines have products, so the matrix is a band."""
    reach = int(np.diff(gram.indptr).max())
    band = np.zeros((reach, gram.shape[0]))
    for below in range(min(reach, gram.shape[0])):
        band[below, : gram.shape[0] - below] = gram.diagonal(-below)
    band[0] += RIDGE
    return np.asarray(solveh_banded(band, right, lower=True))


def _along(maps: Sequence[Callable[[Floats], Floats]], table: Floats) -> Floats:
    """Map a table along each of its columns."""
    for column, mapped in enumerate(maps):
        moved = np.moveaxis(table, column, 0)
        table = np.moveaxis(mapped(moved.reshape(len(moved), -1)).reshape(moved.shape), 0, column)
    return np.asarray(table)
