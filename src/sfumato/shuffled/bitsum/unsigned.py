"""Protocols that send only ones: a message if the bit is 1, and a share of noise messages that nobody can tell from it.

Source: the single-distribution protocol of B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh, ICML 2020. `poisson` has a
Poisson number of noise messages, `negative-binomial` a negative binomial one: fewer for the same error.

Guarantee: the view of one instance is the number of messages, the sum of the bits plus a noise count N. It has the law
of N or of N + 1, whatever the bits of the others, so that one pair of laws is the worst case, and noise is calibrated
on these exact laws. The loss ln(P(v) / P(v - 1)) follows from the ratio of neighbouring probabilities, which is known
in closed form; probabilities come from products of ratios, tails from Chernoff's bound.

Variance of the sum: for Poisson noise its total mean, so that a user sends variance / n noise messages per instance.
For negative binomial noise of shape r and rate a, r e^-a / (1 - e^-a)^2, with r e^-a / (1 - e^-a) noise messages
together: at a given variance the number of messages grows with the square root of r, and the error falls towards that
of Poisson noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.public.codec import Schema
from sfumato.shuffled.bitsum.bit_sum import Between, ComposableBitSum, Counts, Digits, Floats
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Pair, curve_of
from sfumato.shuffled.bitsum.shares import SMALLEST_RATE, checked_rates, negative_binomial, poisson

LARGEST_WINDOW = 5 * 10**6  # values; arrays of them take a few hundred megabytes
RATE = Between(SMALLEST_RATE, Fraction(100))  # of geometric counts: beyond, they are 0 for all practical purposes
MOST_SHAPE = 2**20


class _OnesOnly(ComposableBitSum):
    """What the two kinds of noise share: bits are sent plainly among noise messages."""

    message_bits: ClassVar[int] = 0

    @abstractmethod
    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Integers:
        """Sample a share of the noise of all."""

    @property
    @abstractmethod
    def total_mean(self) -> float:
        """Mean of the noise of all."""

    @abstractmethod
    def _log_ratio(self, values: Integers) -> Floats:
        """Return ln(Pr[N = v] / Pr[N = v - 1])."""

    @abstractmethod
    def _exponent(self, x: float) -> float:
        """Cramer's function of the noise of all."""

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send the bit as a message or none, and a share of the noise."""
        noise = self._noise(bits.size, secure, Fraction(1, self.n))
        return Counts(bits + noise, np.zeros_like(noise))

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Add the noise of all to the sums."""
        noise = self._noise(sums.size, secure, Fraction(1))
        return Counts(sums + noise, np.zeros_like(noise))

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Subtract the mean of the noise."""
        return np.asarray(counts.ones - self.total_mean * ((participants or self.n) / self.n), dtype=np.float64)

    def messages(self, mean_bit: float) -> float:
        """Return the bit and a share of the noise."""
        return mean_bit + self.total_mean / self.n

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve of N against N + 1."""
        low, high = chernoff_window(self.total_mean, self._exponent, accuracy.tail)
        pair = shifted_pair(low, high, self._log_ratio, accuracy.tail)
        return curve_of([pair], pair.deviation / accuracy.steps, pair.largest_loss)


@dataclass(frozen=True)
class PoissonNoise(_OnesOnly):
    """Noise messages of a Poisson number.

    Parameters
    ----------
    n : int
        Honest participants, at least.
    mean : Fraction
        Mean number of noise messages of all `n` together, per instance.

    Examples
    --------
    >>> protocol = PoissonNoise(1000, Fraction(400))
    >>> counts = protocol.totals(np.array([0, 1000]), SecureBits.seeded(7))
    >>> protocol.estimate(counts)
    array([ 37., 991.])
    >>> protocol.rmse, protocol.messages(0.5)
    (20.0, 0.9)
    """

    n: int
    mean: Fraction
    name: ClassVar[str] = "poisson"
    schema: ClassVar[Schema] = Schema(mean=Between(Fraction(0), Fraction(2**100)))

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Integers:
        return poisson(secure, count, self.mean * share)

    @property
    def total_mean(self) -> float:
        """Mean of the noise of all."""
        return float(self.mean)

    @property
    def variance(self) -> float:
        """The mean of the noise."""
        return float(self.mean)

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of the bit and a share of the noise."""
        return tilt * bit + float(self.mean) / self.n * math.expm1(tilt)

    def _log_ratio(self, values: Integers) -> Floats:
        return np.log(float(self.mean) / values)

    def _exponent(self, x: float) -> float:
        return poisson_exponent(x, float(self.mean))


@dataclass(frozen=True)
class NegativeBinomialNoise(_OnesOnly):
    """Noise messages of a negative binomial number.

    Parameters
    ----------
    n : int
        Honest participants, at least.
    shape : int
        Shape of the noise of all `n` together.
    rate : Fraction
        Its probabilities fall like exp(-rate k) in the end.

    Examples
    --------
    >>> protocol = NegativeBinomialNoise(1000, 64, Fraction(2, 5))
    >>> counts = protocol.totals(np.array([0, 1000]), SecureBits.seeded(7))
    >>> protocol.estimate(counts).round(1)
    array([   7.9, 1002.9])
    >>> round(protocol.rmse, 2), round(protocol.messages(0.5), 3)
    (19.87, 0.63)
    """

    n: int
    shape: int
    rate: Fraction
    name: ClassVar[str] = "negative-binomial"
    schema: ClassVar[Schema] = Schema(shape=Digits(MOST_SHAPE), rate=RATE)

    def __post_init__(self) -> None:
        checked_rates(self.rate)
        super().__post_init__()

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Integers:
        return negative_binomial(secure, count, share * self.shape, self.rate)

    @property
    def total_mean(self) -> float:
        """Mean of the noise of all."""
        return self.shape / math.expm1(float(self.rate))

    @property
    def variance(self) -> float:
        """Variance of the noise of all."""
        return -self.total_mean / math.expm1(-float(self.rate))

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of the bit and a share of the noise."""
        return tilt * bit + negative_binomial_log_moment(tilt, self.shape / self.n, float(self.rate))

    @property
    def largest_tilt(self) -> float:
        """The rate of the noise."""
        return float(self.rate)

    def _log_ratio(self, values: Integers) -> Floats:
        return np.log((values + (self.shape - 1.0)) / values) - float(self.rate)

    def _exponent(self, x: float) -> float:
        return negative_binomial_exponent(x, self.shape, self.total_mean)


def rate_for_variance(shape: float, variance: float) -> float:
    """Return the rate at which negative binomial noise has a given variance."""
    # shape x = variance (1 - x)^2 for x = e^-rate; with y = 1 - x, y^2 + c y - c = 0 for c = shape / variance.
    ratio = shape / variance
    return -math.log1p(-2 * ratio / (ratio + math.sqrt(ratio * ratio + 4 * ratio)))


def chernoff_window(mean: float, exponent: Callable[[float], float], tail: float) -> tuple[int, int]:
    """Return the ends of an interval of counts that leaves out at most `tail`."""
    needed = math.log(2 / tail)
    low = 0 if exponent(0.0) < needed else math.floor(brentq(lambda x: exponent(x) - needed, 0.0, mean))
    end = 2 * mean + 1
    while exponent(end) < needed:
        end *= 2
    high = math.ceil(brentq(lambda x: exponent(x) - needed, mean, end))
    if high - low > LARGEST_WINDOW:
        raise InputError(
            f"the noise would need about {mean:.1g} messages an instance, more than can be calibrated; "
            "take a larger epsilon or delta, or fewer instances"
        )
    return low, high


def poisson_exponent(x: float, mean: float) -> float:
    """Cramer's function of a Poisson count."""
    return (x * math.log(x / mean) if x else 0.0) - x + mean


def negative_binomial_exponent(x: float, shape: float, mean: float) -> float:
    """Cramer's function of a negative binomial count."""
    return (x * math.log(x / mean) if x else 0.0) - (x + shape) * math.log((x + shape) / (mean + shape))


def negative_binomial_log_moment(tilt: float, shape: float, rate: float) -> float:
    """Return ln E[exp(tilt * count)] of a negative binomial count, for a tilt below its rate."""
    return shape * math.log(math.expm1(-rate) / math.expm1(tilt - rate))


def law_from_ratios(log_ratios: Floats) -> Floats:
    """Return probabilities of consecutive counts whose neighbours have these log ratios, on a window that holds all."""
    logs = np.concatenate([[0.0], np.cumsum(log_ratios)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def shifted_pair(low: int, high: int, log_ratio: Callable[[Integers], Floats], tail: float) -> Pair:
    """Return the laws of N and N + 1."""
    values = np.arange(low + 1, high + 1)
    losses = log_ratio(values)
    law = law_from_ratios(losses)
    # The value `low` of N and the value high + 1 of N + 1 have no partner in the interval.
    return Pair(law[:0:-1], law[-2::-1], losses[::-1], tail, float(law[0]), float(law[-1]))
