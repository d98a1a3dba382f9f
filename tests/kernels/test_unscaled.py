"""Kernels without a bandwidth: angles, sets, inner products, distances."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import InputError
from sfumato.kernels import Angular, Distance, InnerProduct, Jaccard, get_kernel


def test_the_angular_kernel_falls_from_same_to_opposite_directions() -> None:
    values = Angular().value([[1.0, 0.0]], [[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])[0]
    assert values == pytest.approx([1.0, 0.5, 0.0])
    assert Angular(power=2).value([[1.0, 0.0]], [[0.0, 3.0]])[0, 0] == pytest.approx(0.25)


def test_jaccard_compares_sets() -> None:
    assert Jaccard().value([[1, 1, 0, 0]], [[0, 1, 1, 0], [1, 1, 0, 0]])[0] == pytest.approx([1 / 3, 1.0])


def test_inner_products_and_distances_are_what_numpy_says() -> None:
    X, Y = np.random.default_rng(0).normal(size=(4, 3)), np.random.default_rng(1).normal(size=(5, 3))
    assert InnerProduct().value(X, Y) == pytest.approx(X @ Y.T)
    gaps = X[:, None] - Y
    for metric, exact in (
        ("l1", np.abs(gaps).sum(2)),
        ("sqeuclidean", (gaps**2).sum(2)),
        ("l2", np.hypot.reduce(gaps, 2)),
    ):
        assert Distance(metric).value(X, Y) == pytest.approx(exact)


@pytest.mark.parametrize("radius", [1e-60, 1e60, 0.0, float("nan"), 10**400])
def test_a_radius_has_the_range_of_lengths(radius: float) -> None:
    assert InnerProduct(np.float32(2)) == get_kernel("inner-product", np.int64(2)) == InnerProduct(2.0)
    with pytest.raises(InputError, match="radius must lie between 1e-50 and"):
        InnerProduct(radius)


def test_a_bandwidth_is_refused_where_there_is_none() -> None:
    with pytest.raises(InputError):
        get_kernel("jaccard", 1.0)
