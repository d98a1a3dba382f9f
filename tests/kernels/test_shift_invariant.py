"""Kernels that are products over the columns say so, and give one column's factor."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Laplacian, ShiftInvariant, ShiftInvariantKernel, StableExponential

SEPARABLE = [Gaussian(0.7), Laplacian([0.5, 2.0, 1.0]), Cauchy(1.3), StableExponential([1.0, 0.2, 3.0], 1.4)]


@pytest.mark.parametrize("kernel", SEPARABLE, ids=lambda kernel: kernel.name)
def test_the_kernel_is_the_product_of_its_columns(kernel: ShiftInvariantKernel) -> None:
    X, Y = np.random.default_rng(0).normal(size=(2, 20, 3))
    differences = (X[:, None] - Y) / kernel.column_scales(3)
    assert kernel.separable
    np.testing.assert_allclose(kernel.column_profile(differences).prod(axis=2), kernel.value(X, Y), rtol=1e-9)
    grid = kernel.column_profile(np.linspace(0, 5, 100))
    assert grid[0] == 1 and (np.diff(grid) <= 0).all()


def _custom() -> ShiftInvariant:
    return ShiftInvariant(lambda u: np.cos(u[..., 0]), lambda stream, m, d: np.ones((d, m)), bandwidth=1.0)


@pytest.mark.parametrize("kernel", [Gaussian([[1.0, 0.5], [0.0, 1.0]]), _custom()], ids=["matrix", "custom"])
def test_other_kernels_have_no_column_profile(kernel: ShiftInvariantKernel) -> None:
    assert not kernel.separable
    with pytest.raises(InputError, match="not a product over the columns"):
        kernel.column_profile(np.zeros(2))
