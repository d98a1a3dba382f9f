"""Protocols of messages +1 and -1 whose noise is a discrete Laplace law's, hidden under pairs that cancel.

A user sends shares of two geometric counts with parameter e^-a, N1 of +1 and N2 of -1, and a share of a negative
binomial flood N3 of pairs; together they have probability c e^(-a |A - B|) H(min(A, B)) with H(k) = e^-2a H(k - 1) +
Pr[N3 = k]. The bits of the others only shift or convolve the view.

`3nb`. Source: the correlated-noise protocol of B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh, ICML 2020. A user with bit b
sends b + N1 + N3 messages +1 and N2 + N3 messages -1.
Guarantee: calibrated on the exact law of the view (A, B) = (b + N1 + N3, N2 + N3). It has probability
(1 - e^-a)^2 e^(-a |A - B|) H(min(A, B)) if b = 0; hence the loss ln(P0 / P1) is -a wherever A > B, and
a + ln(H(A) / H(A - 1)) wherever A <= B: a law on a line. Without N3 an empty A would prove that b is 0.
Variance of the sum: 2 e^-a / (1 - e^-a)^2; the flood costs messages, not error.

`pure`: a guarantee of delta = 0, at the price of very many messages.
Source: B. Ghazi, R. Kumar, P. Manurangsi, "Pure-DP Aggregation in the Shuffle Model", 2023, with its parameters
e' = e - 0.01 rho min(e, 1) and q = 0.2 rho / (e^e (1 - e^-e)^2 n), rho in (0, 1/2]. A user with bit b sends, unless a
coin of probability q says no, s + b messages +1 and s messages -1, and always shares of noise of rate e' and of the
flood. Each instance is e-differentially private; instances add up.
Guarantee: for the flood's probabilities f(j) it suffices that for every j >= 0
    (1 - q) (f(j) - e^(e - e') f(j - 1)) <= (e^e - 1) q f(j + s).
Proof. The others' messages only convolve both laws with the same one, N that of noise and flood together. So it is
enough that V0 <= e^e V1 and V1 <= e^e V0 for Vb(A, B) = q N(A, B) + (1 - q) N(A - s - b, B - s). As H(a) >= e^-2e' H(a
- 1), N(A - 1, B) <= e^e' N(A, B) always, which gives the second. For the first, N(A, B) <= e^e' N(A - 1, B) where A >
B; where A <= B = A + d all terms have the factor c e^(-e' d), and what is left is (1 - q) (H(A) - e^(e - e') H(A - 1))
<= (e^e - 1) q H(A + s): the sum of the condition above with weights e^(-2 e' i) over j = A - i, i = 0, ..., A. A
negative binomial f of integer shape is log-concave, so that both sides over f(j) fall with j, and checking a left side
at one j against a right side at a later one checks all in between.

Variance of the sum: (2 e^-e' / (1 - e^-e')^2 + q (1 - q) (sum of the bits)) / (1 - q)^2, for the estimate
(A - B) / (1 - q).
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
from sfumato.public.codec import Schema
from sfumato.shuffled.bitsum.bit_sum import CHANCE, BitSum, ComposableBitSum, Counts, Digits, Floats
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Pair, curve_of
from sfumato.shuffled.bitsum.shares import binomial, checked_rates, coins, negative_binomial
from sfumato.shuffled.bitsum.unsigned import (
    LARGEST_WINDOW,
    MOST_SHAPE,
    RATE,
    chernoff_window,
    law_from_ratios,
    negative_binomial_exponent,
    negative_binomial_log_moment,
)

_MARGIN = 1e-6  # of the condition of `pure`; its sides are computed to about 1e-12
_NODES = 4000


class _Flooded(BitSum):
    """Noise on either sign and a flood of pairs: what both protocols share."""

    rate: Fraction
    flood_shape: int
    flood_rate: Fraction

    def __post_init__(self) -> None:
        checked_rates(self.rate, self.flood_rate)
        super().__post_init__()

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Counts:
        up, down = (negative_binomial(secure, count, share, self.rate) for _ in range(2))
        flood = negative_binomial(secure, count, share * self.flood_shape, self.flood_rate)
        return Counts(up + flood, down + flood)

    @property
    def flood_mean(self) -> float:
        """Mean number of cancelling pairs of all."""
        return self.flood_shape / math.expm1(float(self.flood_rate))

    @property
    def _noise_messages(self) -> float:
        """Mean number of one user's messages of noise and flood."""
        return 2 * (1 / math.expm1(float(self.rate)) + self.flood_mean) / self.n

    def _noise_exponent(self, tilt: float) -> float:
        """Return ln E[exp(tilt * messages)] of one user's shares of both signs' noise and of the pairs of the flood."""
        signs = negative_binomial_log_moment(tilt, 2 / self.n, float(self.rate))
        return signs + negative_binomial_log_moment(2 * tilt, self.flood_shape / self.n, float(self.flood_rate))

    @property
    def largest_tilt(self) -> float:
        """What the noise or the pairs bear."""
        return min(float(self.rate), float(self.flood_rate) / 2)


@dataclass(frozen=True)
class ThreeNegativeBinomials(_Flooded, ComposableBitSum):
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
    schema: ClassVar[Schema] = Schema(rate=RATE, flood_shape=Digits(MOST_SHAPE), flood_rate=RATE)

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send shares of the noise and the flood, and +1 if the bit is 1."""
        noise = self._noise(bits.size, secure, Fraction(1, self.n))
        return Counts(bits + noise.ones, noise.zeros)

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Add the noise and the flood of all to the sums."""
        noise = self._noise(sums.size, secure, Fraction(1))
        return Counts(sums + noise.ones, noise.zeros)

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return the number of +1 less the number of -1."""
        return np.asarray(counts.ones - counts.zeros, dtype=np.float64)

    @property
    def variance(self) -> float:
        """Variance of the difference of two geometric counts."""
        return geometric_difference_variance(float(self.rate))

    def messages(self, mean_bit: float) -> float:
        """Return the bit, shares of the noise, and two messages for every pair."""
        return mean_bit + self._noise_messages

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of the bit, shares of the noise, and two messages for every pair."""
        return tilt * bit + self._noise_exponent(tilt)

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
        if high - start > LARGEST_WINDOW:
            raise InputError(f"noise of rate {rate:.1g} is more than can be calibrated; take a larger epsilon or delta")
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


@dataclass(frozen=True)
class Pure(_Flooded):
    """Copies of the bit on both signs, geometric noise and a flood of cancelling pairs.

    Parameters
    ----------
    n : int
        Honest participants, at least.
    rate : Fraction
        Of the geometric noise: epsilon'.
    drop : Fraction
        Probability q that a user leaves the bit out.
    copies : int
        Pairs s that hide the bit of a user.
    flood_shape : int
        Shape of the flood of all `n` together.
    flood_rate : Fraction
        Rate of the flood.

    Examples
    --------
    >>> protocol = Pure(1000, Fraction(9, 10), Fraction(1, 1000), 20, 3, Fraction(1, 100))
    >>> counts = protocol.totals(np.array([0, 1000]), SecureBits.seeded(7))
    >>> protocol.estimate(counts).round(2)
    array([ -1., 999.])
    >>> round(protocol.rmse, 2), round(protocol.messages(0.5), 1)
    (1.82, 41.1)
    """

    n: int
    rate: Fraction
    drop: Fraction
    copies: int
    flood_shape: int
    flood_rate: Fraction
    name: ClassVar[str] = "pure"
    schema: ClassVar[Schema] = Schema(
        rate=RATE, drop=CHANCE, copies=Digits(2**50), flood_shape=Digits(4096), flood_rate=RATE
    )

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send the bit among its copies or leave it out, and shares of the noise and the flood."""
        present = 1 - coins(secure, bits.size, self.drop).astype(np.int64)
        noise = self._noise(bits.size, secure, Fraction(1, self.n))
        return Counts(present * (self.copies + bits) + noise.ones, present * self.copies + noise.zeros)

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Leave some bits out and add the noise and the flood of all."""
        kept = sums - binomial(secure, sums, self.drop)
        pairs = self.copies * (kept + (self.n - sums) - binomial(secure, self.n - sums, self.drop))
        noise = self._noise(sums.size, secure, Fraction(1))
        return Counts(pairs + kept + noise.ones, pairs + noise.zeros)

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return (A - B) / (1 - q)."""
        return np.asarray((counts.ones - counts.zeros) / (1 - float(self.drop)), dtype=np.float64)

    @property
    def variance(self) -> float:
        """The variance if all bits are 1."""
        drop = float(self.drop)
        return (geometric_difference_variance(float(self.rate)) + self.n * drop * (1 - drop)) / (1 - drop) ** 2

    def messages(self, mean_bit: float) -> float:
        """Return copies, bit, shares of the noise and of the flood."""
        return (1 - float(self.drop)) * (2 * self.copies + mean_bit) + self._noise_messages

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of copies and bit, which may be left out, and of shares of the noise and the flood."""
        kept, drop = tilt * (2 * self.copies + bit), float(self.drop)
        return kept + math.log1p(drop * math.expm1(-kept)) + self._noise_exponent(tilt)

    def is_private(self, epsilon: Fraction) -> bool:
        """Whether the condition above proves one instance `epsilon`-differentially private."""
        slack = float(epsilon - self.rate)
        if slack <= 0:
            return False
        decay, others = float(self.flood_rate), self.flood_shape - 1.0
        last = math.ceil(others / math.expm1(slack + decay))  # f(j) <= e^slack f(j - 1) after this one
        nodes = np.unique(np.concatenate([np.arange(min(last, 100) + 2), np.linspace(0, last + 1, _NODES).astype(int)]))
        start, end = nodes[:-1], nodes[1:] - 1  # blocks [start, end] that cover 0, ..., last
        left = 1 - math.exp(slack + decay) * start / np.maximum(start + others, 1.0)
        rise = np.log1p(self.copies / np.add.outer(end, np.arange(1, self.flood_shape))).sum(axis=1)
        gain = math.log(math.expm1(float(epsilon)) * float(self.drop / (1 - self.drop)))
        return bool(np.all(np.log(np.maximum(left, 1e-300)) + _MARGIN <= gain + rise - decay * self.copies))


def geometric_difference_variance(rate: float) -> float:
    """Return the variance of the difference of two geometric counts, a discrete Laplace law."""
    return 1 / (2 * math.sinh(rate / 2) ** 2)


def rate_for_difference(variance: float) -> float:
    """Return the rate at which that variance is a given one."""
    return 2 * math.asinh(1 / math.sqrt(2 * variance))
