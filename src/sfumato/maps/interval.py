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

A linear release of more sums than can be drawn many times, or whose participants added the noise, takes the union
bound (Bonferroni), which is wider.

**Cutoffs of maps.** A map asks of thousands of cells at once whether anybody is there. At two standard errors each,
empty parts would show islands. `family_cutoff` is the number of standard errors that noise alone exceeds anywhere on
the map in at most one map of twenty: the union bound over places half a bandwidth apart (answers in between hardly
differ), with the tail of the noise's own law: for Laplace noise the Chernoff bound of its weighted sum, whose moment
generating function is known, for other laws the normal tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from sfumato.errors import InputError
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.codec import brief
from sfumato.quantizers.answer import Floats
from sfumato.quantizers.base import LinearReader
from sfumato.release import Release
from sfumato.release.release import Count

LEVEL = 0.95


def deviations(level: float = LEVEL) -> float:
    """Half the width of an interval in standard errors, wide enough for normal and for Laplace noise.

    Examples
    --------
    >>> round(deviations(0.95), 3), round(deviations(0.5), 3)
    (2.118, 0.674)
    """
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.95; got {brief(level)}")
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
    share : bool
        Whether it is a share of all records, and not a number of them.

    Examples
    --------
    >>> before, after = Estimate(1000.0, 30.0), Estimate(1200.0, 40.0)
    >>> print(after - before)
    200 +- 50 (95 %: 94 to 306)
    """

    value: float
    std: float
    level: float = LEVEL
    share: bool = False

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
        alike(self.share, other.share)
        spread = math.hypot(self.std, other.std)
        return Estimate(self.value - other.value, spread, max(self.level, other.level), self.share)

    def shared(self, count: Count) -> Estimate:
        """Return the same as a share of all records, the published count's error included."""
        return Estimate(*share_of(self.value, self.std, count), self.level, share=True)

    def __str__(self) -> str:
        value, std, lower, upper = (
            number_text(number, self.share) for number in (self.value, self.std, self.lower, self.upper)
        )
        return f"{value} +- {std} ({100 * self.level:g} %: {lower} to {upper})"


def alike(first: bool, second: bool) -> None:
    """Refuse to subtract a number from a share."""
    if first != second:
        raise InputError("a share and a number of records cannot be subtracted: make both shares, or neither")


def share_of(value: float, std: float, count: Count) -> tuple[float, float]:
    """Divide a number of records by all of them; errors that go together are counted as if they did not.

    Examples
    --------
    >>> share_of(50.0, 3.0, Count(100, 16.0, public=False))
    (0.5, 0.03605551275463989)
    """
    share = value / count.value
    return share, math.hypot(std, share * math.sqrt(count.variance)) / count.value


def number_text(number: float, share: bool) -> str:
    """Show a number of records, or a share of them."""
    return f"{100 * number:.2f} %" if share else f"{number:,.0f}"


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


def simultaneous_band(
    releases: tuple[Release, ...],
    points: Floats,
    answers: Sequence[Floats],
    std: Floats,
    level: float = LEVEL,
    totals: bool = False,
) -> Band:
    """Find the band of one release, or of the difference of two, at the drawn points.

    Parameters
    ----------
    releases : tuple of Release
        One release, or two whose difference is drawn.
    points : ndarray, shape (points, dimension)
        Where the curve is drawn.
    answers : sequence of ndarray
        Each release's answers there.
    std : ndarray, shape (points,)
        Standard errors there.
    level : float
        Probability that the band holds the truth at all of the points.
    totals : bool
        Whether sums are drawn, in which the count plays no part, and not means.
    """
    paths = [
        _error_paths(*pair, points, SEED + index, totals)
        for index, pair in enumerate(zip(releases, answers, strict=True))
    ]
    if any(path is None for path in paths):
        pointwise = 1 - (1 - level) / len(points)
        return Band(deviations(pointwise), level, f"union bound over {len(points)} points")
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.nan_to_num(np.abs(sum(path for path in paths if path is not None)) / std).max(axis=1)
    multiplier = float(np.quantile(largest, level, method="higher"))
    return Band(multiplier, level, f"largest error over {len(points)} points, simulated")


def _error_paths(release: Release, answers: Floats, points: Floats, seed: int, totals: bool) -> Floats | None:
    """Errors of the answers at all points, drawn DRAWS times: shape (DRAWS, points); None where that takes long."""
    sums = release.values.astype(np.float64)
    paths = release.reader.error_paths(points, sums, release.noise, release.groups, DRAWS, seed)
    if paths is None:
        return None
    if totals:
        return paths
    scale = math.sqrt(release.count.variance)
    count = scale * np.random.default_rng([seed, 1]).standard_normal((DRAWS, 1))
    return np.asarray((paths + count * answers) / release.count.value)


FAMILY = 0.05
PROBED = 4  # places whose weights stand for all
MOST_PROBED = 1 << 20  # sums of a release that is probed
STEEPNESS = 200  # tilts that the Chernoff bound is searched over


def family_cutoff(release: Release, points: Floats, places: int, *, signed: bool = False) -> float:
    """Return how many standard errors noise alone exceeds at any of so many places with a probability of at most 5 %.

    Parameters
    ----------
    release : Release
        What is drawn.
    points : ndarray
        Where, as the reader is asked.
    places : int
        How many of the places can differ from one another.
    signed : bool
        Whether noise below zero counts as well.
    """
    chance = FAMILY / (places * (2 if signed else 1))
    normal = float(norm.isf(chance))
    reader = release.reader
    if not isinstance(release.noise, DiscreteLaplace) or not isinstance(reader, LinearReader):
        return normal
    if reader.size > MOST_PROBED or not reader.fixed_weights:
        return max(normal, -math.log(2 * chance) / math.sqrt(2))
    chosen = points[np.linspace(0, len(points) - 1, PROBED).astype(np.intp)]
    return max(normal, *(_laplace_cutoff(weights, chance) for weights in reader.weights(chosen)))


def _laplace_cutoff(weights: Floats, chance: float) -> float:
    """Chernoff bound: the least z with min over t of exp(K(t) - t z) <= chance, K of Laplace noise so weighted."""
    length = float(np.sqrt(weights @ weights))
    if length == 0:
        return 0.0
    squares = np.square(weights[np.abs(weights) > 1e-6 * length] / length) / 2
    tilts = np.linspace(0, 1, STEEPNESS + 2)[1:-1] / math.sqrt(float(squares.max()))
    growth = np.array([-float(np.log1p(-(tilt**2) * squares).sum()) for tilt in tilts])
    return float(((growth - math.log(chance)) / tilts).min())
