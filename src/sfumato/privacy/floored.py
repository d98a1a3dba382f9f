"""Laplace noise rounded down to a whole number, sampled exactly.

floor(Laplace(b)) is z >= 0 with probability (1 - e^-rate) e^(-rate z) / 2 and -1 - z with the same, rate = 1 / b: a
fair coin, then a geometric number. Adding it to an integer is the Laplace mechanism followed by rounding down, so it
is epsilon-DP for rate epsilon / l1; directly, the probabilities of neighbouring integers differ by exp(rate) at most.

Mean -1/2, variance 2 e^-rate / (1 - e^-rate)^2 + 1/4: that of the discrete Laplace law of the rate, and a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.noise import DiscreteLaplace, geometric


@dataclass(frozen=True)
class FlooredLaplace:
    """Integer noise with the law of floor(Laplace(1 / rate)).

    Parameters
    ----------
    rate
        Epsilon divided by the l1 sensitivity, as for `DiscreteLaplace`.

    Examples
    --------
    >>> FlooredLaplace(Fraction(1, 10)).sample(SecureBits.seeded(7), 5).dtype
    dtype('int64')
    """

    rate: Fraction
    name: ClassVar[str] = "floored-laplace"

    def __post_init__(self) -> None:
        DiscreteLaplace(self.rate)  # refuses what cannot be sampled

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

    def to_document(self) -> dict[str, Any]:
        """Return the law as JSON-safe values."""
        return {"law": self.name, "rate": f"{self.rate.numerator}/{self.rate.denominator}"}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> FlooredLaplace:
        """Read what `to_document` wrote."""
        rate = DiscreteLaplace.from_document({**document, "law": DiscreteLaplace.name}).rate
        return cls(rate)
