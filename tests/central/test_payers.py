"""Whose account pays for a fit, and warnings where nobody does."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from sfumato import InputError, Ledger, PrivateKDE
from sfumato.central.payers import IN_MEMORY, account_of, warn_of_score, warn_of_validation
from sfumato.errors import UnpaidWarning


def test_a_ledger_has_one_account_for_each_file_and_one_for_all_that_is_in_memory(tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path / "ledger.jsonl"), tmp_path / "trips.csv"
    file.write_text("x\n1\n")
    accounts = [account_of(ledger, data) for data in (file, str(file), [[1.0]], np.zeros((2, 2)))]
    names = [account.dataset for account in accounts if account is not None]
    assert names == [str(file.resolve())] * 2 + [IN_MEMORY] * 2
    own = ledger.account("trips")
    assert account_of(own, file) is own and account_of(None, file) is None
    assert account_of(tmp_path / "ledger.jsonl", file) is not None


@pytest.mark.parametrize("payer", [7, ["ledger"], object()])
def test_what_is_no_account_does_not_pay(payer: Any) -> None:
    with pytest.raises(InputError, match="an account, a ledger or its path"):
        account_of(payer, [[1.0]])


def test_cross_validation_is_warned_of_and_a_plain_fit_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_validation()
    points = np.random.default_rng(0).uniform(size=(60, 1))
    model = PrivateKDE(bandwidth=1.0, epsilon=1, bounds=(0, 1), n_hint=60, method="grid")
    with pytest.warns(UnpaidWarning, match="epsilon times the number of fits"):
        cross_val_score(model, points, cv=2, scoring=lambda fitted, X, y=None: 0.0)


def test_a_score_is_warned_of() -> None:
    with pytest.warns(UnpaidWarning, match="Pass public points only"):
        warn_of_score()
