"""Warnings about what scikit-learn makes easy and privacy makes dear: cross-validation, and scores of private points.

Every fit spends epsilon, and a clone does not know of the others: without a ledger nothing adds them up. A score of
points that nobody released is a fact about them that no guarantee covers.
"""

from __future__ import annotations

import sys
import warnings

from sfumato.errors import UnpaidWarning

INSTEAD = "sfumato.bandwidth.search compares candidates under one guarantee (docs/bandwidth.md)"


def warn_of_validation() -> None:
    """Warn if scikit-learn's model selection called this fit."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
            warnings.warn(
                "cross-validation fits once for every candidate and fold, and each fit spends epsilon: the total is "
                "epsilon times the number of fits, not the epsilon that a model states, and the fold scores are "
                f"computed from private points. Pass ledger=, which adds up; {INSTEAD}",
                UnpaidWarning,
                stacklevel=3,
            )
            return
        frame = frame.f_back  # type: ignore[assignment]


def warn_of_score() -> None:
    """Warn that a score tells about the points that it is computed from."""
    warnings.warn(
        "a score is computed from the points that are passed: of private points it is a leak that no epsilon pays for, "
        f"and choosing by it spends more than is stated. Pass public points only; {INSTEAD}",
        UnpaidWarning,
        stacklevel=3,
    )
