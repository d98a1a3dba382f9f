"""Exact integer noise: the discrete Laplace law, the same rounded down, and the discrete Gaussian.

Source: C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020. Coins that
fall with probability exp(-x) come from J. von Neumann's series: with independent coins of probability x/1, x/2, x/3,
... the number of successes before the first failure is at least n with probability x^n/n!, so it is even with
probability 1 - x + x^2/2! - ... = exp(-x). Every coin compares uniform integers; no floating-point number takes part,
so the laws below hold exactly, given uniform words (`sfumato.privacy.bits`).

Guarantee. Let x and x' be the integer vectors of neighbouring data sets, with independent noise on each coordinate.
Discrete Laplace, Pr[z] proportional to exp(-rate |z|): for every output y, Pr[y|x] / Pr[y|x'] =
exp(rate (|y - x'|_1 - |y - x|_1)) <= exp(rate |x - x'|_1), so that rate = epsilon / s with |x - x'|_1 <= s gives
exactly epsilon, delta = 0. Discrete Gaussian, Pr[z] proportional to exp(-z^2 / (2 sigma^2)): the Renyi divergence of
order alpha between the law and its shift by an integer vector of l2 norm at most D is at most alpha D^2 / (2 sigma^2)
(the sum over the shifted lattice is largest unshifted), which is D^2 / (2 sigma^2)-zCDP.

Variance: 2 e^-rate / (1 - e^-rate)^2, about 2 / rate^2 for a small rate; sigma^2, less at most 3 parts in ten million.

Rounded down: floor(Laplace(b)) is z >= 0 with probability (1 - e^-rate) e^(-rate z) / 2 and -1 - z with the same, rate
= 1 / b: a fair coin, then a geometric number. Adding it to an integer is the Laplace mechanism followed by rounding
down, so it is epsilon-DP for rate epsilon / l1; directly, the probabilities of neighbouring integers differ by
exp(rate) at most. Mean -1/2, variance that of the discrete Laplace law of the rate, and a quarter.

Overflow: a sample is returned modulo 2**64, as int64. Added to an int64 sum it gives the true noisy sum modulo 2**64,
which is a function of the true noisy sum alone, so the guarantee stays exact; a sum in Python's integers is brought
back there by `wrapped`. It takes a magnitude of 2**63, which has probability at most e^-128 for the smallest rate; for
the Gaussian, 2**33 coins of probability 1/e in a row. Only a sum with noise may wrap: a mechanism that does more with
its exact numbers has to show that they fit, and one that compares noise takes its rate from `comparing_rate`.

The time that a sample takes depends on its value; do not publish the time that noise took.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits, Words, next_below
from sfumato.public.codec import Documented, Ratio, Schema, Whole, brief

LARGEST_RATE_TERM = 2**56
LARGEST_SIGMA = 2**30
SMALLEST_COMPARING_RATE = Fraction(1, 2**50)
RATE = Ratio(largest_term=LARGEST_RATE_TERM, positive=True, slash=True)
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)


def rounded_down(rate: Fraction) -> Fraction:
    """Return a fraction up to `rate` that the samplers take: at most one part in 2^20 more noise than asked for.

    Examples
    --------
    >>> rounded_down(Fraction(1, 3)), rounded_down(Fraction(10**9 + 1, 10**20))
    (Fraction(1, 3), Fraction(1, 99999999901))
    """
    if max(rate.numerator, rate.denominator) <= LARGEST_RATE_TERM:
        return rate
    if rate < Fraction(1, 2**20):
        rounded = Fraction(1, math.ceil(1 / rate))
    else:
        bits = LARGEST_RATE_TERM.bit_length() - 2 - (rate.numerator // rate.denominator).bit_length()
        rounded = Fraction(math.floor(rate * 2**bits), 2**bits)
    if rounded.denominator > LARGEST_RATE_TERM:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or fewer steps")
    return rounded


def comparing_rate(rate: Fraction) -> Fraction:
    """Round a rate down as `rounded_down` does, for noise that is compared and not only added.

    A sample that wraps around would be compared wrongly. From this rate on that has probability below e^-8192.
    """
    if rate < SMALLEST_COMPARING_RATE:
        raise InputError("so little budget does not fit 64-bit comparisons; pass a larger epsilon or fewer steps")
    return rounded_down(rate)


def wrapped(value: int) -> int:
    """Return a whole number modulo 2**64, as int64 holds it; see the module's text on overflow.

    Examples
    --------
    >>> wrapped(5), wrapped(2**63)
    (5, -9223372036854775808)
    """
    return (value + 2**63) % 2**64 - 2**63


def geometric(bits: SecureBits, count: int, rate: Fraction) -> Integers:
    """Sample Pr[k] = (1 - e^-rate) e^(-rate k), k = 0, 1, 2, ..., exactly.

    Examples
    --------
    >>> geometric(SecureBits.seeded(7), 5, Fraction(1, 10))
    array([ 6, 11,  9, 33,  1])
    """
    return bits.draw(fill_geometric, count, 12.0, *_checked_rate(rate))


@dataclass(frozen=True)
class DiscreteLaplace(Documented):
    """Integer noise with Pr[z] proportional to exp(-rate |z|).

    Parameters
    ----------
    rate
        Epsilon divided by the l1 sensitivity: a positive fraction whose numerator and denominator are at most 2**56.

    Examples
    --------
    >>> law = DiscreteLaplace(Fraction(1, 10))
    >>> law.sample(SecureBits.seeded(7), 5)
    array([ 6, -2, -4, -7,  2])
    >>> round(law.variance, 3)
    199.833
    """

    schema = Schema({"law": "discrete-laplace"}, rate=RATE)
    rate: Fraction

    def __post_init__(self) -> None:
        _checked_rate(self.rate)

    @classmethod
    def at_most(cls, rate: Fraction) -> DiscreteLaplace:
        """Return the law of this rate, or of the next lower one that the sampler takes: a little more noise."""
        return cls(rounded_down(rate))

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` independent samples."""
        return bits.draw(fill_laplace, count, 14.0, *_checked_rate(self.rate))

    @property
    def variance(self) -> float:
        """The variance, 2 e^-rate / (1 - e^-rate)^2."""
        rate = float(self.rate)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def probability(self, z: int) -> float:
        """Return Pr[z] = tanh(rate / 2) e^(-rate |z|)."""
        return math.tanh(float(self.rate) / 2) * math.exp(-float(self.rate * abs(z)))


@dataclass(frozen=True)
class FlooredLaplace(Documented):
    """Integer noise with the law of floor(Laplace(1 / rate))."""

    schema = Schema({"law": "floored-laplace"}, rate=RATE)
    rate: Fraction

    def __post_init__(self) -> None:
        _checked_rate(self.rate)

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` independent samples."""
        sizes = geometric(bits, count, self.rate)
        return np.where(bits.below(2, count) == 0, sizes, -1 - sizes)

    @property
    def variance(self) -> float:
        """The variance, see the module's text."""
        return DiscreteLaplace(self.rate).variance + 0.25

    def probability(self, z: int) -> float:
        """Return Pr[z]."""
        rate, size = float(self.rate), z if z >= 0 else -1 - z
        return -math.expm1(-rate) * math.exp(-rate * size) / 2


@dataclass(frozen=True)
class DiscreteGaussian(Documented):
    """Integer noise with Pr[z] proportional to exp(-z^2 / (2 sigma^2)).

    Parameters
    ----------
    sigma
        An integer from 1 to 2**30. Put the data on a finer integer grid where a fraction of one would matter.

    Examples
    --------
    >>> law = DiscreteGaussian(10)
    >>> law.sample(SecureBits.seeded(7), 5)
    array([ 6, -4, -1, -2,  4])
    >>> law.variance
    100.0
    """

    schema = Schema({"law": "discrete-gaussian"}, sigma=Whole(1, LARGEST_SIGMA))
    sigma: int

    def __post_init__(self) -> None:
        if type(self.sigma) is not int or not 1 <= self.sigma <= LARGEST_SIGMA:
            raise InputError(f"sigma must be an int from 1 to 2**30; got {brief(self.sigma)}.")

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` independent samples."""
        return bits.draw(fill_gaussian, count, 24.0, np.uint64(self.sigma))

    # Poisson summation: sum_z exp(-z^2 / (2 sigma^2)) = sqrt(2 pi) sigma (1 + 2 sum_k exp(-2 pi^2 sigma^2 k^2)), and
    # the variance is the derivative of its logarithm. For sigma >= 1 the terms from k = 2 on are below 1e-34.

    @property
    def variance(self) -> float:
        """The variance, sigma^2 less a correction that vanishes for large sigma."""
        first = math.exp(-2 * (math.pi * self.sigma) ** 2)
        return self.sigma**2 - 8 * math.pi**2 * self.sigma**4 * first / (1 + 2 * first)

    def probability(self, z: int) -> float:
        """Return Pr[z]."""
        first = math.exp(-2 * (math.pi * self.sigma) ** 2)
        total = math.sqrt(2 * math.pi) * self.sigma * (1 + 2 * first)
        return math.exp(-float(Fraction(z * z, 2 * self.sigma**2))) / total


def _checked_rate(rate: Fraction) -> tuple[np.uint64, np.uint64]:
    if not isinstance(rate, Fraction) or rate <= 0:
        raise InputError(f"The rate must be a positive Fraction, such as Fraction(1, 10); got {brief(rate)}.")
    if max(rate.numerator, rate.denominator) > LARGEST_RATE_TERM:
        raise InputError(
            f"The rate {rate} needs a numerator and a denominator of at most 2**56. "
            "Use an epsilon with fewer digits, a larger epsilon or a coarser integer grid."
        )
    return np.uint64(rate.numerator), np.uint64(rate.denominator)


@dataclass(frozen=True)
class CountNoise(DiscreteLaplace):
    """Noise of a count that one unit of privacy changes by at most `records`.

    Examples
    --------
    >>> from fractions import Fraction
    >>> CountNoise.of(Fraction(1, 20), records=3)
    CountNoise(rate=Fraction(1, 60), records=3)
    """

    records: int = 1

    @classmethod
    def of(cls, epsilon: Fraction, records: int) -> CountNoise:
        """Noise for a count that may cost `epsilon`."""
        return cls(epsilon / records, records)

    @property
    def epsilon(self) -> Fraction:
        """What the count costs."""
        return self.rate * self.records


# The compiled samplers read words[at:] and return the position after the last word read, beyond words.size if the words
# ran out; then every coin falls False, the loops end, and the sample means nothing.


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _inverse_coin(words: Words, at: int, divisor: np.uint64) -> tuple[bool, int]:
    """Toss a coin of probability exp(-1 / divisor)."""
    step = _TWO if divisor == _ONE else _ONE  # a first coin of probability 1/1 needs no word
    while True:
        value, at = next_below(words, at, divisor * step)
        if at > words.size:
            return False, at
        if value > _ZERO:
            return step & _ONE == _ONE, at
        step += _ONE


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fraction_coin(words: Words, at: int, numerator: np.uint64, denominator: np.uint64) -> tuple[bool, int]:
    """Toss a coin of probability exp(-numerator / denominator), for 0 <= numerator <= denominator."""
    if numerator == _ZERO:
        return at <= words.size, at
    step = _ONE
    while True:
        value, at = next_below(words, at, denominator)
        success = value < numerator
        if success and step > _ONE:
            value, at = next_below(words, at, step)
            success = value == _ZERO
        if at > words.size:
            return False, at
        if not success:
            return step & _ONE == _ONE, at
        step += _ONE


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def next_geometric(words: Words, at: int, numerator: np.uint64, denominator: np.uint64) -> tuple[np.uint64, bool, int]:
    """Sample floor(E / numerator), E geometric at rate 1 / denominator; tell also whether it is zero."""
    # E = remainder + denominator * units: the remainder by rejection, the units by coins of probability 1/e.
    while True:
        remainder, at = next_below(words, at, denominator)
        accepted, at = _fraction_coin(words, at, remainder, denominator)
        if accepted or at > words.size:
            break
    value = remainder // numerator
    remainder = remainder % numerator
    zero = value == _ZERO
    while True:
        again, at = _inverse_coin(words, at, _ONE)
        if not again:
            return value, zero, at
        value += denominator // numerator
        remainder += denominator % numerator
        if remainder >= numerator:
            remainder -= numerator
            value += _ONE
        zero = zero and value == _ZERO


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _signed(words: Words, at: int, magnitude: np.uint64, zero: bool) -> tuple[np.int64, bool, int]:
    """Give a magnitude a sign; refuse minus zero, or zero would be twice as likely as it should."""
    sign, at = next_below(words, at, _TWO)
    if sign == _ZERO:
        return np.int64(magnitude), True, at
    return -np.int64(magnitude), not zero, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _gaussian_accepts(words: Words, at: int, magnitude: np.uint64, sigma: np.uint64) -> tuple[bool, int]:
    """Toss a coin of probability exp(-(magnitude - sigma)^2 / (2 sigma^2))."""
    distance = magnitude - sigma if magnitude > sigma else sigma - magnitude
    # (q sigma + r)^2 / (2 sigma^2) = q^2 / 2 + q r / sigma + r^2 / (2 sigma^2)
    quotient, remainder = distance // sigma, distance % sigma
    accepted, at = _fraction_coin(words, at, remainder * remainder, _TWO * sigma * sigma)
    tosses = _ZERO
    while accepted and tosses < quotient:
        accepted, at = _fraction_coin(words, at, remainder, sigma)
        tosses += _ONE
    tosses = _ZERO
    while accepted and tosses < quotient * quotient:
        accepted, at = _inverse_coin(words, at, _TWO)
        tosses += _ONE
    return accepted, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_geometric(
    words: Words, out: Integers, done: int, numerator: np.uint64, denominator: np.uint64
) -> tuple[int, int]:
    """Fill with geometric samples of rate numerator / denominator."""
    at = 0
    while done < out.size:
        value, _, end = next_geometric(words, at, numerator, denominator)
        if end > words.size:
            break
        out[done] = value
        done += 1
        at = end
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_laplace(
    words: Words, out: Integers, done: int, numerator: np.uint64, denominator: np.uint64
) -> tuple[int, int]:
    """Fill with discrete Laplace samples of rate numerator / denominator."""
    at = 0
    while done < out.size:
        magnitude, zero, end = next_geometric(words, at, numerator, denominator)
        value, accepted, end = _signed(words, end, magnitude, zero)
        if end > words.size:
            break
        at = end
        if accepted:
            out[done] = value
            done += 1
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_gaussian(words: Words, out: Integers, done: int, sigma: np.uint64) -> tuple[int, int]:
    """Fill with discrete Gaussian samples."""
    at = 0
    while done < out.size:
        magnitude, zero, end = next_geometric(words, at, _ONE, sigma)
        value, accepted, end = _signed(words, end, magnitude, zero)
        if accepted:
            accepted, end = _gaussian_accepts(words, end, magnitude, sigma)
        if end > words.size:
            break
        at = end
        if accepted:
            out[done] = value
            done += 1
    return done, at
