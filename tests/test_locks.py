"""Locks of files: one holder at a time, and advice where a disk has none."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sfumato import locks
from sfumato.errors import StorageError
from sfumato.locks import lock_file, unlock_file

fcntl = pytest.importorskip("fcntl")


def test_one_holds_a_lock_until_it_is_given_back(tmp_path: Path) -> None:
    one, other = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    try:
        lock_file(one, "lock", "nothing is sure")
        with pytest.raises(BlockingIOError):
            lock_file(other, "lock", "nothing is sure")
        unlock_file(one)
        lock_file(other, "lock", "nothing is sure", wait=True)
    finally:
        os.close(one)
        os.close(other)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_told_with_what_to_do(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "no locks")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with pytest.raises(StorageError, match="'/far/lock' cannot lock files .no locks., without which all is lost; come"):
        lock_file(3, "/far/lock", "all is lost; come nearer")


def test_other_failures_are_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(locks.fcntl, "flock", fail)
    with pytest.raises(OSError, match="broken"):
        lock_file(3, "lock", "nothing is sure")


def test_a_system_without_locks_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    lock_file(-1, "lock", "nothing is sure")
    unlock_file(-1)
