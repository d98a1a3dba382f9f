"""Cells of one bandwidth over a box, and the compiled work of the Hermite expansion in them.

See `sfumato.published.hermite` for the expansion and its bounds.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.compiled import njit
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import held


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


@njit(nogil=True, cache=True)
def contract(tables, cells, near, sums, rho):  # type: ignore[no-untyped-def]
    """Contract the sums of near cells with the products of the columns' weights, and sum the products' squares."""
    queries, dimension = tables.shape[0], len(cells)
    repetitions, orders = sums.shape[0], rho**dimension
    totals, squares = np.zeros((queries, repetitions)), np.zeros(queries)
    at = np.empty(dimension, dtype=np.int64)
    for query in range(queries):
        for cell in range(near.shape[1]):
            if not near[query, cell]:
                continue
            left = cell
            for j in range(dimension - 1, -1, -1):
                at[j] = left % cells[j]
                left //= cells[j]
            for order in range(orders):
                weight, left = 1.0, order
                for j in range(dimension - 1, -1, -1):
                    weight *= tables[query, j, at[j], left % rho]
                    left //= rho
                squares[query] += weight * weight
                for copy in range(repetitions):
                    totals[query, copy] += weight * sums[copy, cell * orders + order]
    return totals, squares
