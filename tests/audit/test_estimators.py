from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from sfumato.audit import (
    epsilon_lower_bound,
    exact_delta,
    exact_epsilon,
    log_weights,
    mu_lower_bound,
)
from sfumato.audit.estimators import _Counts, _thresholds
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import CubeNoise, DiscNoise
from sfumato.privacy.gaussian import calibrate, gaussian_delta, lattice_distance
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace

LOG_3 = math.log(3)


def responses(trials: int, bits: SecureBits) -> tuple[np.ndarray, np.ndarray]:
    """Randomised response on one bit, truthful with probability 3/4: epsilon = log 3."""
    lies = bits.below(4, 2 * trials).reshape(2, trials) == 0
    return ~lies[0], lies[1]


def normals(shift: float, size: int = 100_000, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=size) + shift, random.normal(size=size)


class TestEpsilonLowerBound:
    # By the binomial laws of both counts, a share is missed with a probability of at most 4e-7.
    @pytest.mark.parametrize(("trials", "share"), [(1_200, 0.3), (10_000, 0.75), (150_000, 0.93), (1_000_000, 0.97)])
    def test_comes_close_to_the_truth_from_below(self, trials: int, share: float) -> None:
        bound = epsilon_lower_bound(*responses(trials, SecureBits.seeded(trials)))
        assert share * LOG_3 < bound <= LOG_3

    def test_exceeds_the_truth_no_more_often_than_it_says(self) -> None:
        bits, repetitions, miss = SecureBits.seeded("coverage"), 600, 0.1
        bounds = [epsilon_lower_bound(*responses(400, bits), confidence=1 - miss) for _ in range(repetitions)]
        wrong = sum(bound > LOG_3 for bound in bounds)
        assert wrong <= stats.binom.isf(1e-6, repetitions, miss)
        assert np.median(bounds) > 0.5 * LOG_3

    def test_judging_by_the_samples_that_chose_would_exceed_it(self) -> None:
        # Without a leak, the best of many events looks like one in its own samples, and not in fresh ones.
        random = np.random.default_rng(3)
        same, fresh = [], []
        for _ in range(200):
            inside, outside, more, other = random.normal(size=(4, 400))
            same.append(epsilon_lower_bound(np.tile(inside, 2), np.tile(outside, 2), confidence=0.7) > 0)
            fresh.append(epsilon_lower_bound([*inside, *more], [*outside, *other], confidence=0.7) > 0)
        # In its own samples nine of ten look like a leak: no more than the bound, 92 of 200, do with far below 1e-6.
        assert sum(fresh) <= stats.binom.isf(1e-6, 200, 0.3)
        assert sum(same) > stats.binom.isf(1e-6, 200, 0.3)

    def test_direction_and_order_do_not_matter(self) -> None:
        inside, outside = normals(1.0)
        expected = epsilon_lower_bound(inside, outside)
        assert expected > 1
        assert epsilon_lower_bound(-inside, -outside) == expected
        assert epsilon_lower_bound(outside, inside) == expected

    def test_an_exception_is_covered_by_delta(self) -> None:
        random = np.random.default_rng(5)
        tells = random.random(200_000) < 0.01
        inside, outside = np.where(tells, 1.0, 0.0), np.zeros(200_000)
        assert epsilon_lower_bound(inside, outside) > 3
        assert epsilon_lower_bound(inside, outside, delta=0.001) > 3
        assert epsilon_lower_bound(inside, outside, delta=0.011) == 0

    def test_reaches_far_into_the_tails(self) -> None:
        random = np.random.default_rng(6)
        inside, outside = random.normal(size=(2, 1_600_000))
        # About 160 in each half, of which 0.3 needs 46, and more if the other side has some beyond the threshold: the
        # binomial law of the former and the geometric one of the latter miss it with a probability of 1e-9.
        inside[random.random(1_600_000) < 2e-4] = 1000.0
        assert epsilon_lower_bound(inside, outside) > 0.3

    @pytest.mark.parametrize("sizes", [(0, 0), (1, 1), (0, 100), (100, 1), (2, 3)])
    def test_few_samples_certify_nothing(self, sizes: tuple[int, int]) -> None:
        assert epsilon_lower_bound(np.ones(sizes[0]), np.zeros(sizes[1])) == 0

    def test_sizes_may_differ_and_values_be_infinite(self) -> None:
        assert epsilon_lower_bound(np.full(500, np.inf), np.zeros(70_000)) > 3
        assert epsilon_lower_bound(np.full(70_000, -np.inf), np.zeros(500)) > 3
        assert epsilon_lower_bound(np.zeros(1000), np.zeros(50)) == 0

    @pytest.mark.parametrize(
        ("samples", "options", "problem"),
        [
            (([1.0, math.nan], [1.0]), {}, "inside"),
            (([1.0], [math.nan]), {}, "outside"),
            (([[1.0]], [1.0]), {}, "inside"),
            (([1.0], [1.0]), {"delta": 1.0}, "delta"),
            (([1.0], [1.0]), {"delta": -0.1}, "delta"),
            (([1.0], [1.0]), {"confidence": 1.0}, "confidence"),
        ],
    )
    def test_nonsense_is_refused(self, samples: tuple[list, list], options: dict[str, float], problem: str) -> None:
        with pytest.raises(InputError, match=problem):
            epsilon_lower_bound(*samples, **options)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_mu_comes_close_to_the_truth_from_below(mu: float) -> None:
    # About one run in a hundred chooses an event far out that was lucky: five of nine do so with probability 1e-8.
    runs = [normals(mu, 400_000, seed) for seed in range(9)]
    bounds = [mu_lower_bound(inside, outside) for inside, outside in runs]
    assert max(bounds) <= mu and mu - 0.08 < np.median(bounds)
    inside, outside = runs[0]
    assert mu_lower_bound(outside, inside) == bounds[0]


def test_mu_of_nothing() -> None:
    assert mu_lower_bound(*normals(0.0)) == 0
    assert mu_lower_bound([], [1.0]) == 0


@pytest.mark.parametrize("total", [1, 7, 1000])
def test_intervals_are_those_of_clopper_and_pearson(total: int) -> None:
    hits = np.unique(np.linspace(0, total, 8).astype(int))
    counts = _Counts(hits, total)
    exact = [stats.binomtest(int(hit), total).proportion_ci(1 - 2e-5, "exact") for hit in hits]
    np.testing.assert_allclose(counts.lower(1e-5), [interval.low for interval in exact], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(counts.upper(1e-5), [interval.high for interval in exact], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 5, 999, 50_000])
def test_thresholds_are_values_of_all_ranks(size: int) -> None:
    values = np.random.default_rng(1).normal(size=size)
    thresholds = _thresholds(values)
    assert np.isin(thresholds, values).all() and (np.diff(thresholds) > 0).all()
    assert {values.min(), values.max()} <= set(thresholds.tolist())
    assert thresholds.size <= 1000
    assert thresholds.size >= min(size, 400)


class TestExact:
    yes, no = np.log([0.75, 0.25]), np.log([0.25, 0.75])

    def test_epsilon_is_the_largest_ratio(self) -> None:
        assert exact_epsilon(self.yes, self.no) == pytest.approx(LOG_3)
        assert exact_epsilon(self.yes + 5, self.no + 5) == pytest.approx(LOG_3)
        assert exact_epsilon(self.yes, self.yes) == 0

    def test_stacked_pairs_give_the_worst(self) -> None:
        assert exact_epsilon(self.yes, np.stack([self.yes, self.no])) == pytest.approx(LOG_3)
        assert exact_delta(self.yes, np.stack([self.yes, self.no]), 0.0) == pytest.approx(0.5)

    def test_an_output_of_one_side_only(self) -> None:
        assert exact_epsilon([-np.inf, 0.0], [-np.inf, 0.0]) == 0
        assert exact_epsilon(np.log([0.999, 0.001]), [0.0, -np.inf]) == math.inf
        assert exact_epsilon(np.log([0.999, 0.001]), [0.0, -np.inf], delta=0.0005) == math.inf
        assert exact_epsilon(np.log([0.999, 0.001]), [0.0, -np.inf], delta=0.0011) == 0

    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
    def test_delta_of_randomised_response(self, epsilon: float) -> None:
        delta = max(0.0, 0.75 - math.exp(epsilon) * 0.25)
        assert exact_delta(self.yes, self.no, epsilon) == pytest.approx(delta)
        if epsilon > 0 and delta > 0:
            assert exact_epsilon(self.yes, self.no, delta) == pytest.approx(epsilon)


def lattice(reach: int, size: int) -> np.ndarray:
    return np.array(list(product(range(-reach, reach + 1), repeat=size)))


EPSILON = Fraction(3, 2)


class TestExactLosses:
    """Every law, shifted by every integer vector that one record may add, at scales that can be listed in full."""

    def losses(self, law: object, shifts: np.ndarray, reach: int) -> np.ndarray:
        outputs = lattice(reach, shifts.shape[1])
        before = log_weights(law, outputs)
        return np.array([exact_epsilon(before, log_weights(law, outputs - shift)) for shift in shifts])

    @pytest.mark.parametrize("scale", [1, 2, 3, 4])
    @pytest.mark.parametrize("size", [1, 2])
    def test_discrete_laplace(self, scale: int, size: int) -> None:
        shifts = lattice(scale, size)
        shifts = shifts[np.abs(shifts).sum(axis=1) <= scale]
        losses = self.losses(DiscreteLaplace(EPSILON / scale), shifts, 10)
        assert losses.max() == pytest.approx(float(EPSILON), rel=1e-12)
        assert self.losses(DiscreteLaplace(EPSILON / scale), np.full((1, 1), scale + 1), 10) > 1.2 * EPSILON

    @pytest.mark.parametrize("scale", [1, 2, 3, 4])
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_cube(self, scale: int, size: int) -> None:
        law = CubeNoise(size, EPSILON / scale)
        assert self.losses(law, lattice(scale, size), 2 * scale + 1).max() == pytest.approx(float(EPSILON), rel=1e-12)
        beyond = np.array([[scale + 1] + [0] * (size - 1)])
        assert self.losses(law, beyond, 2 * scale + 1).max() > 1.2 * EPSILON

    @pytest.mark.parametrize(("pairs", "scale"), [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2)])
    def test_discs(self, pairs: int, scale: int) -> None:
        law = DiscNoise(pairs, EPSILON / scale)
        shifts = lattice(scale, 2 * pairs)
        inside = (np.square(shifts).reshape(-1, pairs, 2).sum(axis=2) <= scale**2).all(axis=1)
        assert 0 < inside.sum() < len(shifts)
        reach = 16 if pairs == 1 else 2 * scale + 1
        losses = self.losses(law, shifts[inside], reach)
        assert losses.max() == pytest.approx(float(EPSILON), rel=1e-12)
        # A vector of the cube that leaves the disc loses more.
        assert self.losses(law, shifts[~inside], reach).min() > 1.1 * EPSILON

    def test_a_count(self) -> None:
        assert self.losses(DiscreteLaplace(EPSILON), np.array([[1]]), 5)[0] == float(EPSILON)


def log_gaussian(sigma: int, shift: int, reach: int) -> np.ndarray:
    law = DiscreteGaussian(sigma)
    return np.log([law.probability(int(z) - shift) for z in range(-reach, reach + 1)])


class TestDiscreteGaussian:
    """The claims of `privacy.gaussian`, by sums over the integers."""

    @pytest.mark.parametrize("sigma", [2, 3, 5, 10, 30])
    @pytest.mark.parametrize("shift", [1, 3, 10])
    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
    def test_delta_is_the_analytic_one_within_the_slack(self, sigma: int, shift: int, epsilon: float) -> None:
        reach = 12 * sigma + shift
        exact = exact_delta(log_gaussian(sigma, 0, reach), log_gaussian(sigma, shift, reach), epsilon)
        slack = (1 + math.exp(epsilon)) * lattice_distance(sigma, 1)
        assert abs(exact - gaussian_delta(sigma / shift, epsilon)) <= slack

    @pytest.mark.parametrize("epsilon", [0.5, 1.0])
    def test_delta_of_two_coordinates(self, epsilon: float) -> None:
        sigma, shift, reach = 4, (4, 3), 40
        before = log_gaussian(sigma, 0, reach)[:, None] + log_gaussian(sigma, 0, reach)
        after = log_gaussian(sigma, shift[0], reach)[:, None] + log_gaussian(sigma, shift[1], reach)
        exact = exact_delta(before.reshape(-1), after.reshape(-1), epsilon)
        slack = (1 + math.exp(epsilon)) * lattice_distance(sigma, 2)
        assert abs(exact - gaussian_delta(sigma / 5, epsilon)) <= slack
        assert gaussian_delta(sigma / 5, epsilon) > 10 * slack

    @pytest.mark.parametrize("sigma", [2, 3, 4, 7, 20])
    def test_distance_from_the_rounded_gaussian(self, sigma: int) -> None:
        integers = np.arange(-12 * sigma, 12 * sigma + 1)
        discrete = np.exp(log_gaussian(sigma, 0, 12 * sigma))
        # Tails from their own side: a difference of two numbers near 1 would lose their digits.
        near, far = np.abs(integers) - 0.5, np.abs(integers) + 0.5
        rounded = ndtr(-near / sigma) - ndtr(-far / sigma)
        chi_squared = math.fsum((rounded - discrete) ** 2 / discrete)
        assert 0.9 / (288 * sigma**4) < chi_squared < 1 / (287 * sigma**4)
        distance = np.abs(rounded - discrete).sum() / 2
        assert distance < lattice_distance(sigma, 1)
        joint = np.abs(np.outer(rounded, rounded) - np.outer(discrete, discrete)).sum() / 2
        assert joint < lattice_distance(sigma, 2)

    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.5, 1e-3), (2.0, 1e-4)])
    def test_calibration_keeps_its_delta_and_not_30_percent_less(self, epsilon: float, delta: float) -> None:
        shift = 400
        sigma = calibrate(shift, 2, epsilon, delta)

        def exact(width: int) -> float:
            reach = 12 * width + shift
            return exact_delta(log_gaussian(width, 0, reach), log_gaussian(width, shift, reach), epsilon)

        assert 0.7 * delta < exact(sigma) <= delta
        assert exact(round(0.7 * sigma)) > 2 * delta

    def test_analytic_delta_is_that_of_the_continuous_law(self) -> None:
        x = np.linspace(-12, 13, 2_000_001)
        p, q = np.exp(-(x**2) / 2), np.exp(-((x - 0.5) ** 2) / 2)
        density = np.maximum(p - math.e**0.4 * q, 0) / math.sqrt(2 * math.pi)
        assert gaussian_delta(2.0, 0.4) == pytest.approx(np.trapezoid(density, x), rel=1e-6)


class TestLogWeights:
    @pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(2, 3)), DiscreteGaussian(3)])
    def test_are_log_probabilities_up_to_a_constant(self, law: DiscreteLaplace | DiscreteGaussian) -> None:
        integers = np.arange(-6, 7)
        expected = np.log([law.probability(int(z)) for z in integers])
        weights = log_weights(law, integers[:, None])
        np.testing.assert_allclose(weights - weights[6], expected - expected[6], atol=1e-12)
        joint = log_weights(law, np.array([[2, -3]]))
        np.testing.assert_allclose(joint, weights[[8]] + weights[[3]])

    def test_of_blocks_add_up(self) -> None:
        cube, disc = CubeNoise(2, Fraction(1, 2)), DiscNoise(2, Fraction(1, 2))
        noise = np.array([[3, -4, 0, 0, 1, 7, 0, 0]])
        assert log_weights(cube, noise[:, :4]) == -2
        assert log_weights(cube, noise) == -2 - 7 / 2
        assert log_weights(disc, noise[:, :4]) == -5 / 2
        assert log_weights(disc, noise) == -5 / 2 - 8 / 2  # |(1, 7)| = 7.07 counts as 8
        assert log_weights(disc, np.zeros((1, 4), dtype=int)) == -1 / 2  # and nothing as 1

    def test_of_an_unknown_law(self) -> None:
        with pytest.raises(InputError, match="not known"):
            log_weights(object(), np.zeros((1, 1)))  # type: ignore[arg-type]
