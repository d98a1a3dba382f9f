"""`poisson`: a user sends a message if the bit is 1, and a Poisson number of noise messages that look the same.

Source: the single-distribution protocol of B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh, ICML 2020.
Guarantee: calibrated on the exact laws of N and N + 1, N Poisson; the bits of the others only shift the view.
Variance of the sum: the total mean of the noise, so that a user sends variance / n noise messages per instance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.shuffled.bitsum.added_noise import chernoff_window, poisson_exponent, shifted_pair
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, curve_of
from sfumato.shuffled.bitsum.protocol import ComposableBitSum, Counts, Floats, checked_participants
from sfumato.shuffled.bitsum.shares import poisson


@dataclass(frozen=True)
class PoissonNoise(ComposableBitSum):
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
    message_bits: ClassVar[int] = 0

    def __post_init__(self) -> None:
        checked_participants(self.n)
        if not self.mean > 0:
            raise InputError(f"The mean of the noise must be positive; got {self.mean}.")

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send the bit as a message or none, and a share of the noise."""
        noise = poisson(secure, bits.size, self.mean / self.n)
        return Counts(bits + noise, np.zeros_like(noise))

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Add the noise of all to the sums."""
        noise = poisson(secure, sums.size, self.mean)
        return Counts(sums + noise, np.zeros_like(noise))

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Subtract the mean of the noise."""
        return np.asarray(counts.ones - float(self.mean) * ((participants or self.n) / self.n), dtype=np.float64)

    @property
    def variance(self) -> float:
        """The mean of the noise."""
        return float(self.mean)

    def messages(self, mean_bit: float) -> float:
        """Return the bit and a share of the noise."""
        return mean_bit + float(self.mean) / self.n

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of the bit and a share of the noise."""
        return tilt * bit + float(self.mean) / self.n * math.expm1(tilt)

    @property
    def parameters(self) -> dict[str, Fraction | int]:
        """The mean of the noise."""
        return {"mean": self.mean}

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve of N against N + 1."""
        mean = float(self.mean)
        low, high = chernoff_window(mean, lambda x: poisson_exponent(x, mean), accuracy.tail)
        pair = shifted_pair(low, high, lambda values: np.log(mean / values), accuracy.tail)
        return curve_of([pair], pair.deviation / accuracy.steps, pair.largest_loss)
