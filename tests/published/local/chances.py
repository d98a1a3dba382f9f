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
    """Whether two tables of counts may come from one law."""
    table = np.array([np.ravel(first), np.ravel(second)], dtype=float)
    common = table.sum(axis=0) >= 10
    table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return bool(table.shape[1] < 2 or chi2_contingency(table)[1] > FALSE_ALARM)
