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
from sfumato.shuffled.bitsum.curves import LOSS_ERROR, Accuracy, Curve, Pair, composed_delta, curve_of
from sfumato.shuffled.bitsum.rr import FOURIER_ERROR, RandomisedResponse, _ones_given, response_pair
from sfumato.shuffled.bitsum.signed import ThreeNegativeBinomials
from sfumato.shuffled.bitsum.unsigned import PoissonNoise
from tests.shuffled.second_opinion import bracket


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


class TestLaws:
    """Errors of computed losses and probabilities stay below what is paid for (LOSS_ERROR, FOURIER_ERROR)."""

    @pytest.mark.parametrize(("n", "ones"), [(200, 0), (200, 70), (300, 149), (2, 1), (1, 0)])
    @pytest.mark.parametrize("flip", [Fraction(1, 64), Fraction(1, 4), Fraction(31, 64)])
    def test_losses_of_rr(self, n: int, ones: int, flip: Fraction) -> None:
        up = int(64 * flip)
        exact = [1]  # in units of 64^-(n-1), by integers
        for held in [1] * ones + [0] * (n - 1 - ones):
            yes = 64 - up if held else up
            exact = [(64 - yes) * a + yes * b for a, b in zip([*exact, 0], [0, *exact], strict=True)]
        first = [up * a + (64 - up) * b for a, b in zip([*exact, 0], [0, *exact], strict=True)]
        second = [(64 - up) * a + up * b for a, b in zip([*exact, 0], [0, *exact], strict=True)]
        pair = response_pair(n, ones, float(flip), 1e-15)
        start = first.index(max(first)) - int(np.argmax(pair.first))
        places = range(start, start + pair.losses.size)
        losses = [math.log(Fraction(first[place], second[place])) for place in places]
        assert np.abs(pair.losses - losses).max() < LOSS_ERROR / 10
        assert pair.first == pytest.approx([float(Fraction(first[place], 64**n)) for place in places], rel=1e-11)

    @pytest.mark.parametrize(("rate", "shape", "scale"), [(0.1, 6, 5), (0.01, 32, 120), (2.0, 3, 2)])
    def test_losses_of_3nb(self, rate: float, shape: int, scale: int) -> None:
        """Against extended precision, by the recursion from 0 on."""
        pair = ThreeNegativeBinomials(5, Fraction(rate), shape, Fraction(1, scale)).pair(1e-13)
        values = np.arange(1, 40 * shape * scale, dtype=np.longdouble)
        flood = np.exp(
            np.concatenate([[0], np.cumsum(np.log((values + shape - 1) / values) - 1 / np.longdouble(scale))])
        )
        flood *= (-np.expm1(-1 / np.longdouble(scale))) ** shape
        smeared, decay = flood.copy(), np.exp(-2 * np.longdouble(rate))
        for place in range(1, smeared.size):
            smeared[place] += decay * smeared[place - 1]
        masses = -np.expm1(-np.longdouble(rate)) * smeared[1:]
        likely = masses > 1e-10
        exact = np.sort((rate + np.log(smeared[1:] / smeared[:-1]))[likely]).astype(np.float64)
        assert exact.size > 10
        places = np.clip(np.searchsorted(pair.losses, exact), 1, pair.losses.size - 1)
        nearest = np.minimum(np.abs(pair.losses[places] - exact), np.abs(pair.losses[places - 1] - exact))
        assert nearest.max() < LOSS_ERROR / 10
        both = (pair.first.sum() + pair.only_first, pair.second.sum())
        assert both == pytest.approx((1.0, 1.0), abs=2e-13)

    @pytest.mark.parametrize(
        ("messages", "participants", "ones", "flip"),
        [(30, 60, 20, 0.2), (200, 1000, 0, 0.3), (300, 400, 200, 0.05), (1, 5, 2, 0.2), (800, 8000, 3000, 0.45)],
    )
    def test_law_given_the_number_of_messages(self, messages: int, participants: int, ones: int, flip: float) -> None:
        exact = np.zeros(messages + 1)
        for held in range(max(0, messages - participants + ones), min(ones, messages) + 1):
            kept = stats.binom.pmf(np.arange(held + 1), held, 1 - flip)
            flipped = stats.binom.pmf(np.arange(messages - held + 1), messages - held, flip)
            exact += stats.hypergeom.pmf(held, participants, ones, messages) * np.convolve(kept, flipped)
        law = _ones_given(messages, participants, ones, flip, 0, messages, 1e-20)
        assert np.abs(law - exact).sum() < FOURIER_ERROR / 4


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
