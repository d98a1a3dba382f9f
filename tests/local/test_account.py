"""The account of a device is for its owner alone, knows when it is damaged, and is one under all its names."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfumato.errors import BudgetError, InputError, LedgerError, SfumatoError, StorageError
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


@pytest.mark.parametrize("place", ["/dev/zero", "."])
def test_what_is_no_file_is_no_account(tmp_path: Path, place: str) -> None:
    """A device never ends."""
    (tmp_path / "account.json").symlink_to(place)
    with pytest.raises(SfumatoError):
        DeviceAccount(tmp_path / "account.json", budget=2).charge("protocol", Fraction(1))


def test_an_account_is_made_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "account.json")
    DeviceAccount(tmp_path / "link.json", budget=2).charge("protocol", Fraction(1))
    assert (tmp_path / "link.json").is_symlink()
    assert mode(tmp_path / "account.json") == 0o600


def test_an_account_cannot_be_overspent_through_links(tmp_path: Path) -> None:
    """Many charges at once through the file, a link to it and a link to its folder: as many succeed as are paid."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "account.json")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    paths = [tmp_path / "real" / "account.json", tmp_path / "link.json", tmp_path / "folder" / "account.json"]
    done: list[Path] = []

    def spend(path: Path) -> None:
        account = DeviceAccount(path, budget=12)
        try:
            for _ in range(12):
                account.charge("protocol", Fraction(1))
                done.append(path)
        except BudgetError:
            pass

    threads = [threading.Thread(target=spend, args=(path,)) for path in [*paths, *paths]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 12
    assert {DeviceAccount(path, budget=12).spent for path in paths} == {12}
    assert [path.name for path in tmp_path.rglob("*.lock")] == ["account.json.lock"]


def test_a_second_name_of_an_account_is_refused(tmp_path: Path) -> None:
    account = DeviceAccount(tmp_path / "a.json", budget=2)
    account.charge("protocol", Fraction(1))
    os.link(tmp_path / "a.json", tmp_path / "b.json")
    for name in ("a.json", "b.json"):
        with pytest.raises(LedgerError, match="one of 2 names"):
            DeviceAccount(tmp_path / name, budget=2).charge("protocol", Fraction(1))
    (tmp_path / "b.json").unlink()
    account.charge("protocol", Fraction(1))


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path, random = tmp_path / "account.json", Random(1)
    account = DeviceAccount(path, budget=9)
    account.remembered("protocol", [0.5], Fraction(1), lambda point: b"report")
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << random.randrange(8)]) + whole[place + 1 :])
        with pytest.raises(LedgerError):
            account.charge("protocol", Fraction(1))
    path.write_bytes(whole)
    assert account.spent == 1


def test_accounts_of_the_first_version_go_on(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    charges = {"protocol": {"epsilon": "1", "reports": 2}}
    content: dict[str, Any] = {"format": "sfumato-device-account", "version": 1, "budget": "3", "key": "00" * 16}
    path.write_text(json.dumps({**content, "protocols": charges, "kept": {}}))
    account = DeviceAccount(path, budget=3)
    assert account.spent == 2
    account.charge("protocol", Fraction(1))
    assert json.loads(path.read_text())["version"] == 2
    with pytest.raises(BudgetError):
        account.charge("protocol", Fraction(1))


def test_forged_accounts_raise_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    whole: dict[str, Any] = {"format": "sfumato-device-account", "version": 1, "budget": "3", "key": "00" * 16}
    whole |= {"protocols": {"p": {"epsilon": "1", "reports": 1}}, "kept": {"p": {"x": "00"}}}
    odd: list[Any] = [None, -1, 1.5, "x", [], [None], {"p": 1}, {"p": {}}, {"p": {"x": "zz"}}, {"p": [1]}, 10**30]
    contents = [json.dumps({**whole, key: value}) for key in whole for value in odd]
    contents += [json.dumps({other: whole[other] for other in whole if other != key}) for key in whole]
    for content in [
        *contents,
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
        "\ud800".encode("utf-8", "replace").decode(),
    ]:
        path.write_text(content)
        try:
            DeviceAccount(path, budget=3).remembered("p", [0.5], Fraction(1), lambda point: b"report")
        except SfumatoError:
            continue
        assert DeviceAccount(path, budget=3).spent <= 3


def test_a_disk_without_locks_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageError, match=r"cannot lock files \(No locks available\).*on a local disk \(ledger=\)"):
        DeviceAccount(tmp_path / "account.json", budget=2).charge("protocol", Fraction(1))
    assert not (tmp_path / "account.json").exists()


def test_an_account_of_long_fractions_is_read_and_refuses(tmp_path: Path) -> None:
    """Their sum has more digits than Python writes, and every one of them is an epsilon that can be written."""
    account = DeviceAccount(tmp_path / "account.json", budget=1)
    for number in range(6):
        account.charge(f"protocol {number}", Fraction(1, 10**1050 + 2 * number + 1))
    before = account.path.read_bytes()
    assert 0 < account.spent < Fraction(1, 10**1049)
    with pytest.raises(BudgetError, match="this device has about 0.999999"):
        account.charge("another", Fraction(2))
    for wrong in (Fraction(1, 10**5000), Fraction(-1)):
        with pytest.raises(InputError, match="epsilon"):
            account.charge("another", wrong)
    assert account.path.read_bytes() == before
    account.charge("kept for nothing", Fraction(0))
    assert account.spent < Fraction(1, 10**1049)
