"""Exact integer noise that falls with the Euclidean norm: the multivariate Laplace law on a lattice.

Source: geo-indistinguishability (M. Andres, N. Bordenabe, K. Chatzikokolakis, C. Palamidessi, CCS 2013) in more than
two dimensions: density proportional to exp(-rate |z|). Here on the integers Z^d, with integer arithmetic only.

Law. Shell j is the ball |z|^2 <= d j^2. Draw j = j0 + G, j0 = floor(d/2) + 1, with G the sum of d + 1 geometric
variables of ratio q = e^-mu, and z of d discrete Gaussians of sigma = j. Keep z if |z|^2 <= d j^2 and a coin of
probability exp(-(d j^2 - |z|^2) / (2 j^2)) falls; else start again, j included.

Guarantee. Given j, all z of the ball are kept with the same joint weight: exp(-|z|^2 / (2 j^2)) / C_j^d times the coin
is e^(-d/2) / C_j^d, C_j = sum_k exp(-k^2 / (2 j^2)). So Pr[z] is proportional to the sum over j >= J(z) of b_j q^j,
where J(z) = max(j0, ceil(|z| / sqrt(d))) and b_j = binomial(j - j0 + d, d) / C_j^d, and it depends on z through J
alone. b_j grows with j: (j - j0 + 1) ... (j - j0 + d) / j^d is a product of pairs (1 - a/j)(1 + a/j) and, for even d,
one (1 - (d/2)/j); and j / C_j grows, because C_j = sqrt(2 pi) j (1 + 2 sum_k exp(-2 pi^2 j^2 k^2)) by Poisson's
formula. Therefore Pr at J over Pr at J + 1 is 1 + b_J q^J / sum_(j > J) b_j q^j <= 1 + (1 - q) / q = e^mu. J moves by
at most ceil(t / sqrt(d)) when z moves by t: the loss of noise z on points a distance t apart is at most mu ceil(t /
sqrt(d)), for every output. The probabilities are exact; nothing is cut off.

A try succeeds with probability about 1 / sqrt(pi d). Variance of a coordinate: about (d + 1)(d + 2) / mu^2 times
d / (d + 2), i.e. d (d + 1) / mu^2.

The standard library only: devices use it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InputError
from sfumato.local.coins import Coins

LARGEST_SHELL = 2**26  # the mean one; ten times as large is as good as never


@dataclass(frozen=True)
class SphereNoise:
    """Noise in `dimension` integers whose probabilities fall by e^mu at most from shell to shell.

    Examples
    --------
    >>> law = SphereNoise(3, Fraction(1, 10))
    >>> len(law.draw(Coins.seeded(7)))
    3
    >>> round(law.loss(5.0), 3)
    0.3
    """

    dimension: int
    mu: Fraction

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.mu <= 0 or (self.dimension + 1) / self.mu > LARGEST_SHELL:
            raise InputError(f"noise of rate {float(self.mu):g} in {self.dimension} columns does not fit integers")

    @property
    def first_shell(self) -> int:
        """j0."""
        return self.dimension // 2 + 1

    @property
    def variance(self) -> float:
        """Variance of one coordinate, to a relative precision of about mu."""
        return self.dimension * (self.dimension + 1) / float(self.mu) ** 2

    def loss(self, distance: float) -> float:
        """Largest loss of two integer points so far apart."""
        return float(self.mu) * math.ceil(distance / math.sqrt(self.dimension) - 1e-12)

    def draw(self, coins: Coins) -> list[int]:
        """Draw one noise vector."""
        while True:
            shell = self.first_shell + sum(geometric(self.mu, coins) for _ in range(self.dimension + 1))
            noise = [gaussian(shell, coins) for _ in range(self.dimension)]
            missing = self.dimension * shell**2 - sum(value * value for value in noise)
            if missing >= 0 and exponential_coin(missing, 2 * shell**2, coins):
                return noise


def exponential_coin(numerator: int, denominator: int, coins: Coins) -> bool:
    """Toss a coin of probability exp(-numerator / denominator), by J. von Neumann's series (`privacy.noise`)."""
    while numerator > denominator:
        if not exponential_coin(1, 1, coins):
            return False
        numerator -= denominator
    step = 1
    while coins.below(denominator) < numerator and (step == 1 or coins.below(step) == 0):
        step += 1
    return step % 2 == 1


def geometric(rate: Fraction, coins: Coins) -> int:
    """Sample Pr[k] proportional to exp(-rate k), k = 0, 1, 2, ...

    Examples
    --------
    >>> geometric(Fraction(1, 10), Coins.seeded(7))
    6
    """
    while True:
        remainder = coins.below(rate.denominator)
        if exponential_coin(remainder, rate.denominator, coins):
            break
    units = 0
    while exponential_coin(1, 1, coins):
        units += 1
    return (remainder + rate.denominator * units) // rate.numerator


def laplace(rate: Fraction, coins: Coins) -> int:
    """Sample Pr[z] proportional to exp(-rate |z|).

    Examples
    --------
    >>> laplace(Fraction(1, 10), Coins.seeded(7))
    6
    """
    while True:
        magnitude, negative = geometric(rate, coins), coins.below(2)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def gaussian(sigma: int, coins: Coins) -> int:
    """Sample Pr[z] proportional to exp(-z^2 / (2 sigma^2)), as `privacy.noise.DiscreteGaussian` does.

    Examples
    --------
    >>> gaussian(10, Coins.seeded(7))
    6
    """
    while True:
        proposal = laplace(Fraction(1, sigma), coins)
        if exponential_coin((abs(proposal) - sigma) ** 2, 2 * sigma**2, coins):
            return proposal
