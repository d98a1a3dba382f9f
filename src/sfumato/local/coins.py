"""Secret coins of a device, exactly uniform integers from the operating system, and noise that is made from them.

Nothing is kept between two draws: every byte comes from the operating system when it is asked for. So neither a copy
nor a pickle of a client, nor a fork of its process, nor two threads that share it can ever see the same coin twice.

`SphereNoise`: exact integer noise that falls with the Euclidean norm, the multivariate Laplace law on a lattice.

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

import hashlib
import math
import os
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InputError

BLOCK_BYTES = 512
LARGEST_SHELL = 2**26  # the mean one; ten times as large is as good as never


class Coins:
    """Secret random integers, each used once.

    Examples
    --------
    >>> 0 <= Coins().below(10) < 10
    True
    >>> Coins.seeded(7).below(100), Coins.seeded(7).below(100)
    (97, 97)
    """

    private = True

    @staticmethod
    def seeded(seed: int | str) -> Coins:
        """Return reproducible coins for tests; what is drawn from them is NOT PRIVATE."""
        return _SeededCoins(seed)

    def take(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)

    def below(self, bound: int) -> int:
        """Return an integer, exactly uniform in [0, bound)."""
        if bound < 1:
            raise InputError(f"the bound of a uniform integer must be at least 1, got {bound}")
        bits = (bound - 1).bit_length()
        size, surplus = -(-bits // 8), -bits % 8
        while True:
            value = int.from_bytes(self.take(size), "little") >> surplus
            if value < bound:
                return value


class _SeededCoins(Coins):
    private = False

    def __init__(self, seed: int | str) -> None:
        self._state = hashlib.sha256(f"sfumato-coins:{seed}".encode()).digest()
        self._block = 0
        self._unread = b""

    def take(self, count: int) -> bytes:
        if len(self._unread) < count:
            block = self._state + self._block.to_bytes(8, "big")
            self._unread += hashlib.shake_256(block).digest(max(BLOCK_BYTES, count))
            self._block += 1
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken


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
