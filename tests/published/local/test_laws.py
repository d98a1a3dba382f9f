"""Finite laws with exact probabilities: devices and simulations draw from them, and estimates are unbiased."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audit.cases.reports import shell_logs, signs_law, window_law
from sfumato.errors import InputError
from sfumato.local.coins import Coins, SphereNoise, gaussian, geometric, laplace
from sfumato.local.pool import draw_spheres, draw_windows, rounded_at_random
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.privacy.response import Odds, Window, keeps_epsilon
from sfumato.published.local.point import (
    STEPS,
    Signs,
    piecewise_columns,
    piecewise_scale,
    piecewise_window,
    square_reach,
    square_window,
)
from tests.published.local.chances import fits

EPSILONS = [Fraction(1, 100), Fraction(1), Fraction(5), Fraction(20)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("outcomes", [2, 64, 4096])
def test_odds_keep_epsilon_and_come_close(epsilon: Fraction, outcomes: int) -> None:
    odds = Odds.of(epsilon, outcomes)
    assert keeps_epsilon(odds.heads, odds.unit, epsilon)
    assert math.log(odds.ratio) == pytest.approx(float(epsilon), rel=1e-2)
    assert odds.heads * outcomes < 2**62


@pytest.mark.parametrize(("positions", "width", "start"), [(4, 1, 2), (9, 4, 5), (9, 4, 0), (2, 1, 1)])
def test_windows_are_drawn_by_their_law(positions: int, width: int, start: int) -> None:
    law = Window(positions, width, Odds(5, 2))
    exact = [float(law.probability(start, output)) for output in range(positions)]
    assert sum(exact) == pytest.approx(1.0)
    coins = Coins.seeded(3)
    devices = np.bincount([law.draw(start, coins) for _ in range(4000)], minlength=positions)
    many = draw_windows(law, np.full(100_000, start), SecureBits.seeded(4))
    assert fits(devices, exact)
    assert fits(np.bincount(many, minlength=positions), exact)


def test_large_totals_are_drawn_by_their_law_too() -> None:
    law = Window.of(Fraction(2), 5, 2)
    assert law.total > 2**31
    many = draw_windows(law, np.full(100_000, 1), SecureBits.seeded(5))
    assert fits(np.bincount(many, minlength=5), [float(law.probability(1, output)) for output in range(5)])


def test_no_window_without_an_outside() -> None:
    with pytest.raises(InputError):
        Window(4, 4, Odds(2, 1))


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
def test_signs_are_unbiased_exactly(columns: int) -> None:
    law = Signs(Fraction(3, 2), columns)
    inputs = [tuple(int(STEPS * (0.2 + 0.15 * j) * (i + 1) / 3) for j in range(columns)) for i in range(3)]
    table = signs_law(law, inputs)
    values = np.array([[2 * (z >> j & 1) - 1 for j in range(columns)] for z in range(1 << columns)])
    assert table.sum(axis=1) == pytest.approx(1.0)
    assert law.scale * table @ values == pytest.approx(2 * np.array(inputs) / STEPS - 1)
    assert law.total == sum(law.weight(0, z) for z in range(1 << columns))


def test_signs_are_drawn_by_their_law() -> None:
    law, coins = Signs(Fraction(1), 2), Coins.seeded(6)
    drawn = np.bincount([law.draw(2, coins) for _ in range(4000)], minlength=4)
    assert fits(drawn, [law.weight(2, z) / law.total for z in range(4)])


@pytest.mark.parametrize("epsilon", EPSILONS[:3])
def test_piecewise_reports_are_unbiased_exactly(epsilon: Fraction) -> None:
    law = piecewise_window(epsilon)
    steps = np.array([0, 1, 12345, STEPS // 2, STEPS])
    table = window_law(law, list(steps * (law.positions - law.width) / STEPS))
    values = (2 * np.arange(law.positions) + 1 - law.positions) * piecewise_scale(law)
    assert table @ values == pytest.approx(2 * steps / STEPS - 1, abs=1e-9)


def test_piecewise_variance_is_the_published_one() -> None:
    law = piecewise_window(Fraction(1))
    values = (2 * np.arange(law.positions) + 1 - law.positions) * piecewise_scale(law)
    (centre,) = window_law(law, [(law.positions - law.width) / 2])
    power = math.exp(0.5)
    assert centre @ values**2 == pytest.approx((power + 3) / (3 * (power - 1) ** 2), rel=2e-3)


def test_how_many_columns_and_how_far() -> None:
    assert [piecewise_columns(Fraction(e), 4) for e in (1, 5, 100)] == [1, 2, 4]
    for epsilon in (0.5, 1.0, 4.0):
        power = math.exp(epsilon)
        wanted = (epsilon * power - power + 1) / (2 * power * (power - 1 - epsilon))
        assert square_reach(epsilon) == pytest.approx(wanted)
    assert square_reach(0.00999) == pytest.approx(square_reach(0.01001), abs=1e-4)
    law, reach = square_window(Fraction(1))
    assert law.positions == 1025 + 2 * reach
    assert law.width == 2 * reach + 1


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(5, 4)])
def test_device_samplers_have_the_librarys_laws(rate: Fraction) -> None:
    coins, reach = Coins.seeded(8), np.arange(-80, 81)  # one in 250 times a draw of 3000 would lie beyond 40
    drawn = np.bincount([min(geometric(rate, coins), 60) for _ in range(3000)], minlength=61)
    assert fits(drawn, [*(math.exp(-rate * k) * -math.expm1(-rate) for k in range(60)), math.exp(-60 * rate)])
    two_sided = np.bincount([laplace(rate, coins) + 80 for _ in range(3000)], minlength=161)
    assert fits(two_sided, [DiscreteLaplace(rate).probability(int(z)) for z in reach])
    normal = np.bincount([gaussian(3, coins) + 80 for _ in range(3000)], minlength=161)
    assert fits(normal, [DiscreteGaussian(3).probability(int(z)) for z in reach])


def shell_probabilities(law: SphereNoise, outputs: np.ndarray) -> np.ndarray:
    shells = np.maximum(np.ceil(np.sqrt(np.square(outputs).sum(axis=1) / law.dimension) - 1e-9), law.first_shell)
    logs = shell_logs(law, int(shells.max()) - law.first_shell + 1)[shells.astype(int) - law.first_shell]
    return np.asarray(np.exp(logs) / np.exp(logs).sum())


@pytest.mark.parametrize(("dimension", "mu"), [(1, Fraction(1)), (2, Fraction(3, 2))])
def test_sphere_noise_is_drawn_by_its_law(dimension: int, mu: Fraction) -> None:
    law, reach = SphereNoise(dimension, mu), 40 // dimension
    axes = np.meshgrid(*[np.arange(-reach, reach + 1)] * dimension, indexing="ij")
    outputs = np.column_stack([axis.ravel() for axis in axes])
    exact = shell_probabilities(law, outputs)
    coins, powers = Coins.seeded(9), (2 * reach + 1) ** np.arange(dimension)[::-1]
    devices = np.array([law.draw(coins) for _ in range(3000)])
    many = draw_spheres(law, 60_000, SecureBits.seeded(10))
    for drawn in (devices, many):
        inside = drawn[(np.abs(drawn) <= reach).all(axis=1)]
        assert len(inside) > 0.999 * len(drawn)
        assert fits(np.bincount((inside + reach) @ powers, minlength=len(outputs)), exact)


@pytest.mark.parametrize("dimension", [3, 8])
def test_sphere_noise_in_more_columns(dimension: int) -> None:
    law = SphereNoise(dimension, Fraction(1, 20))
    drawn = draw_spheres(law, 4000, SecureBits.seeded(11))
    assert drawn.var() == pytest.approx(law.variance, rel=0.12)
    assert abs(drawn.mean()) < 6 * math.sqrt(law.variance / drawn.size)
    logs = shell_logs(law, 400)
    assert (-np.diff(logs) <= float(law.mu) * (1 + 1e-9)).all()  # no shell is told apart by more than mu
    assert -np.diff(logs)[-1] == pytest.approx(float(law.mu), rel=0.05)


def test_random_rounding_is_unbiased() -> None:
    rounded = rounded_at_random(np.full(100_000, 7), 4, SecureBits.seeded(12))
    assert set(rounded.tolist()) == {1, 2}
    assert fits(np.bincount(rounded, minlength=3), [0.0, 0.25, 0.75])
