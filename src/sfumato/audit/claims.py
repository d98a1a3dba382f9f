"""What a mechanism claims, and how samples of an attacker's statistic bound it from below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sfumato.audit.estimators import epsilon_lower_bound, mu_lower_bound

Samples = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class EpsilonClaim:
    """The claim of (epsilon, delta)-DP.

    Examples
    --------
    >>> print(EpsilonClaim(0.5), EpsilonClaim(1, 1e-6), sep="; ")
    epsilon 0.5; epsilon 1, delta 1e-06
    """

    epsilon: float
    delta: float = 0.0

    @property
    def value(self) -> float:
        """What the lower bound must not exceed."""
        return self.epsilon

    def lower_bound(self, samples: Samples, confidence: float) -> float:
        """Certified lower bound of epsilon."""
        return epsilon_lower_bound(*samples, self.delta, confidence)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")


@dataclass(frozen=True)
class MuClaim:
    """The claim of mu-Gaussian DP."""

    mu: float

    @property
    def value(self) -> float:
        """What the lower bound must not exceed."""
        return self.mu

    def lower_bound(self, samples: Samples, confidence: float) -> float:
        """Certified lower bound of mu."""
        return mu_lower_bound(*samples, confidence)

    def __str__(self) -> str:
        return f"mu {self.mu:.4g}"
