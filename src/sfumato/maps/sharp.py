"""Sharp counts: how many records are in a region, from the sums of a grid; the interval holds for any records.

A grid release holds, up to noise, T_c = sum over records x of B_c(x) for its splines B_c, which are not negative and
add up to 1 everywhere. So for any coefficients a the released sums estimate sum_x (a.B)(x) without bias, with noise of
variance exactly sigma^2 |a|^2 / s^2 (s what a record's integers sum to). A sharp count is the sum over the records of
the region's indicator 1_R, which no splines equal at its edge. Three sets of coefficients go around it (`brackets`):

    l.B(x) <= 1_R(x) <= u.B(x)  for all x in the bounds, so  l.T <= number of records in R <= u.T

for any records at all; u.T - l.T is the mass of the cells that the edge cuts. With z standard errors of noise on either
side the interval holds the true count with the stated probability. The estimate itself is a.T with a.B the least-
squares approximation of 1_R over the bounds: what it misses is orthogonal to all splines, so records that are spread
smoothly across the edge hardly move it.

Records outside the bounds were clipped to the border, or dropped, as the guarantee says; they count where they were
put, and a region that ends on the border holds what was clipped to it. Columns of one node do not know where their
records are: a region that cuts such a column gets an interval from 0 to everybody. Where coins chose the records
(weights, limits per user), it is the chosen ones that are counted.

Refused: releases that do not hold sums of places (Fourier, lattices, hashes, landmarks: the truncated series of an
indicator is off everywhere, and nothing bounds by how much), grids that are hashed into buckets, and more than three
columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.maps.brackets import Laid
from sfumato.maps.interval import LEVEL, alike, deviations, number_text, share_of
from sfumato.quantizers.grid import GridQuantizer
from sfumato.release import Release
from sfumato.release.release import Count

MOST_COLUMNS = 3


@dataclass(frozen=True)
class Bracket:
    """A number of records between two sums that hold it for any records, each with its noise.

    Attributes
    ----------
    value, std : float
        The estimate, and the standard error of its noise.
    low, high : float
        Released sums that lie below and above the count but for their noise.
    low_std, high_std : float
        Standard errors of these.
    level : float
        Probability with which the interval holds the count.
    share : bool
        Whether these are shares of all records, and not numbers of them.

    Examples
    --------
    >>> print(Bracket(1000.0, 5.0, 900.0, 1120.0, 5.0, 6.0))
    1,000 (95 %: 889 to 1,133, most of it for 220 near the edge)
    """

    value: float
    std: float
    low: float
    high: float
    low_std: float
    high_std: float
    level: float = LEVEL
    share: bool = False

    @property
    def lower(self) -> float:
        """Lower end of the interval."""
        return self.low - deviations(self.level) * self.low_std

    @property
    def upper(self) -> float:
        """Upper end of the interval, which noise alone may make less than nobody."""
        return max(self.high + deviations(self.level) * self.high_std, self.lower)

    @property
    def edge(self) -> float:
        """Records in the cells that the edge cuts, as the sums show it."""
        return self.high - self.low

    def __sub__(self, other: Bracket) -> Bracket:
        """Difference of the counts of two releases, whose noises are independent."""
        alike(self.share, other.share)
        return Bracket(
            self.value - other.value,
            math.hypot(self.std, other.std),
            self.low - other.high,
            self.high - other.low,
            math.hypot(self.low_std, other.high_std),
            math.hypot(self.high_std, other.low_std),
            max(self.level, other.level),
            self.share,
        )

    def shared(self, count: Count) -> Bracket:
        """Return the same as shares of all records, the published count's error included."""
        pairs = ((self.value, self.std), (self.low, self.low_std), (self.high, self.high_std))
        (value, std), (low, low_std), (high, high_std) = (share_of(*pair, count) for pair in pairs)
        return Bracket(value, std, low, high, low_std, high_std, self.level, share=True)

    def __str__(self) -> str:
        value, lower, upper, edge = (
            number_text(number, self.share) for number in (self.value, self.lower, self.upper, self.edge)
        )
        most = f", most of it for {edge} near the edge" if self.edge > (self.upper - self.lower) / 2 else ""
        return f"{value} ({100 * self.level:g} %: {lower} to {upper}{most})"


def sharp_people(release: Release, region: Any, *, level: float = LEVEL) -> Bracket:
    """Estimate how many records are in a region, its edge taken sharply.

    Parameters
    ----------
    release : Release
        By a grid or a histogram of one to three columns.
    region : pairs, or GeoJSON mapping
        As in `people`.
    level : float
        Probability with which the interval holds the number of records in the region, whatever the records are.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(5000, 2))
    >>> release = PrivateKDE(bandwidth=0.5, epsilon=2, n_hint=5000, bounds=(-4, 4)).fit(points).release_
    >>> right = sharp_people(release, [(0, 6), (-6, 6)])
    >>> bool(right.lower < (points[:, 0] > 0).sum() < right.upper)
    True
    """
    deviations(level)
    grid = refuse_sharp(release)
    laid = Laid.on(grid, region)
    if laid is None:
        return Bracket(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, level)
    sums = release.values.reshape(grid.shape)[laid.window].astype(np.float64) / grid.scale
    noise = math.sqrt(release.noise.variance) / grid.scale
    (value, std), (low, low_std), (high, high_std) = (
        (float((coefficients * sums).sum()), noise * float(np.sqrt(np.square(coefficients).sum())))
        for coefficients in (laid.fitted, laid.below, laid.above)
    )
    return Bracket(value, std, low, high, low_std, high_std, level)


def refuse_sharp(release: Release) -> GridQuantizer:
    """Return the grid of a release that can count sharply, or say why it cannot."""
    grid = release.reader
    if not isinstance(grid, GridQuantizer):
        raise InputError(
            f"a sharp count needs sums that belong to places, which the method {release.method!r} does not release: "
            "release with method='grid', or take the smoothed count"
        )
    if grid.buckets is not None:
        raise InputError("this grid is hashed into buckets, which do not tell places apart; take the smoothed count")
    if release.dimension > MOST_COLUMNS:
        raise InputError(f"sharp counts are for at most {MOST_COLUMNS} columns and the release has {release.dimension}")
    return grid
