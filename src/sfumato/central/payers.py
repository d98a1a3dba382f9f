"""Whose account a release is charged to, where the caller names a ledger and no account."""

from __future__ import annotations

import os
from typing import Any

from sfumato.errors import InputError
from sfumato.privacy.datasets import account_among
from sfumato.privacy.ledger import Account, Ledger

Payer = Account | Ledger | str | os.PathLike[str] | None
# One account for all data that no file names: who shares it may be charged too much, and never too little.
IN_MEMORY = "data in memory"


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
