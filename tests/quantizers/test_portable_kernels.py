"""Kernel values as features: right, within [0, 1], and the same bits wherever a row stands."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Kernel, Laplacian, ShiftInvariant, StableExponential
from sfumato.quantizers.portable_kernels import PortableKernel, axis_lengths, refuse_columns, refuse_kernel

KERNELS = [
    Gaussian(0.7),
    Gaussian([0.5, 2.0, 1.0]),
    Gaussian([[1.0, 0.3, 0.0], [0.0, 0.5, 0.1], [0.2, 0.0, 1.5]]),
    Laplacian([1.0, 3.0, 2.0]),
    Cauchy(0.9),
    StableExponential(1.1, p=1.5),
    StableExponential(1.1, p=2.0),
]
ROWS = np.random.default_rng(0).normal(size=(301, 3)) * 3
CENTRES = np.random.default_rng(1).normal(size=(57, 3)) * 3
OWN = ShiftInvariant(lambda u: np.exp(-np.abs(u).sum(axis=-1)), lambda *a: np.zeros((1, 1)), 1.0, name="mine")


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_values_are_the_kernels(kernel: Kernel) -> None:
    values = PortableKernel(kernel).values(ROWS, CENTRES)
    np.testing.assert_allclose(values, kernel.value(ROWS, CENTRES), rtol=1e-12, atol=1e-14)
    assert (values >= 0).all() and (values <= 1).all()
    assert (PortableKernel(kernel).values(ROWS, ROWS).diagonal() == 1).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_rows_values_do_not_depend_on_other_rows(kernel: Kernel) -> None:
    portable = PortableKernel(kernel)
    together = portable.values(ROWS, CENTRES)
    order = np.random.default_rng(2).permutation(len(ROWS))
    assert np.array_equal(together[order], portable.values(ROWS[order].copy(), CENTRES))
    alone = np.concatenate([portable.values(row[None], CENTRES) for row in ROWS])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if refuse_columns(kernel) is None], ids=repr)
def test_columns_multiply_to_the_kernel(kernel: Kernel) -> None:
    factors = [PortableKernel(kernel).axis(j, 3, ROWS[:, j], CENTRES[:, j]) for j in range(3)]
    np.testing.assert_allclose(np.prod(factors, axis=0), kernel.value(ROWS, CENTRES), rtol=1e-11, atol=1e-14)


def test_far_away_is_zero_and_not_a_fault() -> None:
    far = np.array([[1e200, -1e200, 1e200]])
    for kernel in KERNELS:
        assert (PortableKernel(kernel).values(far, CENTRES) == 0).all()


def test_other_kernels_are_refused() -> None:
    assert "not mine" in str(refuse_kernel(OWN))
    with pytest.raises(InputError, match="not mine"):
        PortableKernel(OWN)
    assert "not a matrix" in str(refuse_columns(KERNELS[2]))
    with pytest.raises(InputError, match="matrix"):
        axis_lengths(KERNELS[2], 3)
