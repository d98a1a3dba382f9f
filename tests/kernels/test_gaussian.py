"""The Gaussian kernel in other libraries' conventions, and its digits near 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from sfumato.errors import InputError
from sfumato.kernels import Gaussian

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_scikit_learn_log_density(dimension: int) -> None:
    X, Y = RNG.normal(size=(300, dimension)), RNG.normal(size=(20, dimension))
    kernel = Gaussian.from_sklearn(0.7)
    # One leaf holds all rows: the bounds by which the tree prunes lose digits in many dimensions.
    expected = KernelDensity(kernel="gaussian", bandwidth=0.7, leaf_size=1000).fit(X).score_samples(Y)
    ours = np.log(kernel.exact_density(X, Y)) - kernel.log_integral(dimension)
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_scipy_density(dimension: int) -> None:
    mixing = np.eye(dimension) + np.tril(RNG.uniform(-1, 1, (dimension, dimension)), -1)  # never nearly singular
    X = RNG.normal(size=(300, dimension)) @ mixing
    Y = X[:20] + 0.1
    oracle = gaussian_kde(X.T)
    kernel = Gaussian.from_scipy(oracle.covariance)
    ours = kernel.exact_density(X, Y) * np.exp(-kernel.log_integral(dimension))
    np.testing.assert_allclose(ours, oracle(Y.T), rtol=1e-9)


def test_scipy_covariance_may_be_a_number() -> None:
    assert Gaussian.from_scipy(2.0) == Gaussian([[2.0]])


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "square"),
    ],
)
def test_bad_covariance(covariance: list[list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Gaussian.from_scipy(covariance)


def test_bad_scikit_learn_bandwidth() -> None:
    with pytest.raises(InputError, match="bandwidth must be positive; got 0"):
        Gaussian.from_sklearn(0)


@pytest.mark.parametrize("dimension", [2, 50])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e6])
def test_digits_near_one(dimension: int, offset: float) -> None:
    """Points at a distance of 1e-3 of the bandwidth: 1 - k is 1e-6, and k itself must be right to 1e-9."""
    Y = np.rint(RNG.normal(size=(30, dimension)) * 2**10) / 2**10 + offset
    step = np.full(dimension, 2.0**-10 / np.sqrt(dimension))
    X = Y + np.rint(step * 2**24) / 2**24
    exact = np.exp(-((X[0] - Y[0]) ** 2).sum())
    np.testing.assert_allclose(np.diag(Gaussian(1.0).value(X, Y)), exact, rtol=1e-9)
