"""Calibration checks: what a mechanism gives away by its noise law alone, against what it states. Exact; nothing runs.

An attack shows what a mechanism leaks at least, and has to find the leak. A calibration check takes the mechanism as it
is built for a request, searches for the records that move its integers the most, and computes the loss from that change
and from the noise law (`losses`), by code that has no part in choosing the noise. It covers every variant that a
mechanism offers, at the deltas that people use, where no attack could see a tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sfumato.audit.claims import EpsilonClaim
from sfumato.privacy.bits import SecureBits


class Loss(Protocol):
    """What is given away, as a curve."""

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon for a delta."""
        ...


@dataclass(frozen=True)
class CalibrationCase:
    """A mechanism in one variant, and what the noise gives away about the worst records that were found.

    Attributes
    ----------
    name : str
        The variant.
    claim : EpsilonClaim
        What the mechanism states.
    reveal : callable
        Returns what is given away, and how many changes were looked at.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.audit.losses import Revealed
    >>> case = CalibrationCase("a count", EpsilonClaim(0.5), lambda: (Revealed(pure=Fraction(1, 2)), 1))
    >>> case.measure(1, SecureBits(), 0.99)
    (0.5, 1)
    """

    name: str
    claim: EpsilonClaim
    reveal: Callable[[], tuple[Loss, int]]

    def measure(self, trials: int, bits: SecureBits, confidence: float) -> tuple[float, int]:
        """Return the loss and the number of changes looked at; nothing is sampled."""
        found, looked = self.reveal()
        return found.epsilon(self.claim.delta), looked
