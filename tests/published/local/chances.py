"""Goodness of fit with a false-alarm rate of one in a million."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, chi2_contingency

FALSE_ALARM = 1e-6
# Of fewer than these, chi-square is not the law of what is found far out.
LEAST = 25


def fits(counts: ArrayLike, probabilities: ArrayLike) -> bool:
    """Whether counts are likely under a law; the rarest outcomes are put together until `LEAST` of them are expected.

    Of a pool in which less than one is expected a single one would be an alarm, and no rare one either.
    """
    observed, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    if observed[expected == 0].any():
        return False
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    pool = max(int((expected < LEAST).sum()), 1 + int(np.searchsorted(np.cumsum(expected), LEAST)))
    observed = np.append(observed[pool:], observed[:pool].sum())
    expected = np.append(expected[pool:], expected[:pool].sum())
    statistic = float((np.square(observed - expected) / expected).sum())
    return bool(chi2.sf(statistic, max(1, len(expected) - 1)) > FALSE_ALARM)


def same_law(first: ArrayLike, second: ArrayLike) -> bool:
    """Whether two tables of counts may come from one law; cells of like size go together as in `fits`, in both."""
    table = np.array([np.ravel(first), np.ravel(second)], dtype=float)
    table = table[:, np.argsort(table.sum(axis=0), kind="stable")]  # totals are given: no test looks at them
    expected = np.cumsum(table.sum(axis=0)) * table.sum(axis=1).min() / table.sum()
    starts, reached = [0], 0.0
    for place, mass in enumerate(expected):
        if mass - reached >= LEAST and expected[-1] - mass >= LEAST:
            starts.append(place + 1)
            reached = mass
    return bool(len(starts) < 2 or chi2_contingency(np.add.reduceat(table, starts, axis=1))[1] > FALSE_ALARM)
