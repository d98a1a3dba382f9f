"""Composition against closed forms, the Gaussian limit and dp_accounting, from 1 to 100,000 instances."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfumato.privacy.loss import gaussian_delta
from sfumato.shuffled.bitsum import calibrate
from sfumato.shuffled.bitsum.composition import composed_delta
from sfumato.shuffled.bitsum.crosscheck import bracket
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Pair, curve_of
from sfumato.shuffled.bitsum.poisson import PoissonNoise
from sfumato.shuffled.bitsum.rr import RandomisedResponse, response_pair
from sfumato.shuffled.bitsum.three_nb import ThreeNegativeBinomials


def response(loss: float) -> Curve:
    """Local randomised response: losses +loss and -loss, on the grid."""
    keep = 1 / (1 + math.exp(-loss))
    first = np.array([1 - keep, keep])
    return curve_of([Pair(first, first[::-1], np.array([-loss, loss]), 0.0)], loss / 20, loss)


def exact_response_delta(loss: float, instances: int, epsilon: float) -> float:
    """Delta of composed randomised responses, term by term: all terms are positive."""
    ones = np.arange(instances + 1)
    sums = loss * (2 * ones - instances)
    mass = stats.binom.logpmf(ones, instances, 1 / (1 + math.exp(-loss)))
    above = sums > epsilon
    return math.fsum(np.exp(mass[above]) * -np.expm1(epsilon - sums[above]))


@pytest.mark.parametrize(
    ("loss", "instances"), [(1.0, 1), (1.0, 2), (0.5, 10), (0.1, 100), (0.02, 768), (0.01, 6144), (0.002, 100_000)]
)
@pytest.mark.parametrize("deviations", [0.5, 2.0, 5.0, 9.0])
def test_randomised_response(loss: float, instances: int, deviations: float) -> None:
    epsilon = instances * loss * math.tanh(loss / 2) + deviations * loss * math.sqrt(instances)
    exact = exact_response_delta(loss, instances, epsilon)
    bound = composed_delta(response(loss), instances, epsilon)
    assert exact <= bound * (1 + 1e-12)
    # Small deltas are as accurate as large ones: at nine deviations they are about 1e-20. The margins add up.
    assert bound <= exact * 1.003 + (0.0 if instances > 1 else 1e-10)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_gaussian_limit(epsilon: float) -> None:
    """Poisson noise of a large mean is as good as Gaussian noise."""
    instances, mean = 100_000, 10**6
    curve = PoissonNoise(10, Fraction(mean)).curve(Accuracy(1e-20, 50))
    mu = math.sqrt(instances / mean)
    bound = composed_delta(curve, instances, epsilon)
    assert gaussian_delta(1 / mu, epsilon) * 0.999 <= bound <= gaussian_delta(1 / mu, epsilon) * 1.05


@settings(max_examples=60, deadline=None)
@given(
    masses=st.lists(st.floats(0.01, 1), min_size=2, max_size=6),
    others=st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
    epsilon=st.floats(0.0, 2.0),
)
def test_two_instances_of_any_pair(masses: list[float], others: list[float], epsilon: float) -> None:
    first, second = np.array(masses), np.array(others[: len(masses)])
    first, second = first / first.sum(), second / second.sum()
    order = np.argsort(first / second)
    first, second = first[order], second[order]
    pair = Pair(first, second, np.log(first / second), 0.0)
    curve = curve_of([pair], max(pair.largest_loss, 1e-3) / 200, pair.largest_loss)
    laws = [(first, second), (second, first)]
    exact = max(
        float(np.maximum(np.outer(a, c) - math.exp(epsilon) * np.outer(b, d), 0).sum())
        for a, b in laws
        for c, d in laws
    )
    assert exact <= composed_delta(curve, 2, epsilon) + 1e-12


def test_what_is_lost_is_paid_for() -> None:
    first = np.array([0.3, 0.6])
    curve = curve_of([Pair(first, first[::-1], np.log(first / first[::-1]), 0.1)], 0.01, math.log(2))
    assert composed_delta(curve, 1, 5.0) == pytest.approx(0.1, rel=1e-6)
    assert composed_delta(curve, 3, 5.0) == pytest.approx(1 - 0.9**3, rel=1e-6)


def test_atoms_of_one_law_count_in_its_order_only() -> None:
    first = np.array([0.5])
    pair = Pair(first, np.array([1.0]), np.log(first), 0.0, only_first=0.5)
    forward, backward = pair.orders(np.array([0.0, 3.0]))
    assert forward == pytest.approx([0.5, 0.5]) and backward == pytest.approx([0.5, 0.0], abs=1e-9)


def test_delta_falls_with_epsilon_and_grows_with_instances() -> None:
    curve = RandomisedResponse(200, Fraction(1, 5)).curve(Accuracy(1e-14, 50))
    by_epsilon = [composed_delta(curve, 30, epsilon) for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0, 4.0)]
    by_instances = [composed_delta(curve, instances, 1.0) for instances in (1, 2, 5, 20, 100)]
    assert all(a > b for a, b in pairwise(by_epsilon))
    assert all(a < b for a, b in pairwise(by_instances))


class TestCrossCheck:
    """dp_accounting's bounds of single cases: the certified delta is above the lower ones, and not far above."""

    @pytest.mark.parametrize(("instances", "epsilon", "slack"), [(16, 1.0, 1.25), (64, 2.0, 1.25), (64, 4.0, 1.4)])
    def test_rr(self, instances: int, epsilon: float, slack: float) -> None:
        calibration = calibrate("rr", n=1000, instances=instances, epsilon=epsilon, delta=1e-5)
        flip = float(calibration.parameters["flip"])
        brackets = []
        for ones in (0, 499, 999):
            pair = response_pair(1000, ones, flip, 1e-15)
            brackets.append(bracket(pair, instances, epsilon, pair.deviation / 500))
        low, high = max(low for low, _ in brackets), max(high for _, high in brackets)
        assert 0.8 * high < low <= calibration.delta <= slack * high

    @pytest.mark.parametrize(("instances", "epsilon"), [(16, 1.0), (64, 4.0)])
    def test_3nb(self, instances: int, epsilon: float) -> None:
        calibration = calibrate("3nb", n=1000, instances=instances, epsilon=epsilon, delta=1e-5)
        assert isinstance(calibration.protocol, ThreeNegativeBinomials)
        pair = calibration.protocol.pair(1e-15)
        low, high = bracket(pair, instances, epsilon, pair.deviation / 500)
        assert 0.8 * high < low <= calibration.delta <= 1.2 * high

    def test_a_twin_with_30_percent_less_noise_is_caught(self) -> None:
        calibration = calibrate("rr", n=1000, instances=16, epsilon=1.0, delta=1e-5)
        pair = response_pair(1000, 0, 0.49 * float(calibration.parameters["flip"]), 1e-15)
        assert bracket(pair, 16, 1.0, pair.deviation / 100)[0] > 10 * calibration.delta
