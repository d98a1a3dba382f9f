"""Calibration of discrete Gaussian noise on integers, exactly and in any number of coordinates.

Noise of law round(N(0, sigma^2)) on integers of l2 sensitivity D is post-processing of the continuous Gaussian
mechanism, so it is (e, d)-DP with d = Phi(D / (2 sigma) - e sigma / D) - exp(e) Phi(-D / (2 sigma) - e sigma / D)
exactly, in any dimension (the analytic calibration). The discrete Gaussian differs from the rounded one by a total
variation t over all m coordinates, so it is (e, d + (1 + exp(e)) t)-DP. Bound of t: the ratio of the two laws at z is C
E_u[exp(-u^2 / (2 sigma^2)) cosh(z u / sigma^2)], u uniform in [-1/2, 1/2], C = 1 + 2 exp(-2 pi^2 sigma^2) + ...; its
second moment under the discrete law, which is sub-Gaussian, is at most C^2 E cosh(u u' / sigma^2), so chi^2 <= 1 /
(287 sigma^4) for one coordinate and sigma >= 2, and t <= sqrt((1 + chi^2)^m - 1) / 2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import InputError
from sfumato.privacy.loss import Loss, gaussian_delta
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.roots import brentq

LARGEST_SIGMA = 2.0**29
# Beyond, exp(epsilon) makes the lattice count beside delta, and pure noise is small enough.
LARGEST_EPSILON = 100.0
SMALLEST_MULTIPLIER, LARGEST_MULTIPLIER = 1e-3, 1e9


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Noise multiplier c = sigma / D of the analytic Gaussian mechanism, where the budget fits noise on integers."""
    if epsilon > LARGEST_EPSILON:
        raise InputError(f"Gaussian noise takes an epsilon up to {LARGEST_EPSILON:g}: with more, pass delta=0")

    def excess(multiplier: float) -> float:
        return gaussian_delta(multiplier, epsilon) - delta

    if excess(LARGEST_MULTIPLIER) >= 0:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or delta")
    if excess(SMALLEST_MULTIPLIER) <= 0:
        return SMALLEST_MULTIPLIER
    return float(brentq(excess, SMALLEST_MULTIPLIER, LARGEST_MULTIPLIER, xtol=1e-300, rtol=1e-12)) * (1 + 1e-9)


def lattice_distance(sigma: int, coordinates: int) -> float:
    """Upper bound of the total variation between discrete and rounded Gaussian noise over all coordinates."""
    chi_squared = math.expm1(coordinates * math.log1p(1 / (287 * float(sigma) ** 4)))
    return math.sqrt(chi_squared) / 2


def calibrate(l2: float, coordinates: int, epsilon: float, delta: float) -> int:
    """Smallest sigma found for integers of l2 sensitivity `l2`, the lattice's slack included."""
    slack = delta / 1000
    for _ in range(60):
        sigma = math.ceil(gaussian_multiplier(epsilon, delta - slack) * l2)
        needed = (1 + math.exp(epsilon)) * lattice_distance(max(sigma, 2), coordinates)
        if needed <= slack:
            return max(sigma, 2)
        slack = min(2 * needed, delta / 2)
    raise InputError(f"delta {delta:g} is too small for integer noise at epsilon {epsilon:g}; pass a larger delta")


def largest_length(unit: float, epsilon: float, delta: float) -> float:
    """Largest scale of integers at which noise for the l2 sensitivity `unit`, in units of the scale, can be sampled."""
    return LARGEST_SIGMA / (1.01 * gaussian_multiplier(epsilon, delta) * unit)


def gaussian_noise(
    l2_squared: int, coordinates: int, epsilon: float | Fraction, delta: float
) -> tuple[DiscreteGaussian, Loss]:
    """Noise for integers, and what it reveals.

    `l2_squared` is the largest squared l2 norm of the difference between neighbouring sums, `coordinates` in how many
    of them neighbours differ at most, epsilon and delta the promise.
    """
    sigma = calibrate(math.nextafter(math.sqrt(l2_squared), math.inf), coordinates, float(epsilon), delta)
    loss = Loss(mu_squared=Fraction(l2_squared, sigma**2), distance=lattice_distance(sigma, coordinates))
    return DiscreteGaussian(sigma), loss
