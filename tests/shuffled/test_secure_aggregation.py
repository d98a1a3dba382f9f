"""Secure aggregation: exact divergences against the formula, error, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.loss import gaussian_delta
from sfumato.shuffled import SecureAggregation
from sfumato.shuffled.secure_aggregation import MODULUS, NOISES, Aggregator, skellam_divergence
from tests.shuffled.collections_for_tests import points

SMALL: dict[str, Any] = {"dimension": 3, "epsilon": 1, "delta": 1e-4, "participants": 60, "seed": 1}


def unit(count: int, dimension: int = 3) -> np.ndarray[Any, np.dtype[np.float64]]:
    X = points(count, dimension)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


class TestPrivacy:
    @pytest.mark.parametrize("variance", [4.0, 30.0, 400.0])
    @pytest.mark.parametrize("shift", [1, 3, 10])
    @pytest.mark.parametrize("order", [2, 5, 16])
    def test_skellam_divergence(self, variance: float, shift: int, order: int) -> None:
        """The exact Renyi divergence of one coordinate never exceeds the formula."""
        reach = int(40 * math.sqrt(variance) + 40 * shift * order)
        values = np.arange(-reach, reach + 1)
        here = stats.skellam.logpmf(values, variance / 2, variance / 2)
        moved = stats.skellam.logpmf(values - shift, variance / 2, variance / 2)
        known = np.isfinite(here) & np.isfinite(moved) & (here > -600) & (moved > -600)
        terms = order * moved[known] - (order - 1) * here[known]
        exact = float(np.logaddexp.reduce(terms)) / (order - 1)
        assert exact <= skellam_divergence(order, shift, shift, variance) * (1 + 1e-6)
        if order * shift <= variance / 4:  # and it is not far below where noise is wide
            assert exact >= 0.95 * order * shift**2 / (2 * variance)

    def test_skellam_delta(self) -> None:
        """One column, the farthest two records: the exact delta of the sum of all shares is below what is claimed."""
        protocol = SecureAggregation("inner-product", noise="skellam", **{**SMALL, "dimension": 1})
        variance, shift = protocol.variance(60), 2 * protocol.quantizer.bound.largest
        reach = int(12 * math.sqrt(variance))
        values = np.arange(-reach, reach + 1)
        here = stats.skellam.pmf(values, variance / 2, variance / 2)
        moved = stats.skellam.pmf(values - shift, variance / 2, variance / 2)
        delta = float(np.maximum(moved - math.e * here, 0).sum())
        assert 1e-6 < delta <= 1e-4
        less = 0.5 * variance
        weak = stats.skellam.pmf(values - shift, less / 2, less / 2) - math.e * stats.skellam.pmf(
            values, less / 2, less / 2
        )
        assert float(np.maximum(weak, 0).sum()) > 1e-4  # half the variance would not do

    def test_discrete_gaussian_delta(self) -> None:
        protocol = SecureAggregation("inner-product", **SMALL)
        sensitivity = 2 * math.sqrt(protocol.quantizer.bound.l2_squared)
        delta = gaussian_delta(math.sqrt(protocol.variance(60)) / sensitivity, 1.0)
        assert 0.9e-4 < delta <= 1e-4

    def test_guarantee(self) -> None:
        promise = SecureAggregation("inner-product", **SMALL).guarantee
        assert promise.epsilon == 1 and promise.delta == 1e-4 and promise.neighbours == "replace"
        assert "secure aggregator reveals the sum" in promise.conditions[0]


class TestSums:
    @pytest.mark.parametrize("noise", NOISES)
    def test_error_is_what_the_release_says(self, noise: str) -> None:
        protocol, X = SecureAggregation("inner-product", noise=noise, **{**SMALL, "epsilon": 4}), unit(60)
        exact = protocol.quantizer.encode(X).sum(axis=0)
        errors = np.concatenate([protocol.simulate(X, random_state=seed).values - exact for seed in range(120)])
        assert np.mean(errors**2) == pytest.approx(protocol.variance(60), rel=0.4)  # 360 values: 7.5 % each way
        assert abs(errors.mean()) < 5 * math.sqrt(protocol.variance(60) / errors.size)

    def test_shares_one_by_one(self) -> None:
        protocol, X, secure = SecureAggregation("inner-product", **SMALL), unit(60), SecureBits.seeded(2)
        aggregator = Aggregator(protocol)
        for x in X[:59]:
            aggregator.add(protocol.share(x, secure))
        with pytest.raises(InputError, match="59 participants took part and the guarantee needs 60"):
            aggregator.total()
        aggregator.add(protocol.share(X[59]))
        release = protocol.release(*aggregator.total())
        answer, error = release.query(X[:1], return_std=True)
        assert abs(answer - X[0] @ X.mean(axis=0))[0] < 6 * error[0] and release.guarantee.private
        assert protocol.share(X[0]).min() >= 0 and protocol.share(X[0]).max() < MODULUS

    @pytest.mark.parametrize("options", [{"instances": 128}, {"instances": 16, "landmarks": points(30, 2)}])
    def test_kernels(self, options: dict[str, Any]) -> None:
        """Of 150 seeds the largest error was three bars with 64 and with 200 frequencies; 16 tell little of bars."""
        protocol = SecureAggregation(
            "gaussian", bandwidth=1.0, **{**SMALL, "dimension": 2, "participants": 500, **options}
        )
        X = points(500, 2)
        release = protocol.simulate(X, random_state=1)
        answers, errors = release.query(X[:20], return_std=True)
        assert np.abs(answers - protocol.kernel.exact_density(X, X[:20])).max() < 6 * errors.max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "needs delta > 0"),
        ({"noise": "laplace"}, "noise must be one of"),
        ({"participants": 0}, "honest participants"),
        ({"kernel": "gaussian", "bandwidth": 1.0, "noise": "skellam"}, "are for inner products, not fourier"),
        ({"quantizer": "hashing"}, "not hashing"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SecureAggregation(**{"kernel": "inner-product", **SMALL, **options})


def test_odd_shares() -> None:
    aggregator = Aggregator(SecureAggregation("inner-product", **SMALL))
    shares: list[Any] = [np.zeros(2, dtype=np.int64), np.full(3, -1), np.full(3, MODULUS), np.zeros(3)]
    for share in shares:
        with pytest.raises(InputError, match="a share must be 3 integers"):
            aggregator.add(share)


def test_the_guarantee_says_what_happens_to_long_records() -> None:
    guarantee = SecureAggregation("inner-product", **SMALL).guarantee
    assert any("records longer than 1 are scaled down" in condition for condition in guarantee.conditions)


def test_dimension() -> None:
    with pytest.raises(InputError, match="dimension must be a positive whole number"):
        SecureAggregation("inner-product", **{**SMALL, "dimension": 0})
