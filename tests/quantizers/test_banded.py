"""Banded systems against dense ones."""

from __future__ import annotations

import math
from functools import reduce
from operator import add

import numpy as np
import pytest

from sfumato.quantizers.banded import banded_factor, banded_solve


@pytest.mark.once
@pytest.mark.parametrize(("size", "reach"), [(1, 1), (2, 4), (9, 3), (30, 6)])
def test_factor_and_solution_are_those_of_the_dense_matrix(size: int, reach: int) -> None:
    random = np.random.default_rng(size)
    # The diagonal exceeds all else in its row by one or more, so that no draw is nearly singular.
    lower = np.tril(np.triu(random.uniform(-1, 1, size=(size, size)), 1 - reach)) + (reach + 1) * np.eye(size)
    matrix = lower @ lower.T
    diagonals = np.array([np.append(np.diagonal(matrix, -k), np.zeros(min(k, size))) for k in range(reach)])
    right = random.normal(size=(size, 3))
    factor = banded_factor(diagonals)
    dense = sum(np.diag(factor[k, : size - k], -k) for k in range(min(reach, size)))
    assert dense == pytest.approx(np.linalg.cholesky(matrix), abs=1e-9)
    assert banded_solve(factor, right) == pytest.approx(np.linalg.solve(matrix, right), abs=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize(("reach", "size"), [(1, 40), (2, 40), (4, 3), (4, 5), (4, 200)])
def test_a_regular_inside_is_factored_as_if_row_by_row(reach: int, size: int) -> None:
    # What the Gram matrices of splines look like: the same diagonals all along, but for both ends.
    diagonals = np.repeat(np.array([[0.5], [0.2], [0.02], [0.0002]])[:reach], size, axis=1)
    diagonals[0, [0, -1]] *= 0.6
    for below in range(1, reach):
        diagonals[below, size - below :] = 0.0
    factor = diagonals.copy()
    for row in range(size):
        for below in range(min(reach, size - row)):
            steps = range(1, min(reach - below, row + 1))
            known = [factor[k, row - k] * factor[k + below, row - k] for k in steps]
            rest = factor[below, row] - reduce(add, known, 0.0)
            factor[below, row] = math.sqrt(rest) if below == 0 else rest / factor[0, row]
    assert banded_factor(diagonals).tobytes() == factor.tobytes()
