"""Three calibrations of gamma: each keeps its promise, and the exact one spends it all."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.errors import InputError
from sfumato.published.local.calibration import RULES, calibrate, different_rows, tail, tail_above
from sfumato.published.local.closeness import closeness_of

# (bandwidth, radius, L, R) of the publication's experiments at epsilon 1, 5 and 20.
SETTINGS = [
    *((0.25, 0.1, rows, buckets) for rows, buckets in ((6, 5), (9, 6), (18, 16))),
    *((0.5, 0.1, rows, buckets) for rows, buckets in ((9, 6), (16, 9), (20, 10))),
    *((0.25, 0.2, rows, buckets) for rows, buckets in ((4, 4), (7, 6), (14, 14))),
    *((0.5, 0.0025, rows, buckets) for rows, buckets in ((18, 18), (62, 62), (400, 400))),
    *((50**0.5, 0.015 * 50**0.5, rows, buckets) for rows, buckets in ((16, 16), (100, 100), (600, 600))),
]


@pytest.mark.parametrize("seed", range(20))
def test_the_tail_is_the_binomial_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, p = int(random.integers(1, 3000)), float(random.uniform() ** 3)
    j, eta = int(random.integers(0, rows + 1)), float(10 ** random.uniform(-12, -0.1))
    assert tail(rows, p, j) == pytest.approx(float(binom.sf(j, rows, p)), rel=1e-8, abs=1e-280)
    assert different_rows(rows, p, eta) == int(binom.isf(eta, rows, p))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("bandwidth", "radius", "rows", "buckets"), SETTINGS)
@pytest.mark.parametrize("eta", [0.1, 1e-6])
def test_every_rule_keeps_its_promise(
    bandwidth: float, radius: float, rows: int, buckets: int, eta: float, rule: str
) -> None:
    close = closeness_of({"kernel": "l2-lsh", "bandwidth": bandwidth})
    p, line = ((1 - 1 / buckets) * chance(radius) for chance in (close.separation, close.published))
    found = calibrate(Fraction(1), rows, p, eta, rule, line)
    most = int(Fraction(1) / found.gamma)  # so many different rows cost epsilon or less
    assert most >= rows or float(binom.sf(most, rows, p)) <= eta
    assert found.gamma * rows >= 1  # plain LDP would not be better


@pytest.mark.parametrize("epsilon", [1, 5])
@pytest.mark.parametrize(("bandwidth", "radius", "rows", "buckets"), SETTINGS)
def test_the_exact_tail_gains_fifteen_percent_at_the_published_settings(
    bandwidth: float, radius: float, rows: int, buckets: int, epsilon: int
) -> None:
    close = closeness_of({"kernel": "l2-lsh", "bandwidth": bandwidth})
    p, line = ((1 - 1 / buckets) * chance(radius) for chance in (close.separation, close.published))
    exact, *published = (calibrate(Fraction(epsilon), rows, p, 0.1, rule, line).gamma for rule in RULES)
    assert exact >= Fraction(115, 100) * max(published)


@pytest.mark.parametrize("seed", range(10))
def test_the_exact_tail_is_never_worse(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, p, eta = int(random.integers(1, 500)), float(random.uniform()), float(10 ** random.uniform(-8, -0.1))
    exact, *published = (calibrate(Fraction(3), rows, p, eta, rule).gamma for rule in RULES)
    assert exact >= max(published)


def test_the_loss_grows_with_the_distance_up_to_the_worst_case() -> None:
    found = calibrate(Fraction(1), 50, 0.1, 1e-6)
    losses = [found.loss(p) for p in (0.0, 0.05, 0.1, 0.3, 1.0)]
    assert losses == sorted(losses)
    assert losses[0] == 0.0
    assert losses[2] == pytest.approx(1.0)
    assert losses[-1] == pytest.approx(float(found.worst_case))


def test_a_row_that_never_differs_still_has_noise() -> None:
    assert calibrate(Fraction(1), 10, 0.0, 0.1).gamma == 1


@pytest.mark.parametrize(
    ("rows", "difference", "eta", "rule"),
    [
        (10, 0.1, 0.0, "exact"),
        (10, 0.1, 1.0, "exact"),
        (0, 0.1, 0.1, "exact"),
        (10, 1.5, 0.1, "exact"),
        (10, 0.1, 0.1, "guess"),
    ],
)
def test_impossible_calibrations_are_refused(rows: int, difference: float, eta: float, rule: str) -> None:
    with pytest.raises(InputError):
        calibrate(Fraction(1), rows, difference, eta, rule)


def exact_tail(rows: int, p: Fraction, j: int) -> Fraction:
    return sum((math.comb(rows, i) * p**i * (1 - p) ** (rows - i) for i in range(j + 1, rows + 1)), Fraction(0))


@pytest.mark.parametrize("difference", [0.5, 0.1, 0.03, 0.999, 2.0**-40])
@pytest.mark.parametrize("rows", [1, 7, 60, 150])
def test_tails_are_bounded_from_above_however_small(rows: int, difference: float) -> None:
    for j in sorted({0, 1, rows // 3, rows // 2, rows - 2, rows - 1, rows} & set(range(rows + 1))):
        bound, true = Fraction(tail_above(rows, difference, j)), exact_tail(rows, Fraction(difference), j)
        assert true <= bound <= true * (1 + Fraction(1, 10**18))


@pytest.mark.parametrize("grinding", [0, 10, 64, 200])
def test_every_try_of_a_seed_is_paid_for(grinding: int) -> None:
    for rows, difference in ((40, 0.1), (150, 0.03)):
        j = different_rows(rows, difference, 1e-6, grinding)
        allowed = Fraction(1e-6) / 2**grinding
        assert exact_tail(rows, Fraction(difference), j) <= allowed
        assert exact_tail(rows, Fraction(difference), j - 1) > allowed * (1 - Fraction(1, 10**18))
        for rule in RULES:
            gamma = calibrate(Fraction(1), rows, difference, 1e-6, rule, grinding=grinding).gamma
            assert 1 / gamma >= min(j, rows)
