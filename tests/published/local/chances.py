"""Goodness of fit with a false-alarm rate of one in a million."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, chi2_contingency, chisquare

FALSE_ALARM = 1e-6
# Of fewer than these, chi-square is not the law of what is found far out.
LEAST = 25


def fits(counts: ArrayLike, probabilities: ArrayLike) -> bool:
    """Whether counts are likely under a law: chi-square of what is expected often, exact tails of the rest together.

    By chi-square one outcome of which a hundredth was expected would be an alarm, and no rare one.

    Examples
    --------
    >>> fits([1498, 2], [0.999, 0.001]), fits([1400, 100], [0.999, 0.001]), fits([90, 1], [1.0, 0.0])
    (True, False, False)
    """
    observed, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    rare = expected < LEAST
    found, all_counts, chance = observed[rare].sum(), observed.sum(), min(expected[rare].sum() / expected.sum(), 1.0)
    if min(binom.cdf(found, all_counts, chance), binom.sf(found - 1, all_counts, chance)) < FALSE_ALARM:
        return False
    observed, expected = observed[~rare], expected[~rare]
    if len(observed) < 2:
        return True
    return bool(chisquare(observed, expected * (observed.sum() / expected.sum())).pvalue > FALSE_ALARM)


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
