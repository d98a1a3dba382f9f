"""The account of a device is for its owner alone."""

from __future__ import annotations

import os
import stat
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.errors import BudgetError
from sfumato.local.account import DeviceAccount


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_account_is_private_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    account = DeviceAccount(path, budget=2)
    with pytest.raises(BudgetError):
        account.charge("protocol", Fraction(3))
    assert not path.exists()
    before = os.umask(0)
    try:
        account.charge("protocol", Fraction(1))
        assert mode(path) == 0o600
        account.charge("protocol", Fraction(1))
        assert mode(path) == 0o600
    finally:
        os.umask(before)
    assert account.spent == 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["account.json", "account.json.lock"]
    assert not (tmp_path / "account.json.lock").read_bytes()


def test_an_account_is_made_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "account.json")
    DeviceAccount(tmp_path / "link.json", budget=2).charge("protocol", Fraction(1))
    assert (tmp_path / "link.json").is_symlink()
    assert mode(tmp_path / "account.json") == 0o600
