"""Gaussian noise on integers: calibrated as the exact curve says, and not by more than it takes."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.stats import norm

from sfumato.errors import InputError
from sfumato.privacy.gaussian import LARGEST_SIGMA, gaussian_multiplier, gaussian_noise, largest_length


def exact_delta(multiplier: float, epsilon: float) -> float:
    """Delta of the Gaussian mechanism in the form of Balle and Wang (2018)."""
    mean, shift = 1 / (2 * multiplier), epsilon * multiplier
    return float(norm.cdf(mean - shift) - math.exp(epsilon) * norm.cdf(-mean - shift))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_the_multiplier_is_the_least_one(epsilon: float, delta: float) -> None:
    multiplier = gaussian_multiplier(epsilon, delta)
    assert exact_delta(multiplier, epsilon) <= delta * (1 + 1e-6)
    assert exact_delta(multiplier * 0.999, epsilon) > delta


@pytest.mark.parametrize(("l2_squared", "coordinates"), [(10**6, 1), (10**8, 100), (10**12, 2**20)])
def test_noise_on_integers_keeps_delta_with_the_lattices_share(l2_squared: int, coordinates: int) -> None:
    epsilon, delta = 1.0, 1e-6
    law, loss = gaussian_noise(l2_squared, coordinates, epsilon, delta)
    continuous = exact_delta(law.sigma / math.sqrt(l2_squared), epsilon)
    assert continuous + (1 + math.exp(epsilon)) * loss.distance <= delta
    assert loss.mu_squared == Fraction(l2_squared, law.sigma**2)


def test_budgets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="too small for integer noise"):
        gaussian_noise(1, 1, 1.0, 1e-6)  # sigma is near 4, where the lattice shows
    with pytest.raises(InputError, match="epsilon up to"):
        gaussian_multiplier(101.0, 1e-6)
    with pytest.raises(InputError, match="larger epsilon or delta"):
        gaussian_multiplier(1e-9, 1e-100)


def test_the_largest_scale_still_fits() -> None:
    length = largest_length(3.0, 1.0, 1e-6)
    law, _ = gaussian_noise(math.floor((3.0 * length) ** 2), 1000, 1.0, 1e-6)
    assert law.sigma <= LARGEST_SIGMA
