"""What the mechanisms on a discretised box share: the grid, and kernel queries at its nodes on integers.

The query class is the kernel at every node y of the grid: q_y(h) = sum_c h_c K(c, y) for a histogram h, with K(c, y) =
prod_j rint(s_1 k_j(c_j, y_j)), integers from 0 to s = s_1^d. A record adds to every query an integer from 0 to s, so
adding, removing or replacing one changes every query by at most s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.central.published.common import number_option, public_box, refuse_bounds, shown
from sfumato.central.request import Request
from sfumato.errors import InputError
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.portable_kernels import axis_lengths, refuse_columns
from sfumato.quantizers.synthetic import GridRecords

SPACING = 0.5
# s = s_1^d near 2^20 leaves room for the noise.
SCALE_BITS = 20
# What stands for one synthetic record.
RECORD = 2**10


def refuse_grid(request: Request) -> str | None:
    """Why a discretised box does not apply."""
    return refuse_columns(request.kernel) or refuse_bounds(request)


def grid_of(request: Request, spacing: float, most: int) -> GridRecords:
    """Cut the box into cells of about `spacing` bandwidths, or say how many nodes that would take."""
    box = public_box(request)
    extents = 2 * box.half_widths / axis_lengths(request.kernel, request.dimension)  # type: ignore[arg-type]
    nodes = tuple(max(1, math.ceil(extent / spacing - 1e-9)) for extent in extents)
    if math.prod(nodes) > most:
        raise InputError(
            f"a grid of {spacing:g} bandwidths takes {shown(math.prod(nodes))} nodes, and {most} are allowed: its work "
            "grows exponentially with the number of columns; pass options={'spacing': ...} or tighter bounds"
        )
    return GridRecords(request.kernel, box, nodes, RECORD)


def spacing_option(request: Request, default: float = SPACING) -> float:
    """Read the spacing of the grid, in bandwidths."""
    return number_option(request, "spacing", default)


@dataclass(frozen=True, eq=False)
class NodeQueries:
    """The kernel at every node, as integers.

    Attributes
    ----------
    grid : GridRecords
        The grid.
    bits : int
        About how many bits s has.
    """

    grid: GridRecords
    bits: int = SCALE_BITS

    @property
    def unit(self) -> int:
        """s_1."""
        return int(2 ** max(2, self.bits // self.grid.dimension))

    @cached_property
    def axes(self) -> list[Integers]:
        """Integer kernel matrix of each column."""
        values = [self.grid.axis_values(column, place) for column, place in enumerate(self.grid.columns)]
        return [np.rint(self.unit * value).astype(np.int64) for value in values]

    @property
    def scale(self) -> int:
        """s, the most that one record adds to a query."""
        return int(self.unit**self.grid.dimension)

    def histogram(self, sums: Integers) -> Integers:
        """Exact numbers of records at the nodes."""
        return np.asarray(sums[:-1] // self.grid.scale)

    def answers(self, histogram: Integers) -> Integers:
        """Answers to all queries, exactly."""
        table = histogram.reshape(self.grid.nodes)
        for column, matrix in enumerate(self.axes):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(0, column)), 0, column)
        return np.asarray(table.reshape(-1), dtype=np.int64)

    def estimates(self, weights: Floats) -> Floats:
        """Answers of a weighted set of nodes, in floating point: the weights are public."""
        table = weights.reshape(self.grid.nodes)
        for column, matrix in enumerate(self._floats):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(0, column)), 0, column)
        return np.asarray(table.reshape(-1))

    @cached_property
    def _floats(self) -> list[Floats]:
        return [matrix.astype(np.float64) for matrix in self.axes]

    def values(self, query: int) -> Floats:
        """Kernel values of one query at all nodes, from 0 to 1."""
        place = np.unravel_index(query, self.grid.nodes)
        product = np.ones(1)
        for column, matrix in enumerate(self._floats):
            product = np.multiply.outer(product, matrix[:, place[column]]).reshape(-1)
        return np.asarray(product / self.scale)


def published(grid: GridRecords, records: Floats, error: float) -> Integers:
    """Lay out synthetic records and the error of their sums as `GridRecords` reads them."""
    return np.asarray(np.rint(np.append(records, error) * grid.scale), dtype=np.int64)
