"""Banded systems against dense ones."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.quantizers.banded import banded_factor, banded_solve


@pytest.mark.parametrize(("size", "reach"), [(1, 1), (2, 4), (9, 3), (30, 6)])
def test_factor_and_solution_are_those_of_the_dense_matrix(size: int, reach: int) -> None:
    random = np.random.default_rng(size)
    lower = np.tril(np.triu(random.normal(size=(size, size)), 1 - reach)) + reach * np.eye(size)
    matrix = lower @ lower.T
    diagonals = np.array([np.append(np.diagonal(matrix, -k), np.zeros(min(k, size))) for k in range(reach)])
    right = random.normal(size=(size, 3))
    factor = banded_factor(diagonals)
    dense = sum(np.diag(factor[k, : size - k], -k) for k in range(min(reach, size)))
    assert dense == pytest.approx(np.linalg.cholesky(matrix), abs=1e-9)
    assert banded_solve(factor, right) == pytest.approx(np.linalg.solve(matrix, right), abs=1e-9)
