"""Who pays for a fit: the account that a ledger has for the data, and warnings where nobody pays.

scikit-learn makes easy what privacy makes dear, cross-validation and scores of private points. Every fit spends
epsilon, and a clone does not know of the others: without a ledger nothing adds them up. A score of points that nobody
released is a fact about them that no guarantee covers.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from sfumato.errors import InputError, UnpaidWarning
from sfumato.privacy.datasets import account_among
from sfumato.privacy.ledger import Account, Ledger

Payer = Account | Ledger | str | os.PathLike[str] | None
# One account for all data that no file names: who shares it may be charged too much, and never too little.
IN_MEMORY = "data in memory"
INSTEAD = "sfumato.bandwidth.search compares candidates under one guarantee (docs/bandwidth.md)"


def account_of(payer: Payer, data: Any) -> Account | None:
    """Account that a release of `data` is charged to.

    Parameters
    ----------
    payer : Account, Ledger, path or None
        An account is taken as it is. A ledger, or its path, has one for each file, as on the command line, and one for
        all data in memory, which is told apart by nothing: name it with ``Ledger(path).account(name)``.
    data : any
        What is released; only a path is looked at.

    Examples
    --------
    >>> account_of(Ledger(), [[1.0]]).dataset, account_of(Ledger(), "/data/trips.csv").dataset
    ('data in memory', '/data/trips.csv')
    """
    if payer is None or isinstance(payer, Account):
        return payer
    if isinstance(payer, str | os.PathLike):
        payer = Ledger(os.fspath(payer))
    if not isinstance(payer, Ledger):
        raise InputError(f"ledger must be an account, a ledger or its path; got {type(payer).__name__}")
    named = isinstance(data, str | os.PathLike)
    return payer.account(account_among(payer.datasets, data) if named else IN_MEMORY)


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
