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
    factor: list[list[float]] = diagonals.tolist()
    reach, size = len(factor), len(factor[0])
    for row in range(size):
        for below in range(min(reach, size - row)):
            steps = range(1, min(reach - below, row + 1))
            rest = factor[below][row] - sum(factor[k][row - k] * factor[k + below][row - k] for k in steps)
            factor[below][row] = math.sqrt(rest) if below == 0 else rest / factor[0][row]
    return np.array(factor)


def banded_solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Solve for every column of `right`, by the factor that `banded_factor` gave.

    Examples
    --------
    >>> banded_solve(banded_factor(np.array([[4.0, 5.0], [2.0, 0.0]])), np.array([[6.0], [7.0]])).ravel()
    array([1., 1.])
    """
    reach, size = factor.shape
    solved = right.copy()
    for row in range(size):
        for k in range(1, min(reach, row + 1)):
            solved[row] -= factor[k, row - k] * solved[row - k]
        solved[row] /= factor[0, row]
    for row in range(size - 1, -1, -1):
        for k in range(1, min(reach, size - row)):
            solved[row] -= factor[k, row] * solved[row + k]
        solved[row] /= factor[0, row]
    return solved
