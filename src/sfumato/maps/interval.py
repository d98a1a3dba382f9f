"""Intervals around noisy answers, and an estimate that carries one.

Answers are weighted sums of independent noise, so their law lies between the normal one (many weights of one size) and
the Laplace one (a single weight under Laplace noise). `deviations` takes the wider of the two, so an interval holds
the truth with at least the stated probability, give or take the error of the estimated standard error itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import norm

from sfumato.errors import InputError

LEVEL = 0.95


def deviations(level: float = LEVEL) -> float:
    """Half the width of an interval in standard errors, wide enough for normal and for Laplace noise.

    Examples
    --------
    >>> round(deviations(0.95), 3), round(deviations(0.5), 3)
    (2.118, 0.674)
    """
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.95; got {level!r}")
    return max(float(norm.ppf((1 + level) / 2)), -math.log1p(-level) / math.sqrt(2))


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error; not clipped, so that differences stay unbiased.

    Attributes
    ----------
    value, std : float
        The estimate and its standard error.
    level : float
        Probability with which the interval holds the truth.

    Examples
    --------
    >>> before, after = Estimate(1000.0, 30.0), Estimate(1200.0, 40.0)
    >>> print(after - before)
    200 +- 50 (95 %: 94 to 306)
    """

    value: float
    std: float
    level: float = LEVEL

    @property
    def lower(self) -> float:
        """Lower end of the interval."""
        return self.value - deviations(self.level) * self.std

    @property
    def upper(self) -> float:
        """Upper end of the interval."""
        return self.value + deviations(self.level) * self.std

    def __sub__(self, other: Estimate) -> Estimate:
        """Difference of estimates from two releases: their noises are independent, so the variances add."""
        return Estimate(self.value - other.value, math.hypot(self.std, other.std), max(self.level, other.level))

    def __str__(self) -> str:
        return f"{self.value:,.0f} +- {self.std:,.0f} ({100 * self.level:g} %: {self.lower:,.0f} to {self.upper:,.0f})"
