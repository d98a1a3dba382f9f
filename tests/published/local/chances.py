"""Goodness of fit with a false-alarm rate of one in a million."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, chi2_contingency

FALSE_ALARM = 1e-6


def fits(counts: ArrayLike, probabilities: ArrayLike) -> bool:
    """Whether counts are likely under a law; rare outcomes are put together."""
    observed, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0
    if observed[~kept].any():
        return False
    statistic = float((np.square(observed - expected)[kept] / expected[kept]).sum())
    return bool(chi2.sf(statistic, max(1, kept.sum() - 1)) > FALSE_ALARM)


def same_law(first: ArrayLike, second: ArrayLike) -> bool:
    """Whether two tables of counts may come from one law."""
    table = np.array([np.ravel(first), np.ravel(second)], dtype=float)
    common = table.sum(axis=0) >= 10
    table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return bool(table.shape[1] < 2 or chi2_contingency(table)[1] > FALSE_ALARM)
