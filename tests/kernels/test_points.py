"""Checked points, and squared distances that do not lose their digits."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels import exact as pairwise
from sfumato.kernels.exact import as_points, squared_distances

RNG = np.random.default_rng(11)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([1.0, 2.0], "must be 2-d.*got shape \\(2,\\)"),
        (3.0, "must be 2-d"),
        (np.zeros((2, 2, 2)), "must be 2-d"),
        (np.zeros((3, 0)), "no columns"),
        ([[1.0, np.nan]], "NaN or infinite"),
        ([[np.inf]], "NaN or infinite"),
        ([["a", "b"]], "must hold numbers"),
        ([[1.0, 2.0], [3.0]], "rows of equal length"),
        ([[1j]], "must hold numbers"),
    ],
)
def test_refused_points(points: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        as_points(points, "Table")
    assert "Table" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_, np.float16])
def test_numeric_types_become_float64(dtype: type) -> None:
    points = as_points(np.array([[0, 1], [1, 1]], dtype=dtype), "X")
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, [[0, 1], [1, 1]])


@pytest.mark.parametrize("dimension", [1, 8, 9, 60])
def test_distances_against_the_direct_sum(dimension: int) -> None:
    X, Y = RNG.normal(size=(30, dimension)), RNG.normal(size=(20, dimension))
    np.testing.assert_allclose(squared_distances(X, Y), cdist(X, Y, "sqeuclidean"), atol=1e-10, rtol=1e-12)


def test_far_points_take_the_direct_way() -> None:
    X = 1e6 + RNG.normal(size=(30, 40))
    assert np.array_equal(squared_distances(X, X), cdist(X, X, "sqeuclidean"))


def test_the_quick_way_keeps_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the edge of what the rounding bound admits, against exact decimal arithmetic."""
    dimension = 20
    X = RNG.normal(size=(20, dimension))
    limit = pairwise.DISTANCE_TOLERANCE / (2 * (dimension + 4) * np.finfo(float).eps * 2)
    X *= np.sqrt(0.99 * limit / (X**2).sum(axis=1).max())
    Y = X[:10] + 1e-3 * RNG.normal(size=(10, dimension))
    Y *= np.minimum(1.0, np.sqrt(limit / (Y**2).sum(axis=1)))[:, None]
    monkeypatch.delattr(pairwise, "cdist")
    quick = squared_distances(X, Y)
    assert quick.min() >= 0
    for i in range(10):
        exact = sum((Decimal(a) - Decimal(b)) ** 2 for a, b in zip(X[i].tolist(), Y[i].tolist(), strict=True))
        assert abs(quick[i, i] - float(exact)) <= pairwise.DISTANCE_TOLERANCE


@pytest.mark.parametrize("shape", [(0, 20), (0, 2)])
def test_no_rows(shape: tuple[int, int]) -> None:
    assert squared_distances(np.zeros(shape), np.ones((3, shape[1]))).shape == (0, 3)
