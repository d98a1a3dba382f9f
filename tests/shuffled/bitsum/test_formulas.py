"""Closed formulas of bit sums at single points, worked by hand or by other programs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.bitsum.bit_sum import CHANCE_DENOMINATOR, FLIP, Digits, chance_above, rate_below
from sfumato.shuffled.bitsum.calibration import (
    advanced_composition,
    published_pure,
    published_response,
    published_three_nb,
)
from sfumato.shuffled.bitsum.rr import response_pair
from sfumato.shuffled.bitsum.shares import permutation
from sfumato.shuffled.bitsum.signed import geometric_difference_variance, rate_for_difference
from sfumato.shuffled.bitsum.unsigned import (
    NegativeBinomialNoise,
    chernoff_window,
    law_from_ratios,
    negative_binomial_exponent,
    negative_binomial_log_moment,
    poisson_exponent,
    rate_for_variance,
)


def test_published() -> None:
    epsilon0, delta0 = advanced_composition(768, 1.0, 1e-5)
    assert (round(epsilon0, 5), round(delta0 * 1e9, 2)) == (0.00703, 6.51)
    assert round(published_response(10_000, 384, 1.0, 1e-5).rmse) == 4624
    assert round(published_three_nb(10_000, 384, 1.0, 1e-5).rmse, 1) == 143.8
    assert published_pure(100, 1, Fraction(1), Fraction(1, 2)).copies == 144


def test_chances_and_rates() -> None:
    assert (chance_above(0.25), chance_above(1e-12)) == (Fraction(1, 4), Fraction(1, 549755813888))
    assert rate_below(0.3) <= 0.3 < rate_below(0.3) + Fraction(1, CHANCE_DENOMINATOR)
    assert round(NegativeBinomialNoise(10, 7, Fraction(rate_for_variance(7, 50.0))).variance, 9) == 50.0
    assert round(geometric_difference_variance(0.1), 3) == 199.833
    assert round(rate_for_difference(geometric_difference_variance(0.1)), 12) == 0.1


def test_tails() -> None:
    assert chernoff_window(100.0, lambda x: poisson_exponent(x, 100.0), 1e-6) == (51, 159)
    assert poisson_exponent(0.0, 3.0) == 3.0
    assert round(math.exp(-negative_binomial_exponent(0.0, 1.0, 3.0)), 10) == 0.25  # a geometric count of mean 3 is 0
    assert (
        round(math.exp(negative_binomial_log_moment(math.log(1.5), 1.0, math.log(2))), 10) == 2.0
    )  # sum of (3/4)^k / 2


@pytest.mark.exact
def test_laws() -> None:
    assert np.allclose(law_from_ratios(np.log([2.0, 0.5])), [0.25, 0.5, 0.25])
    assert np.allclose(response_pair(2, 1, 0.25, 1e-15).first, [0.0625, 0.375, 0.5625])
    assert permutation(SecureBits.seeded(7), 6).tolist() == [5, 4, 2, 3, 1, 0]


def test_fields() -> None:
    assert Digits(4096).read("64", "shape") == 64
    with pytest.raises(InputError, match="flip must be a positive fraction from 0 on and below 1/2, got '1/2'"):
        FLIP.read("1/2", "flip")
