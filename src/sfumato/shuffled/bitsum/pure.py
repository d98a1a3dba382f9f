"""`pure`: messages +1 and -1 with a guarantee of delta = 0, at the price of very many messages.

Source: B. Ghazi, R. Kumar, P. Manurangsi, "Pure-DP Aggregation in the Shuffle Model", 2023, with its parameters
e' = e - 0.01 rho min(e, 1) and q = 0.2 rho / (e^e (1 - e^-e)^2 n), rho in (0, 1/2]. A user with bit b sends, unless a
coin of probability q says no, s + b messages +1 and s messages -1, and always shares of two geometric counts with
parameter e^-e' and of a flood of pairs of +1 and -1. Each instance is e-differentially private; instances add up.

Guarantee: for the flood's probabilities f(j) it suffices that for every j >= 0
    (1 - q) (f(j) - e^(e - e') f(j - 1)) <= (e^e - 1) q f(j + s).
Proof. Noise and flood together have probability c e^(-e' |A - B|) H(min(A, B)), H(a) = e^-2e' H(a - 1) + f(a), and the
others' messages only convolve both laws with the same one. So it is enough that V0 <= e^e V1 and V1 <= e^e V0 for
Vb(A, B) = q N(A, B) + (1 - q) N(A - s - b, B - s). As H(a) >= e^-2e' H(a - 1), N(A - 1, B) <= e^e' N(A, B) always,
which gives the second. For the first, N(A, B) <= e^e' N(A - 1, B) where A > B; where A <= B = A + d all terms have the
factor c e^(-e' d), and what is left is (1 - q) (H(A) - e^(e - e') H(A - 1)) <= (e^e - 1) q H(A + s): the sum of the
condition above with weights e^(-2 e' i) over j = A - i, i = 0, ..., A. A negative binomial f of integer shape is
log-concave, so that both sides over f(j) fall with j, and checking a left side at one j against a right side at a later
one checks all in between.

Variance of the sum: (2 e^-e' / (1 - e^-e')^2 + q (1 - q) (sum of the bits)) / (1 - q)^2, for the estimate
(A - B) / (1 - q).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.shuffled.bitsum.protocol import BitSum, Counts, Floats, checked_participants
from sfumato.shuffled.bitsum.shares import binomial, checked_rates, coins, negative_binomial
from sfumato.shuffled.bitsum.three_nb import geometric_difference_variance, signed_noise_exponent

_MARGIN = 1e-6  # of the condition; its sides are computed to about 1e-12
_NODES = 4000


@dataclass(frozen=True)
class Pure(BitSum):
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

    def __post_init__(self) -> None:
        checked_participants(self.n)
        if not 0 < self.drop < 1:
            raise InputError(f"The probability of leaving a bit out must lie above 0 and below 1; got {self.drop}.")
        checked_rates(self.rate, self.flood_rate)
        if min(self.copies, self.flood_shape) < 1:
            raise InputError("The number of copies and the shape of the flood must be positive.")

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

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Counts:
        up, down = (negative_binomial(secure, count, share, self.rate) for _ in range(2))
        flood = negative_binomial(secure, count, share * self.flood_shape, self.flood_rate)
        return Counts(up + flood, down + flood)

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return (A - B) / (1 - q)."""
        return np.asarray((counts.ones - counts.zeros) / (1 - float(self.drop)), dtype=np.float64)

    @property
    def variance(self) -> float:
        """The variance if all bits are 1."""
        drop = float(self.drop)
        return (geometric_difference_variance(float(self.rate)) + self.n * drop * (1 - drop)) / (1 - drop) ** 2

    @property
    def flood_mean(self) -> float:
        """Mean number of flooding pairs of all."""
        return self.flood_shape / math.expm1(float(self.flood_rate))

    def messages(self, mean_bit: float) -> float:
        """Return copies, bit, shares of the noise and of the flood."""
        kept = (1 - float(self.drop)) * (2 * self.copies + mean_bit)
        return kept + 2 * (1 / math.expm1(float(self.rate)) + self.flood_mean) / self.n

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of copies and bit, which may be left out, and of shares of the noise and the flood."""
        kept, drop = tilt * (2 * self.copies + bit), float(self.drop)
        noise = signed_noise_exponent(tilt, self.n, self.rate, self.flood_shape, self.flood_rate)
        return kept + math.log1p(drop * math.expm1(-kept)) + noise

    @property
    def largest_tilt(self) -> float:
        """What the noise or the flood bears."""
        return min(float(self.rate), float(self.flood_rate) / 2)

    @property
    def parameters(self) -> dict[str, Fraction | int]:
        """All that defines the protocol besides `n`."""
        return {
            "rate": self.rate,
            "drop": self.drop,
            "copies": self.copies,
            "flood_shape": self.flood_shape,
            "flood_rate": self.flood_rate,
        }

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
