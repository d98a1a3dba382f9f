"""A band around a curve that holds the whole curve at once, with a stated probability.

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

from sfumato.maps.interval import LEVEL, deviations
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Floats, LinearQuantizer
from sfumato.release import Release

DRAWS = 1000
MOST_DRAWN = 1 << 23  # noise integers in all: a second or two
BLOCK_NUMBERS = 1 << 22
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
    if any(not _can_be_drawn(release) for release in releases):
        pointwise = 1 - (1 - level) / len(points)
        return Band(deviations(pointwise), level, f"union bound over {len(points)} points")
    paths = sum(_error_paths(release, points, SEED + index) for index, release in enumerate(releases))
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.nan_to_num(np.abs(paths) / std).max(axis=1)
    multiplier = float(np.quantile(largest, level, method="higher"))
    return Band(multiplier, level, f"largest error over {len(points)} points, simulated")


def _can_be_drawn(release: Release) -> bool:
    return not isinstance(release.quantizer, LinearQuantizer) or release.quantizer.size * DRAWS <= MOST_DRAWN


def _error_paths(release: Release, points: Floats, seed: int) -> Floats:
    """Errors of the answers at all points, drawn DRAWS times: shape (DRAWS, points)."""
    generator = np.random.default_rng(seed)
    linear = isinstance(release.quantizer, LinearQuantizer)
    paths = _linear_paths(release, points, seed) if linear else _montecarlo_paths(release, points, generator)
    count = generator.normal(scale=math.sqrt(release.count.variance), size=(DRAWS, 1))
    return np.asarray((paths + count * release.query(points)) / release.count.value)


def _linear_paths(release: Release, points: Floats, seed: int) -> Floats:
    quantizer, bits = release.quantizer, SecureBits.seeded(seed)
    noise = np.array([release.noise.sample(bits, quantizer.size) for _ in range(DRAWS)], dtype=np.float64)
    paths = np.empty((DRAWS, len(points)))
    block = max(1, BLOCK_NUMBERS // quantizer.size)
    for start in range(0, len(points), block):
        paths[:, start : start + block] = noise @ quantizer.weights(points[start : start + block]).T
    return paths


def _montecarlo_paths(release: Release, points: Floats, generator: np.random.Generator) -> Floats:
    quantizer, sums = release.quantizer, release.values.astype(np.float64)
    multipliers = generator.normal(size=(DRAWS, quantizer.terms))
    if release.groups > 1:  # a median of means has about pi/2 times the variance of a mean
        multipliers *= math.sqrt(math.pi / 2)
    paths = np.empty((DRAWS, len(points)))
    block = max(1, BLOCK_NUMBERS // quantizer.terms)
    for start in range(0, len(points), block):
        terms = quantizer.term_values(points[start : start + block], sums)
        terms -= terms.mean(axis=1, keepdims=True)
        paths[:, start : start + block] = multipliers @ terms.T / quantizer.terms
    return paths
