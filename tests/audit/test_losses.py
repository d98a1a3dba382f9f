"""What noise gives away about a change: against sums over all outputs, and against the textbook's formulas."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from sfumato.audit import Revealed, exact_epsilon, log_weights, revealed
from sfumato.audit.estimators import Views
from sfumato.audit.losses import (
    concentrated_epsilon,
    gaussian_epsilon,
    laplace_epsilon,
    lattice_distance,
    norms,
)
from sfumato.errors import InputError
from sfumato.privacy.body import CubeNoise, DiscNoise, StackedCubes, StackedDiscs
from sfumato.privacy.laws import ReportNoise
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, FlooredLaplace

RATE = Fraction(2, 5)


def log_laws(law: Any, change: tuple[int, ...], reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of all outputs within reach, without and with a change."""
    outputs = np.array(list(product(range(-reach, reach + 1), repeat=len(change))))
    return log_weights(law, outputs), log_weights(law, outputs - np.array(change))


PURE = [
    (DiscreteLaplace(RATE), (3, -2)),
    (FlooredLaplace(RATE), (3, -2)),
    (CubeNoise(2, RATE), (3, -2)),
    (CubeNoise(1, RATE), (3, -2)),
    (DiscNoise(1, RATE), (3, 2)),
    (DiscNoise(1, RATE), (3, 4)),
    (DiscNoise(2, RATE), (1, 2, 2, 0)),
    (StackedCubes((CubeNoise(2, RATE), CubeNoise(1, RATE / 2))), (2, 1, -3)),
    (StackedDiscs((DiscNoise(1, RATE), DiscNoise(1, RATE / 2)), (1, 1)), (1, 2, 2, 0)),
]


@pytest.mark.parametrize(("law", "change"), PURE, ids=lambda each: str(each)[:40])
def test_pure_losses_are_the_largest_log_ratio(law: Any, change: tuple[int, ...]) -> None:
    reach = 20 if len(change) == 2 else 5
    exact = exact_epsilon(*log_laws(law, change, reach))
    found = revealed(law, np.array(change)).epsilon(0.0)
    assert found >= exact - 1e-12
    if not isinstance(law, DiscNoise | StackedDiscs):  # the norm of a disc is rounded up
        assert found == pytest.approx(exact, rel=1e-12)
    assert found <= exact + float(RATE)


def test_a_disc_of_whole_radius_is_exact() -> None:
    assert revealed(DiscNoise(1, RATE), np.array([3, 4])).pure == 5 * RATE
    assert exact_epsilon(*log_laws(DiscNoise(1, RATE), (3, 4), 20)) == pytest.approx(2.0)


@pytest.mark.parametrize(("law", "change"), PURE, ids=lambda each: str(each)[:40])
def test_norms_order_changes_as_losses_do(law: Any, change: tuple[int, ...]) -> None:
    changes = np.random.default_rng(1).integers(-9, 10, (40, len(change)))
    losses = [revealed(law, each).epsilon(0.0) for each in changes]
    np.testing.assert_allclose(losses, norms(law, changes) * (losses[0] / norms(law, changes)[0]), rtol=1e-9)


def test_unknown_laws_are_refused() -> None:
    with pytest.raises(InputError, match="not known"):
        revealed(ReportNoise(1.0), np.array([1]))
    with pytest.raises(InputError, match="not known"):
        norms(ReportNoise(1.0), np.array([[1]]))


@pytest.mark.parametrize("delta", [1e-2, 1e-4])
@pytest.mark.parametrize("change", [(1,), (4,), (3, 2), (1, 1, 1)])
def test_laplace_under_a_delta(change: tuple[int, ...], delta: float) -> None:
    law = DiscreteLaplace(RATE)
    reach = 40 if len(change) < 3 else 25
    log_p, log_q = log_laws(law, change, reach)
    total = len(change) * math.log(math.tanh(float(RATE) / 2))
    exact = exact_epsilon(log_p + total, log_q + total, delta)
    assert revealed(law, np.array(change)).epsilon(delta) == pytest.approx(exact, abs=2e-4)


def test_laplace_in_coarse_steps_is_never_too_small() -> None:
    """The same noise on a grid a thousand million times finer, whose losses are rounded up."""
    coarse = laplace_epsilon(((Fraction(1, 50), 50),) * 30, 1e-5)
    fine = laplace_epsilon(((Fraction(1, 5 * 10**10), 5 * 10**10),) * 30, 1e-5)
    continuous = laplace_epsilon(((Fraction(1, 5000), 5000),) * 30, 1e-5)
    assert continuous == pytest.approx(coarse, rel=2e-2)
    assert continuous * (1 - 1e-3) <= fine <= continuous * (1 + 5e-3)


@pytest.mark.parametrize(("sigma", "change"), [(3, 2), (8, 5), (30, 30)])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_gaussian_is_close_above_the_sum_over_the_integers(sigma: int, change: int, delta: float) -> None:
    law = DiscreteGaussian(sigma)
    reach = 12 * sigma + change
    log_p, log_q = (np.log([law.probability(z - shift) for z in range(-reach, reach + 1)]) for shift in (0, change))
    exact = exact_epsilon(log_p, log_q, delta)
    found = revealed(law, np.array([change])).epsilon(delta)
    slack = (1 + math.exp(found)) * lattice_distance(sigma, 1)
    if slack < delta / 10:
        assert exact <= found <= 1.05 * exact
    assert found >= exact


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 4.2247), (0.1, 2.5240), (5.0, 0.7)])
def test_gaussian_epsilon_inverts_the_formula(epsilon: float, multiplier: float) -> None:
    half, level = 0.5 / multiplier, epsilon * multiplier
    normal = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
    expected = normal(half - level) - math.exp(epsilon) * normal(-half - level)
    assert gaussian_epsilon(1 / multiplier, 0.0, expected) == pytest.approx(epsilon, rel=1e-6)


def test_gaussian_at_the_ends() -> None:
    assert gaussian_epsilon(0.0, 0.0, 1e-6) == 0
    assert gaussian_epsilon(1e-3, 0.0, 0.5) == 0
    assert gaussian_epsilon(1.0, 1e-3, 1e-6) == math.inf  # what is off alone is more than delta
    assert Revealed(mu_squared=Fraction(1)).epsilon(0.0) == math.inf
    assert Revealed(rho=0.1).epsilon(0.0) == math.inf


@pytest.mark.parametrize("sigma", [2, 3, 5, 20])
def test_lattice_distance_is_above_the_true_one_and_close(sigma: int) -> None:
    integers = np.arange(-12 * sigma, 12 * sigma + 1)
    discrete = np.array([DiscreteGaussian(sigma).probability(int(z)) for z in integers])
    edge = lambda z: 0.5 * np.vectorize(math.erfc)(-z / (sigma * math.sqrt(2)))  # noqa: E731
    rounded = edge(integers + 0.5) - edge(integers - 0.5)
    distance = np.abs(rounded - discrete).sum() / 2
    assert distance <= lattice_distance(sigma, 1) <= 1.6 * distance
    assert lattice_distance(sigma, 100) <= 100 * lattice_distance(sigma, 1)


def test_concentrated_epsilon_is_between_the_simple_rule_and_the_gaussian() -> None:
    for rho, delta in ((0.01, 1e-6), (0.5, 1e-5), (2.0, 1e-9)):
        simple = rho + 2 * math.sqrt(rho * math.log(1 / delta))
        gaussian = gaussian_epsilon(math.sqrt(2 * rho), 0.0, delta)  # Gaussian noise of mu^2 / 2 = rho
        assert gaussian < concentrated_epsilon(rho, delta) < simple


def test_parts_add_up_and_kinds_do_not_mix() -> None:
    both = Revealed(pure=Fraction(1, 4)) + Revealed(mu_squared=Fraction(1, 16))
    assert both.epsilon(1e-6) == pytest.approx(0.25 + gaussian_epsilon(0.25, 0.0, 1e-6))
    with pytest.raises(InputError, match="not composed"):
        (Revealed(rho=0.1) + Revealed(mu_squared=Fraction(1))).epsilon(1e-6)


class TestViews:
    def test_composition_is_that_of_all_pairs_of_views(self) -> None:
        random = np.random.default_rng(3)
        p, q = random.dirichlet(np.ones(7), 2)
        joint = np.log(np.outer(p, p).ravel()), np.log(np.outer(q, q).ravel())
        views = Views(np.log(p)[None], np.log(q)[None], times=2)
        for delta in (0.0, 1e-3, 0.1):
            exact = max(exact_epsilon(joint[0], joint[1], delta), exact_epsilon(joint[1], joint[0], delta))
            assert exact - 2e-3 <= views.epsilon(delta) <= exact + 1e-9

    def test_views_of_one_side_are_paid_by_delta_or_infinite(self) -> None:
        with np.errstate(divide="ignore"):
            views = Views(np.log([[0.999, 0.001]]), np.log([[1.0, 0.0]]), times=3)
        assert views.epsilon(0.0) == math.inf
        assert views.epsilon(0.0029) == math.inf
        assert views.epsilon(0.0031) < 0.1

    def test_the_worst_pair_counts(self) -> None:
        even, odd = [0.5, 0.5], [0.75, 0.25]
        views = Views(np.log([even, odd]), np.log([even, odd[::-1]]))
        assert views.epsilon(0.0) == pytest.approx(math.log(3))
