"""Intervals around noisy answers, and an estimate that carries one.

Answers are weighted sums of independent noise, so their law lies between the normal one (many weights of one size) and
the Laplace one (a single weight under Laplace noise). `deviations` takes the wider of the two, so an interval holds
the truth with at least the stated probability, give or take the error of the estimated standard error itself.

**Bands.** A band around a curve that holds the whole curve at once, with a stated probability.

A pointwise interval fails somewhere along a curve more often than at one point. The band is `multiplier` standard
errors wide on either side, with the multiplier chosen so that the largest standardised error over the drawn points
stays below it with probability `level`. That largest error is simulated from what is public, which costs no privacy:

- linear releases: noise is drawn again from its published law and read with the same weights, so the law is exact;
- Monte Carlo releases: the centred terms are multiplied by independent normal numbers (the multiplier bootstrap),
  which reproduces the covariance of the answers at all points;
- either way the count's error moves the whole curve up or down together.

A linear release of more sums than can be drawn many times takes the union bound (Bonferroni), which is wider.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from sfumato.errors import InputError
from sfumato.quantizers.answer import Floats
from sfumato.release import Release

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


DRAWS = 1000
SEED = 20_240_601  # the simulation is public and the same each time


@dataclass(frozen=True)
class Band:
    """Half-width of a simultaneous band in standard errors, its probability, and how it was found."""

    multiplier: float
    level: float
    how: str

    def __str__(self) -> str:
        return f"simultaneous {100 * self.level:g} % band: {self.multiplier:.2f} standard errors ({self.how})"


def simultaneous_band(releases: tuple[Release, ...], points: Floats, std: Floats, level: float = LEVEL) -> Band:
    """Find the band of one release, or of the difference of two, at the drawn points.

    Parameters
    ----------
    releases : tuple of Release
        One release, or two whose difference is drawn.
    points : ndarray, shape (points, dimension)
        Where the curve is drawn.
    std : ndarray, shape (points,)
        Standard errors there.
    level : float
        Probability that the band holds the truth at all of the points.
    """
    paths = [_error_paths(release, points, SEED + index) for index, release in enumerate(releases)]
    if any(path is None for path in paths):
        pointwise = 1 - (1 - level) / len(points)
        return Band(deviations(pointwise), level, f"union bound over {len(points)} points")
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.nan_to_num(np.abs(sum(path for path in paths if path is not None)) / std).max(axis=1)
    multiplier = float(np.quantile(largest, level, method="higher"))
    return Band(multiplier, level, f"largest error over {len(points)} points, simulated")


def _error_paths(release: Release, points: Floats, seed: int) -> Floats | None:
    """Errors of the answers at all points, drawn DRAWS times: shape (DRAWS, points); None where that takes long."""
    sums = release.values.astype(np.float64)
    paths = release.reader.error_paths(points, sums, release.noise, release.groups, DRAWS, seed)
    if paths is None:
        return None
    scale = math.sqrt(release.count.variance)
    count = np.random.default_rng([seed, 1]).normal(scale=scale, size=(DRAWS, 1))
    return np.asarray((paths + count * release.query(points)) / release.count.value)
