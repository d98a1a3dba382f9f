"""Choosing and measuring have exactly the laws they claim."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace, rounded_down
from sfumato.published.common import best_size
from sfumato.published.gridded import SecretSteps, log_law
from tests.published.local.chances import fits

FALSE_ALARM = 1e-6
DRAWS = 13_000  # 8,000 would miss the smallest tilt once in 12,000 runs


@pytest.mark.parametrize(
    ("scores", "rate"),
    [([0, 1, 2, 3, 4], Fraction(1, 2)), ([5, 7, 5, -40], Fraction(1, 3)), ([0] * 50 + [9], Fraction(2, 3))],
)
def test_choices_follow_the_exponential_mechanism(scores: list[int], rate: Fraction) -> None:
    steps, values = SecretSteps(SecureBits.seeded(f"{scores}")), np.array(scores)
    counts = np.bincount([steps.choose(values, rate) for _ in range(DRAWS)], minlength=len(scores))
    weights = np.exp(float(rate) * (values - values.max()))
    expected = DRAWS * weights / weights.sum()
    np.testing.assert_allclose(np.exp(log_law(values, rate)), weights / weights.sum())
    often = expected > 5
    assert fits(counts, weights / weights.sum())
    tilted = expected * np.exp(0.3 * float(rate) * (values - values.max()))
    assert chisquare(counts[often], tilted[often] * counts[often].sum() / tilted[often].sum()).pvalue < FALSE_ALARM


def test_a_rare_best_is_found() -> None:
    scores = np.zeros(30_000, dtype=np.int64)
    scores[12_345] = 10**9
    assert SecretSteps(SecureBits.seeded(1)).choose(scores, Fraction(1)) == 12_345


def test_measuring_adds_the_noise() -> None:
    steps, law = SecretSteps(SecureBits.seeded(2)), DiscreteLaplace(Fraction(1, 5))
    values = np.array([steps.measure(100, law) for _ in range(4000)]) - 100
    # The mean has standard deviation sd / 63, the mean square about 2.2 of the variance / 63.
    assert abs(values.mean()) < 5 * np.sqrt(law.variance / 4000)
    assert abs((values**2).mean() / law.variance - 1) < 5 * 2.3 / np.sqrt(4000)


def test_rates_are_rounded_down() -> None:
    for rate in (Fraction(123_456_789, 10**9 * 2**35 + 1), Fraction(10**17 + 1, 10**19), Fraction(10**20 + 1, 10**15)):
        rounded = rounded_down(rate)
        assert rate * Fraction(2**20 - 1, 2**20) < rounded < rate
        assert max(rounded.numerator, rounded.denominator) <= 2**56
    with pytest.raises(InputError, match="so little budget"):
        rounded_down(Fraction(1, 2**60 + 1))


def test_the_best_size_is_found_to_an_eighth() -> None:
    for best in (1, 3, 17, 40):
        found = best_size(lambda size, best=best: (size - best) ** 2 / best**2 + 0.05, most=64)
        assert abs(found - best) <= best / 8
    assert best_size(lambda size: 1 / size, most=9) == 9
