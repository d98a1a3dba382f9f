"""`negative-binomial`: as `poisson`, with a negative binomial number of noise messages: fewer for the same error.

Source: the single-distribution protocol of B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh, ICML 2020.
Guarantee: calibrated on the exact laws of N and N + 1, N negative binomial; the bits of the others only shift the view.
Variance of the sum: r e^-a / (1 - e^-a)^2 for shape r and rate a, with r e^-a / (1 - e^-a) noise messages together. At
a given variance the number of messages grows with the square root of r, and the error falls towards that of Poisson
noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.shuffled.bitsum.added_noise import (
    chernoff_window,
    negative_binomial_exponent,
    negative_binomial_log_moment,
    shifted_pair,
)
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, curve_of
from sfumato.shuffled.bitsum.protocol import ComposableBitSum, Counts, Floats, checked_participants
from sfumato.shuffled.bitsum.shares import checked_rates, negative_binomial


@dataclass(frozen=True)
class NegativeBinomialNoise(ComposableBitSum):
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
    message_bits: ClassVar[int] = 0

    def __post_init__(self) -> None:
        checked_participants(self.n)
        checked_rates(self.rate)
        if self.shape < 1:
            raise InputError(f"The shape of the noise must be positive; got {self.shape}.")

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send the bit as a message or none, and a share of the noise."""
        noise = negative_binomial(secure, bits.size, Fraction(self.shape, self.n), self.rate)
        return Counts(bits + noise, np.zeros_like(noise))

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Add the noise of all to the sums."""
        noise = negative_binomial(secure, sums.size, Fraction(self.shape), self.rate)
        return Counts(sums + noise, np.zeros_like(noise))

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Subtract the mean of the noise."""
        return np.asarray(counts.ones - self.mean * ((participants or self.n) / self.n), dtype=np.float64)

    @property
    def mean(self) -> float:
        """Mean of the noise of all."""
        return self.shape / math.expm1(float(self.rate))

    @property
    def variance(self) -> float:
        """Variance of the noise of all."""
        return -self.mean / math.expm1(-float(self.rate))

    def messages(self, mean_bit: float) -> float:
        """Return the bit and a share of the noise."""
        return mean_bit + self.mean / self.n

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of the bit and a share of the noise."""
        return tilt * bit + negative_binomial_log_moment(tilt, self.shape / self.n, float(self.rate))

    @property
    def largest_tilt(self) -> float:
        """The rate of the noise."""
        return float(self.rate)

    @property
    def parameters(self) -> dict[str, Fraction | int]:
        """Shape and rate of the noise."""
        return {"shape": self.shape, "rate": self.rate}

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve of N against N + 1."""
        exponent, tail = negative_binomial_exponent, accuracy.tail
        low, high = chernoff_window(self.mean, lambda x: exponent(x, self.shape, self.mean), tail)
        pair = shifted_pair(low, high, self._log_ratio, tail)
        return curve_of([pair], pair.deviation / accuracy.steps, pair.largest_loss)

    def _log_ratio(self, values: Integers) -> Floats:
        return np.log((values + (self.shape - 1.0)) / values) - float(self.rate)


def rate_for_variance(shape: float, variance: float) -> float:
    """Return the rate at which negative binomial noise has a given variance.

    Examples
    --------
    >>> round(NegativeBinomialNoise(10, 7, Fraction(rate_for_variance(7, 50.0))).variance, 9)
    50.0
    """
    # shape x = variance (1 - x)^2 for x = e^-rate; with y = 1 - x, y^2 + c y - c = 0 for c = shape / variance.
    ratio = shape / variance
    return -math.log1p(-2 * ratio / (ratio + math.sqrt(ratio * ratio + 4 * ratio)))
