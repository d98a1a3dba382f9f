"""What was paid for is written beside others, or kept where a disk takes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sfumato.errors import InputError, StorageError
from sfumato.paid import rescued, write_paid
from sfumato.storage import AtomicFile


def test_the_next_free_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "people.sfm").write_bytes(b"there")
    assert [write_paid(tmp_path / "people.sfm", b"paid").name for _ in range(2)] == ["people-2.sfm", "people-3.sfm"]
    assert (tmp_path / "people.sfm").read_bytes() == b"there"
    assert write_paid(tmp_path / "people.sfm", b"paid", overwrite=True).read_bytes() == b"paid"


def test_a_folder_of_that_name_is_no_reason_to_write_beside(tmp_path: Path) -> None:
    (tmp_path / "people.sfm").mkdir()
    with pytest.raises((InputError, StorageError)):
        write_paid(tmp_path / "people.sfm", b"paid")


def test_what_the_disk_refuses_is_kept_and_the_error_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: AtomicFile, data: bytes) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(AtomicFile, "write", full)
    with pytest.raises(
        StorageError, match=r"the disk is full; it had been paid for and was kept in .*people.sfm.rescued"
    ):
        write_paid(tmp_path / "people.sfm", b"paid")
    (kept,) = tmp_path.glob("people.sfm.rescued-*")
    assert kept.read_bytes() == b"paid" and kept.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "people.sfm").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_another_place_is_taken_where_the_folder_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) in rescued(b"paid", closed / "people.sfm")
