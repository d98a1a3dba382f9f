"""What a spline grid can miss at most, wherever the records are: the limit behind `GridQuantizer.bias_bound`.

Along one column a query's weights leave r = k - g.B (`splines`). For a node let W be the largest |r| over the cells of
its spline. The splines of a place are non-negative and sum to 1, so |r| is at most W.B there, and k at most (g + W).B;
the same holds for the integers of the table, which touch the same nodes. In several columns |prod k - prod (k - r)| <=
prod (k + |r|) - prod k, and that grows with every k and every |r|: the records of any place miss at most what the sums
give when they are read with the weights prod (g + 2 W) less what they give with prod (g + W).

|r| is taken at `PLACES` places of every cell and at the query, where a kernel may have a cusp; between two of them a
function leaves its chord by an eighth of its second difference where its curvature is constant, and twice that is
allowed for. Records are moved to the middle of one of 2^12 positions, by which g.B changes by at most half a position's
share of the largest step between neighbouring weights; the table's rounding changes it by at most `table_limit` such
steps. Records beside a query's window still touch its outer nodes, whose weights they should not see at all: there W is
no less than these. What the kernel has beyond a window is `DualSolver.truncation`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.quantizers.base import Floats
from sfumato.quantizers.splines import BLOCK_VALUES, POSITIONS, Dual, DualSolver, integer_table, spline_values

PLACES = 17


@lru_cache(maxsize=16)
def table_limit(degree: int, total: int) -> float:
    """Give the largest effect of the table's rounding on g.B, for weights that differ by 1 from node to node.

    The rounding errors e of a position sum to zero, so that |e.g| is at most |e|_1 / 2 times the range of the weights.

    Examples
    --------
    >>> table_limit(3, 1000) < 0.01, table_limit(0, 1000)
    (True, 0.0)
    """
    values = spline_values(degree, (np.arange(POSITIONS) + 0.5) / POSITIONS)
    errors = np.abs(integer_table(degree, total) / total - values).sum(axis=1)
    return float(errors.max() * degree / 2)


def most_missed(solver: DualSolver, Y: Floats, dual: Dual, rounding: float) -> Floats:
    """Return W for the nodes of each query's window.

    Parameters
    ----------
    solver : DualSolver
        The axis and the kernel's factor.
    Y : ndarray
        Queries along the axis, in data units.
    dual : Dual
        Their weights.
    rounding : float
        `table_limit` of the axis.
    """
    places = (Y - solver.axis.origin) / solver.axis.bandwidth - dual.first * solver.axis.spacing
    block = max(1, BLOCK_VALUES // (solver.window * PLACES))
    blocks = [slice(start, start + block) for start in range(0, max(len(Y), 1), block)]
    cells = np.concatenate([_of_cells(solver, places[part], dual.weights[part]) for part in blocks])
    moved = (rounding + 1 / (2 * POSITIONS)) * dual.steepness
    return _beside(solver, dual, _of_nodes(cells, solver.axis.degree)) + moved[:, None]


def _beside(solver: DualSolver, dual: Dual, missed: Floats) -> Floats:
    """Raise W at a window's ends to what records in the cells beside it see of the weights: all of it is missed."""
    degree, weights, seen = solver.axis.degree, np.abs(dual.weights), np.zeros_like(missed)
    before, behind = dual.first > 0, dual.first + solver.window < solver.axis.cells
    # A window has `degree` nodes beyond its cells.
    seen[:, :degree] = before[:, None] * weights[:, :degree]
    seen[:, solver.window :] = behind[:, None] * weights[:, solver.window :]
    return np.maximum(missed, seen)


def _of_cells(solver: DualSolver, places: Floats, weights: Floats) -> Floats:
    """Largest |k - g.B| of every cell, for queries given in bandwidths from their windows' beginnings."""
    axis, cells = solver.axis, solver.window
    inside = np.linspace(0.0, 1.0, PLACES)
    own = np.clip(np.nan_to_num(places / axis.spacing), 0.0, cells)
    home = np.minimum(own.astype(np.int64), cells - 1)
    with np.errstate(over="ignore"):  # far away the kernel is 0
        values = solver.profile((np.arange(cells)[:, None] + inside) * axis.spacing - places[:, None, None])
        nearest = solver.profile(own * axis.spacing - places)
    touched = np.stack([weights[:, a : a + cells] for a in range(axis.degree + 1)], axis=2)
    left = values - touched @ spline_values(axis.degree, inside).T
    missed = np.abs(left).max(axis=2) + np.abs(np.diff(left, 2, axis=2)).max(axis=2) / 4
    queries = np.arange(len(places))
    at_query = np.abs(nearest - (touched[queries, home] * spline_values(axis.degree, own - home)).sum(axis=1))
    missed[queries, home] = np.maximum(missed[queries, home], at_query)
    return np.asarray(missed)


def _of_nodes(cells: Floats, degree: int) -> Floats:
    """Largest over the cells that each node's spline reaches."""
    padded = np.pad(cells, ((0, 0), (degree, degree)))
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, degree + 1, axis=1).max(axis=2))
