"""`3nb`: messages +1 and -1 whose noise is as small as a discrete Laplace law's, hidden under pairs that cancel.

Source: the correlated-noise protocol of B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh, ICML 2020. A user with bit b sends
b + N1 + N3 messages +1 and N2 + N3 messages -1, where N1, N2, N3 are shares of two geometric counts with parameter
e^-a and of a negative binomial flood.
Guarantee: calibrated on the exact law of the view (A, B) = (b + N1 + N3, N2 + N3), which the bits of the others only
shift. With H(a) = e^-2a H(a - 1) + Pr[N3 = a], the view has probability (1 - e^-a)^2 e^(-a |A - B|) H(min(A, B)) if
b = 0; hence the loss ln(P0 / P1) is -a wherever A > B, and a + ln(H(A) / H(A - 1)) wherever A <= B: a law on a line.
Without N3 an empty A would prove that b is 0.
Variance of the sum: 2 e^-a / (1 - e^-a)^2; the flood costs messages, not error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.signal import lfilter

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.shuffled.bitsum.added_noise import (
    chernoff_window,
    law_from_ratios,
    negative_binomial_exponent,
    negative_binomial_log_moment,
)
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Pair, curve_of
from sfumato.shuffled.bitsum.protocol import ComposableBitSum, Counts, Floats, checked_participants
from sfumato.shuffled.bitsum.shares import checked_rates, negative_binomial


@dataclass(frozen=True)
class ThreeNegativeBinomials(ComposableBitSum):
    """Geometric noise on either sign, and a flood of cancelling pairs.

    Parameters
    ----------
    n : int
        Honest participants, at least.
    rate : Fraction
        Of the geometric noise.
    flood_shape : int
        Shape of the flood of all `n` together.
    flood_rate : Fraction
        Rate of the flood.

    Examples
    --------
    >>> protocol = ThreeNegativeBinomials(1000, Fraction(1, 10), 32, Fraction(1, 8))
    >>> counts = protocol.totals(np.array([0, 1000]), SecureBits.seeded(7))
    >>> protocol.estimate(counts)
    array([ -27., 1005.])
    >>> round(protocol.rmse, 2), round(protocol.messages(0.5), 3)
    (14.14, 1.0)
    """

    n: int
    rate: Fraction
    flood_shape: int
    flood_rate: Fraction
    name: ClassVar[str] = "3nb"

    def __post_init__(self) -> None:
        checked_participants(self.n)
        checked_rates(self.rate, self.flood_rate)
        if self.flood_shape < 1:
            raise InputError(f"The shape of the flood must be positive; got {self.flood_shape}.")

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send shares of the noise and the flood, and +1 if the bit is 1."""
        noise = self._noise(bits.size, secure, Fraction(1, self.n))
        return Counts(bits + noise.ones, noise.zeros)

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Add the noise and the flood of all to the sums."""
        noise = self._noise(sums.size, secure, Fraction(1))
        return Counts(sums + noise.ones, noise.zeros)

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Counts:
        up, down = (negative_binomial(secure, count, share, self.rate) for _ in range(2))
        flood = negative_binomial(secure, count, share * self.flood_shape, self.flood_rate)
        return Counts(up + flood, down + flood)

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return the number of +1 less the number of -1."""
        return np.asarray(counts.ones - counts.zeros, dtype=np.float64)

    @property
    def variance(self) -> float:
        """Variance of the difference of two geometric counts."""
        return geometric_difference_variance(float(self.rate))

    @property
    def flood_mean(self) -> float:
        """Mean number of cancelling pairs of all."""
        return self.flood_shape / math.expm1(float(self.flood_rate))

    def messages(self, mean_bit: float) -> float:
        """Return the bit, shares of the noise, and two messages for every pair."""
        return mean_bit + 2 * (1 / math.expm1(float(self.rate)) + self.flood_mean) / self.n

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of the bit, shares of the noise, and two messages for every pair."""
        return tilt * bit + signed_noise_exponent(tilt, self.n, self.rate, self.flood_shape, self.flood_rate)

    @property
    def largest_tilt(self) -> float:
        """What the noise or the pairs bear."""
        return min(float(self.rate), float(self.flood_rate) / 2)

    @property
    def parameters(self) -> dict[str, Fraction | int]:
        """Rate of the noise, shape and rate of the flood."""
        return {"rate": self.rate, "flood_shape": self.flood_shape, "flood_rate": self.flood_rate}

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve of the view with bit 0 against the view with bit 1."""
        pair = self.pair(accuracy.tail)
        return curve_of([pair], float(self.rate) / accuracy.steps, pair.largest_loss)

    def pair(self, tail: float) -> Pair:
        """Return the laws of the loss for the bits 0 and 1."""
        rate = float(self.rate)
        # H needs the flood from further below than where its own values are used.
        start = self._flood_window(tail**2 / 16)[0]
        low, high = self._flood_window(tail / 4)
        high += math.ceil(-math.log(tail / 4) / (2 * rate))  # where min(N1, N2) may take it
        values = np.arange(start + 1, high + 1)
        flood = law_from_ratios(np.log((values + (self.flood_shape - 1.0)) / values) - float(self.flood_rate))
        smeared = lfilter([1.0], [1.0, -math.exp(-2 * rate)], flood)  # H, from `start` on
        at = np.arange(max(low, start + 1), high + 1) - start
        losses = np.append(rate + np.log(smeared[at] / smeared[at - 1]), -rate)
        equal = 1 / (1 + math.exp(-rate))  # probability of N1 >= N2, so of A > B with bit 1
        first = np.append(-math.expm1(-rate) * smeared[at], equal * math.exp(-rate))
        second = np.append(-math.expm1(-rate) * math.exp(-rate) * smeared[at - 1], equal)
        order = np.argsort(losses, kind="stable")
        empty = -math.expm1(-rate) * float(smeared[0]) if start == 0 else 0.0  # A = 0 with bit 0 has no partner
        return Pair(first[order], second[order], losses[order], tail, only_first=empty)

    def _flood_window(self, tail: float) -> tuple[int, int]:
        exponent = negative_binomial_exponent
        return chernoff_window(self.flood_mean, lambda x: exponent(x, self.flood_shape, self.flood_mean), tail)


def signed_noise_exponent(tilt: float, n: int, rate: Fraction, flood_shape: int, flood_rate: Fraction) -> float:
    """Return ln E[exp(tilt * messages)] of one user's shares of both signs' noise and of the pairs of a flood."""
    signs = negative_binomial_log_moment(tilt, 2 / n, float(rate))
    return signs + negative_binomial_log_moment(2 * tilt, flood_shape / n, float(flood_rate))


def geometric_difference_variance(rate: float) -> float:
    """Return the variance of the difference of two geometric counts, a discrete Laplace law.

    Examples
    --------
    >>> round(geometric_difference_variance(0.1), 3)
    199.833
    """
    return 1 / (2 * math.sinh(rate / 2) ** 2)


def rate_for_difference(variance: float) -> float:
    """Return the rate at which that variance is a given one.

    Examples
    --------
    >>> round(rate_for_difference(geometric_difference_variance(0.1)), 12)
    0.1
    """
    return 2 * math.asinh(1 / math.sqrt(2 * variance))
