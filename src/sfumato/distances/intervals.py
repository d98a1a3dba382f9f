"""Numbers of records in intervals of a column, read off a release of l1 distances (post-processing: it costs nothing).

The sum of distances f(y) has the slope (records below y) - (records above y), so half of the slope's change from a to
b is the number of records between them. Hats: below level L the structure's f is linear within a cell, and its slope
there is that of the exact f on average over the cell. Level l adds noise of variance V / S_l^2 to a slope, which grows
with l, and the average over a cell misses the count at an end within it by at most half of the cell's records, by 1 /
sqrt(12) of them typically. The level with the least sum of squared noise and miss is used, for records spread evenly.
Structures that hold counts as such (`HoldsCounts`) say them by themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sfumato.distances.columns import HoldsCounts
from sfumato.distances.hat import HatQuantizer
from sfumato.errors import InputError
from sfumato.quantizers.base import Floats
from sfumato.release import Release

MISS = 12**-0.5


def interval_counts(release: Release, lower: ArrayLike, upper: ArrayLike, column: int = 0) -> tuple[Floats, Floats]:
    """Estimate how many records lie between pairs of values in one column.

    Parameters
    ----------
    release : Release
        Of `hat`, `hat-gaussian`, `tree-published` or `tree-consistent`, not for l2.
    lower, upper : array-like
        The ends of the intervals.
    column : int
        The column.

    Returns
    -------
    counts, standard errors : ndarray

    Examples
    --------
    >>> from sfumato.distances import PrivateDistance
    >>> ages = np.random.default_rng(0).integers(18, 78, size=(5000, 1))
    >>> model = PrivateDistance("l1", epsilon=1, bounds=(18, 78), n_hint=5000, random_state=1).fit(ages)
    >>> counts, errors = interval_counts(model.release_, [18, 48], [48, 78])
    >>> bool(np.all(np.abs(counts - 2500) < 5 * errors)), bool(errors.max() < 250)
    (True, True)
    """
    ends = [np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (lower, upper)]
    if ends[0].shape != ends[1].shape or ends[0].ndim != 1 or not np.isfinite(ends).all():
        raise InputError("lower and upper must be equally many finite numbers")
    if (ends[0] > ends[1]).any():
        raise InputError("the lower end of an interval must not be above its upper end")
    quantizer = release.reader
    if not isinstance(column, int | np.integer) or not 0 <= column < release.dimension:
        raise InputError(f"column must be a whole number from 0 to {release.dimension - 1}, got {column!r}")
    sums, noise = release.values.astype(np.float64), release.noise.variance
    if isinstance(quantizer, HatQuantizer):
        return _from_hats(quantizer, sums, noise, release.count.value, ends, column)
    if isinstance(quantizer, HoldsCounts):
        return quantizer.counts_between(sums, noise, ends, column)
    raise InputError(f"releases of {release.method} for {release.kernel!r} do not hold counts of single columns")


def _from_hats(
    hats: HatQuantizer, sums: Floats, noise: float, records: int, ends: list[Floats], column: int
) -> tuple[Floats, Floats]:
    own, scales = sums[hats.part(column)], hats.scales[column].astype(np.float64)
    levels = _best_level(hats, scales, noise, records)
    weights = np.zeros((len(ends[0]), hats.column_size))
    for sign, end in zip((-1.0, 1.0), ends, strict=True):
        y = hats.relative(end, column)
        beyond = np.where(y < 0, 0.0, np.where(y > 1, 1.0, np.nan))
        weights += sign * _below(hats, scales, np.clip(y, 0.0, 1.0), beyond, levels)
    missed = MISS * records / (hats.bins << levels)
    return weights @ own, np.sqrt(noise * np.square(weights).sum(axis=1) + 2 * missed**2)


def _best_level(hats: HatQuantizer, scales: Floats, noise: float, records: int) -> int:
    """Return the number of levels with the least error of one end."""
    added = np.concatenate([[0.0], np.cumsum(noise / (4 * scales[1:] ** 2))])
    misses = MISS * records / (hats.bins * 2.0 ** np.arange(hats.levels + 1))
    return int(np.argmin(added + misses**2))


def _below(hats: HatQuantizer, scales: Floats, y: Floats, beyond: Floats, levels: int) -> Floats:
    """Weights of a column's sums in the number of records below y, half of the slope plus all of them."""
    result = np.zeros((len(y), hats.column_size))
    nodes = np.arange(hats.bins + 1) / hats.bins
    cell = np.minimum(np.floor(y * hats.bins), hats.bins - 1)
    # The slope of |y - node| within the bin that holds y.
    inside = np.where(nodes[None] * hats.bins <= cell[:, None] + 0.25, 1.0, 0.0)
    result[:, : hats.bins + 1] = np.where(np.isnan(beyond)[:, None], inside, beyond[:, None]) / scales[0]
    for level in range(levels):
        cells = hats.bins << level
        place = np.minimum(np.floor(y * cells), cells - 1).astype(np.int64)
        slope = np.where(y * cells - place < 0.5, -0.5, 0.5)  # minus the hat rises, then falls; half of the slope
        result[np.arange(len(y)), 1 + cells + place] = np.where(np.isnan(beyond), slope, 0.0) / scales[1 + level]
    return result
