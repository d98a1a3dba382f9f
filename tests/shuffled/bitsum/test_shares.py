"""Samplers of message counts follow their laws exactly as far as samples can tell; false alarms: about 1e-6 a test."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.bitsum.shares import binomial, coins, negative_binomial, poisson

FALSE_ALARM = 1e-6
SAMPLES = 200_000


def p_value(sample: np.ndarray, law: stats.rv_discrete) -> float:
    """Chi-square test on cells that expect at least 30 samples."""
    values = np.arange(int(law.ppf(1e-12)), int(law.isf(1e-12)) + 2)
    heads = np.concatenate([[0.0], law.cdf(values[:-1]), [1.0]])
    edges, last = [0], 0
    for index in range(1, heads.size):
        if (heads[index] - heads[last]) * sample.size >= 30:
            edges.append(index)
            last = index
    edges[-1] = heads.size - 1
    expected = np.diff(heads[edges]) * sample.size
    places = np.clip(np.searchsorted(values, sample), 0, values.size - 1)
    counts = np.add.reduceat(np.bincount(places, minlength=values.size), edges[:-1])
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.parametrize("mean", [Fraction(1, 100), Fraction(1, 2), Fraction(7, 3), Fraction(40), Fraction(10_001, 2)])
def test_poisson(mean: Fraction) -> None:
    sample = poisson(SecureBits.seeded(f"poisson {mean}"), SAMPLES if mean < 100 else 3000, mean)
    assert p_value(sample, stats.poisson(float(mean))) > FALSE_ALARM
    assert p_value(sample, stats.poisson(0.7 * float(mean))) < FALSE_ALARM


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        (Fraction(1, 1000), Fraction(1, 70)),
        (Fraction(1, 10), Fraction(1, 20)),
        (Fraction(3, 7), Fraction(1, 2)),
        (Fraction(1), Fraction(1, 3)),
        (Fraction(5, 2), Fraction(1, 20)),
        (Fraction(32), Fraction(2)),
    ],
)
def test_negative_binomial(shape: Fraction, rate: Fraction) -> None:
    count = SAMPLES if shape > Fraction(1, 100) else 2 * SAMPLES  # of which one in 235 is not 0
    sample = negative_binomial(SecureBits.seeded(f"shares {shape} {rate}"), count, shape, rate)
    chance = -math.expm1(-float(rate))
    assert p_value(sample, stats.nbinom(float(shape), chance)) > FALSE_ALARM
    assert p_value(sample, stats.nbinom(0.7 * float(shape), chance)) < FALSE_ALARM


@pytest.mark.parametrize(("users", "shape"), [(5, 1), (7, 3), (3, 4)])
def test_shares_add_up(users: int, shape: int) -> None:
    rate = Fraction(1, 4)
    shares = negative_binomial(SecureBits.seeded("shares"), SAMPLES // 4 * users, Fraction(shape, users), rate)
    together = shares.reshape(-1, users).sum(axis=1)
    assert p_value(together, stats.nbinom(shape, -math.expm1(-0.25))) > FALSE_ALARM


def test_thrown_into_an_urn_without_memory_is_caught() -> None:
    """Units that go to a part independently of each other have too small a variance."""
    rate, bits = Fraction(1, 20), SecureBits.seeded("no memory")
    whole = negative_binomial(bits, SAMPLES // 4, Fraction(1), rate)
    twin = binomial(bits, whole, Fraction(1, 10))
    assert p_value(twin, stats.nbinom(0.1, -math.expm1(-0.05))) < FALSE_ALARM


@pytest.mark.parametrize("chance", [Fraction(1, 2**40), Fraction(1, 3), Fraction(2**40 - 1, 2**40)])
def test_coins(chance: Fraction) -> None:
    heads = int(coins(SecureBits.seeded(f"coins {chance}"), SAMPLES, chance).sum())
    assert stats.binomtest(heads, SAMPLES, float(chance)).pvalue > FALSE_ALARM


@pytest.mark.once
def test_sure_coins() -> None:
    bits = SecureBits.seeded(1)
    assert coins(bits, 100, Fraction(1)).all() and not coins(bits, 100, Fraction(0)).any()


@pytest.mark.parametrize("trials", [[0, 1, 1000], [5]])
@pytest.mark.once
def test_binomial_counts_trials(trials: list[int]) -> None:
    counts = binomial(SecureBits.seeded(1), np.array(trials), Fraction(1))
    assert counts.tolist() == trials


@pytest.mark.once
def test_same_seed_same_counts() -> None:
    first, again, other = (
        negative_binomial(SecureBits.seeded(seed), 100, Fraction(2, 9), Fraction(1, 100)).tolist() for seed in (3, 3, 4)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("shape", "rate", "message"),
    [
        (Fraction(0), Fraction(1), "A shape must be a positive fraction"),
        (Fraction(1, 2**32), Fraction(1), "A shape must be a positive fraction"),
        (Fraction(1), Fraction(1, 2**25), "less than is sampled"),
        (Fraction(1), Fraction(2**57, 2**57 - 1), "terms of at most"),
    ],
)
@pytest.mark.once
def test_laws_that_cannot_be_sampled_exactly_are_refused(shape: Fraction, rate: Fraction, message: str) -> None:
    with pytest.raises(InputError, match=message):
        negative_binomial(SecureBits.seeded(1), 1, shape, rate)
