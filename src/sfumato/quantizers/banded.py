"""Symmetric positive definite systems of few diagonals, solved column by column of the right side in one order.

The systems of `splines` are small and their right sides many, so a step of the recursion is one operation on a row of
all right sides. Each right side is solved alone, bit for bit. LAPACK's routines do the same; loading SciPy for them
takes longer than a query.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.public.portable import FloatArray


def banded_factor(diagonals: FloatArray) -> FloatArray:
    """Cholesky factor of a matrix given by its diagonals, the main one first, in the same form.

    Examples
    --------
    >>> banded_factor(np.array([[4.0, 5.0], [2.0, 0.0]]))
    array([[2., 2.],
           [1., 0.]])
    """
    given: list[list[float]] = diagonals.T.tolist()
    reach, size = len(diagonals), len(given)
    made: list[list[float]] = []
    alike = 0  # columns before this one that came out as the last did
    for row, column in enumerate(given):
        # Inside a regular axis the columns settle: what begins alike and follows on nothing but the like ends alike.
        if alike >= reach - 1 and 0 < row <= size - reach and column == given[row - 1]:
            made.append(made[-1])
            continue
        own = column.copy()
        for below in range(min(reach, size - row)):
            sunk = 0.0
            for k in range(1, min(reach - below, row + 1)):
                sunk += made[row - k][k] * made[row - k][k + below]
            rest = column[below] - sunk
            own[below] = math.sqrt(rest) if below == 0 else rest / own[0]
        alike = alike + 1 if made and own == made[-1] else 0
        made.append(own)
    return np.ascontiguousarray(np.array(made).T)


def banded_solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Solve for every column of `right`, by the factor that `banded_factor` gave.

    Examples
    --------
    >>> banded_solve(banded_factor(np.array([[4.0, 5.0], [2.0, 0.0]])), np.array([[6.0], [7.0]])).ravel()
    array([1., 1.])
    """
    reach, size = factor.shape
    solved = right.copy()
    rows, columns = list(solved), factor.T.tolist()  # views, and numbers: to look both up in arrays takes longer
    for row, own in enumerate(rows):
        for k in range(1, min(reach, row + 1)):
            own -= columns[row - k][k] * rows[row - k]
        own /= columns[row][0]
    for row in range(size - 1, -1, -1):
        own, column = rows[row], columns[row]
        for k in range(1, min(reach, size - row)):
            own -= column[k] * rows[row + k]
        own /= column[0]
    return solved
