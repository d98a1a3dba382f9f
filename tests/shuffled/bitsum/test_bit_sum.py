"""Every protocol against the enumeration of what its users send, whatever the others hold; broken twins are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.signal import fftconvolve

from sfumato.errors import InputError
from sfumato.shuffled.bitsum import calibrate
from sfumato.shuffled.bitsum.bit_sum import BitSum, ComposableBitSum, rate_below
from sfumato.shuffled.bitsum.calibration import _cheapest_flood, published_pure
from sfumato.shuffled.bitsum.curves import Accuracy, composed_delta, curve_of
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse, response_pair
from sfumato.shuffled.bitsum.signed import ThreeNegativeBinomials
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise, PoissonNoise
from tests.shuffled.views import delta_of, largest_pure_loss, user_law, views, worst_delta

ACCURACY = Accuracy(tail=1e-14, steps=400)
HALF = Fraction(1, 2)
SMALL: list[tuple[ComposableBitSum, int]] = [
    (RandomisedResponse(1, Fraction(1, 4)), 3),
    (RandomisedResponse(2, Fraction(1, 10)), 4),
    (RandomisedResponse(5, Fraction(3, 10)), 7),
    (RandomisedResponse(7, Fraction(1, 50)), 9),
    (SampledResponse(1, Fraction(1, 4), HALF), 3),
    (SampledResponse(4, Fraction(1, 5), HALF), 6),
    (SampledResponse(6, Fraction(1, 20), Fraction(9, 10)), 8),
    (SampledResponse(6, Fraction(2, 5), Fraction(1, 10)), 8),
    (PoissonNoise(3, Fraction(12)), 80),
    (PoissonNoise(2, Fraction(1, 2)), 40),
    (NegativeBinomialNoise(3, 5, Fraction(1, 5)), 400),
    (NegativeBinomialNoise(4, 1, Fraction(1, 2)), 150),
    (ThreeNegativeBinomials(1, HALF, 3, Fraction(1, 4)), 150),
    (ThreeNegativeBinomials(3, HALF, 6, Fraction(1, 4)), 170),
    (ThreeNegativeBinomials(2, Fraction(2), 2, Fraction(1, 3)), 120),
]


def names(item: object) -> str | None:
    return repr(item) if isinstance(item, ComposableBitSum) else None


def claimed(protocol: ComposableBitSum, epsilon: float, instances: int = 1) -> float:
    return composed_delta(protocol.curve(ACCURACY), instances, epsilon)


@pytest.mark.parametrize(("protocol", "size"), SMALL, ids=names)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4, 1.0, 2.0])
def test_one_instance(protocol: ComposableBitSum, size: int, epsilon: float) -> None:
    exact, bound = worst_delta(protocol, size, epsilon), claimed(protocol, epsilon)
    assert exact <= bound + 1e-12  # rounding of the enumeration
    assert bound <= 1.02 * exact + 1e-3 * worst_delta(protocol, size, 0.0)  # and steps cost little


@pytest.mark.parametrize(
    ("protocol", "size"), [item for item in SMALL if item[0].n > 1 and item[1] <= 80 and item[0].n < 6], ids=names
)
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_two_instances_in_all_directions(protocol: ComposableBitSum, size: int, epsilon: float) -> None:
    exact, bound = worst_delta(protocol, size, epsilon, instances=2), claimed(protocol, epsilon, 2)
    assert exact <= bound + 1e-12
    assert bound <= 1.1 * exact + 1e-3


@pytest.mark.parametrize(
    ("name", "n", "size"), [("rr", 5, 7), ("rr", 1, 3), ("poisson", 3, 200), ("negative-binomial", 3, 700)]
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-2), (1, 1e-3), (2, 1e-4)])
def test_calibrated(name: str, n: int, size: int, epsilon: float, delta: float) -> None:
    calibration = calibrate(name, n=n, instances=1, epsilon=epsilon, delta=delta)
    assert worst_delta(calibration.protocol, size, epsilon) <= calibration.delta <= delta
    assert worst_delta(with_less_noise(calibration.protocol), size, epsilon) > delta


@pytest.mark.parametrize(("messages", "instances"), [(0.5, 1), (1, 2)])
def test_calibrated_with_a_message_budget(messages: float, instances: int) -> None:
    calibration = calibrate("rr", n=4, instances=instances, epsilon=1, delta=1e-2, messages=messages)
    assert worst_delta(calibration.protocol, 6, 1.0, instances) <= calibration.delta <= 1e-2
    assert worst_delta(with_less_noise(calibration.protocol), 6, 1.0, instances) > 1e-2


def with_less_noise(protocol: BitSum) -> BitSum:
    """A twin with 3 % less of what makes the noise."""
    parameters = protocol.parameters
    if "flip" in parameters:
        return replace(protocol, flip=parameters["flip"] * Fraction(97, 100))  # type: ignore[type-var]
    if "mean" in parameters:
        return replace(protocol, mean=parameters["mean"] * Fraction(97, 100))  # type: ignore[type-var]
    return replace(protocol, rate=parameters["rate"] * Fraction(100, 97))  # type: ignore[type-var]


class TestTwins:
    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
    def test_3nb_without_its_flood(self, epsilon: float) -> None:
        protocol = ThreeNegativeBinomials(2, HALF, 6, Fraction(1, 4))
        share = user_law(NegativeBinomialNoise(2, 1, HALF), 0, 60)[:, 0]
        laws = [np.outer(np.concatenate([np.zeros(bit), share[: 60 - bit]]), share) for bit in (0, 1)]
        first, second = (fftconvolve(laws[0], law)[:60, :60] for law in laws)
        assert delta_of(first, second, epsilon) > 10 * claimed(protocol, epsilon)
        assert second[0].max() < 1e-16 < 0.01 < first[0].sum()  # no message +1: the bit was 0

    @pytest.mark.parametrize(("n", "epsilon"), [(6, 0.5), (10, 1.0)])
    def test_rr_calibrated_on_one_number_of_ones(self, n: int, epsilon: float) -> None:
        delta = 1e-3

        def excess(flip: float) -> float:
            pair = response_pair(n, (n - 1) // 2, flip, ACCURACY.tail)
            return composed_delta(curve_of([pair], pair.deviation / 400, pair.largest_loss), 1, epsilon) - delta

        twin = RandomisedResponse(n, Fraction(brentq(excess, 1e-3, 0.499)).limit_denominator(10**6))
        middle = list(views(twin, n + 2))[(n - 1) // 2]
        assert delta_of(*middle, epsilon) <= 1.01 * delta  # it is right for the case it saw
        assert worst_delta(twin, n + 2, epsilon) > 2 * delta
        assert claimed(twin, epsilon) > 2 * delta

    @pytest.mark.parametrize("epsilon", [1.0, 2.0, 3.0])
    def test_bundled_messages(self, epsilon: float) -> None:
        """A user's messages of six instances in one envelope, one user with six ones or zeros among seven with zeros.

        By exchangeability the likelihood ratio of a set of envelopes is the mean of their own ratios, which follow
        from how many ones are in each.
        """
        n, instances, flip = 8, 6, Fraction(3, 10)
        ones = np.arange(instances + 1)
        chances, ratios = stats.binom.pmf(ones, instances, 0.3), (7 / 3) ** (2.0 * ones - instances)
        sets = np.array(list(combinations_with_replacement(ones, n)))
        counts = np.stack([(sets == number).sum(axis=1) for number in ones], axis=1)
        zeros_law = stats.multinomial.pmf(counts, n, chances)
        delta = delta_of(zeros_law * (counts @ ratios) / n, zeros_law, epsilon)
        assert delta > 2 * claimed(RandomisedResponse(n, flip), epsilon, instances)


class TestPure:
    @pytest.mark.parametrize(("n", "epsilon"), [(1, Fraction(1)), (2, Fraction(1)), (3, Fraction(1)), (5, HALF)])
    def test_no_view_reveals_more_than_epsilon(self, n: int, epsilon: Fraction) -> None:
        protocol = published_pure(n, 1, epsilon, HALF)
        loss = largest_pure_loss(protocol, 280)
        assert 0.98 * epsilon < loss <= epsilon

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda protocol: replace(protocol, copies=protocol.copies * 3 // 5),
            lambda protocol: replace(protocol, drop=protocol.drop / 10),
            lambda protocol: replace(protocol, rate=protocol.rate * Fraction(10, 7)),
            lambda protocol: replace(protocol, flood_shape=1),
        ],
        ids=["few copies", "few bits left out", "little noise", "no flood to speak of"],
    )
    @pytest.mark.parametrize("n", [2, 3])
    def test_twins(self, n: int, spoil: Callable[..., object]) -> None:
        protocol = published_pure(n, 1, Fraction(1), HALF)
        twin = spoil(protocol)
        assert largest_pure_loss(twin, 280) > 1.01  # type: ignore[arg-type]
        assert protocol.is_private(Fraction(1)) and not twin.is_private(Fraction(1))  # type: ignore[attr-defined]

    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_flood_for_rho_1(self, n: int) -> None:
        protocol = published_pure(n, 1, Fraction(1), HALF)
        shape, rate, copies = _cheapest_flood(n, 1.0, 0.01, 2 * float(protocol.drop))
        twin = replace(protocol, copies=copies, flood_shape=shape, flood_rate=rate_below(rate))
        assert largest_pure_loss(twin, 280) > 1.05
        assert not twin.is_private(Fraction(1))

    @pytest.mark.parametrize("rho", [1, 0.51, "3/4"])
    def test_rho_above_one_half_is_refused(self, rho: object) -> None:
        with pytest.raises(InputError, match="rho must lie above 0 and not above 1/2"):
            calibrate("pure", n=100, instances=1, epsilon=1, rho=rho)  # type: ignore[arg-type]

    def test_dropping_every_bit_is_refused(self) -> None:
        with pytest.raises(InputError, match="q = 5.9 must stay below 1"):
            calibrate("pure", n=10_000, instances=768, epsilon=1)
