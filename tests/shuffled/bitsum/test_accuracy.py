"""Errors and message counts are as predicted, from users' messages and from simulated totals; false alarm 1e-6."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.bitsum import BitSum, Counts, calibrate
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise, PoissonNoise

FALSE_ALARM = 1e-6
# Squares of Laplace noise have a skewness of 6.6: 4.9 deviations of 6,000 would be too few once in 70,000 times.
DEVIATIONS = 5.5
USERS = 40
PROTOCOLS: list[BitSum] = [
    RandomisedResponse(USERS, Fraction(1, 5)),
    SampledResponse(USERS, Fraction(1, 10), Fraction(1, 3)),
    PoissonNoise(USERS, Fraction(55)),
    NegativeBinomialNoise(USERS, 9, Fraction(1, 3)),
    ThreeNegativeBinomials(USERS, Fraction(1, 5), 7, Fraction(1, 10)),
    Pure(USERS, Fraction(1, 2), Fraction(1, 50), 6, 5, Fraction(1, 20)),
]


def is_mean(sample: np.ndarray, expected: float) -> bool:
    """Whether the mean of a sample is the expected one, within its sampling error."""
    return bool(abs(sample.mean() - expected) <= DEVIATIONS * sample.std() / math.sqrt(sample.size))


@cache
def sent_by_users(protocol: BitSum, ones: int) -> Counts:
    """Messages of 6,000 instances, which three tests look at."""
    bits = (np.arange(protocol.n) < ones).astype(np.int64)
    sent = protocol.randomise(np.tile(bits, (6000, 1)), SecureBits.seeded(f"users {protocol} {ones}"))
    return Counts(sent.ones.sum(axis=1), sent.zeros.sum(axis=1))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
@pytest.mark.parametrize("ones", [0, 17, USERS])
class TestFromUsers:
    def test_error_is_as_predicted(self, protocol: BitSum, ones: int) -> None:
        counts = sent_by_users(protocol, ones)
        errors = protocol.estimate(counts) - ones
        assert is_mean(errors, 0.0)
        variance = protocol.variance
        if isinstance(protocol, Pure):  # whose variance is that of all ones
            drop = float(protocol.drop)
            variance -= (USERS - ones) * drop / (1 - drop)
        assert is_mean(errors**2, variance)
        assert not is_mean(errors**2, 0.7 * variance)

    def test_messages_are_as_predicted(self, protocol: BitSum, ones: int) -> None:
        counts = sent_by_users(protocol, ones)
        together = counts.ones + counts.zeros
        assert is_mean(together, USERS * protocol.messages(ones / USERS)) or together.std() == 0
        assert together.mean() == pytest.approx(USERS * protocol.messages(ones / USERS), rel=0.05)

    def test_simulated_totals_have_the_same_law(self, protocol: BitSum, ones: int) -> None:
        users = sent_by_users(protocol, ones)
        totals = protocol.totals(np.full(6000, ones), SecureBits.seeded(f"totals {protocol} {ones}"))
        for one, other in (
            (users.ones, totals.ones),
            (users.zeros, totals.zeros),
            (users.ones - users.zeros, totals.ones - totals.zeros),
        ):
            assert stats.ks_2samp(one, other).pvalue > FALSE_ALARM


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
def test_more_participants_than_n(protocol: BitSum) -> None:
    """`n` is a lower bound: with more users the estimate stays unbiased if it is told how many took part."""
    bits = np.tile((np.arange(60) < 20).astype(np.int64), (6000, 1))
    sent = protocol.randomise(bits, SecureBits.seeded(f"more {protocol}"))
    counts = Counts(sent.ones.sum(axis=1), sent.zeros.sum(axis=1))
    assert is_mean(protocol.estimate(counts, participants=60) - 20, 0.0)


@pytest.mark.parametrize("name", ["rr", "negative-binomial", "3nb", "rr-published", "pure"])
def test_calibrated_error_at_full_size(name: str) -> None:
    delta = 0.0 if name == "pure" else 1e-5
    item = calibrate(name, n=10_000, instances=768, epsilon=8, delta=delta)
    sums = np.full(768, 10_000 if name == "pure" else 3000)
    errors = item.protocol.estimate(item.protocol.totals(sums, SecureBits.seeded(f"full {name}"))) - sums
    assert is_mean(errors, 0.0)
    # Means of 768 squares at 1e-6, of normal noise and of Laplace noise: their own deviation misleads once in 5,000.
    low, high = (0.67, 1.5) if name in ("3nb", "pure") else stats.chi2.ppf([5e-7, 1 - 5e-7], 768) / 768
    assert low < np.mean(errors**2) / item.rmse**2 < high
