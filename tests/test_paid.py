"""What was paid for is written beside others, or kept where a disk takes it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sfumato.errors import InputError, StorageError
from sfumato.paid import check_output, rescued, rescued_report, write_paid
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
    with pytest.raises(StorageError, match=r"the disk is full; it was kept in .*people.sfm.rescued"):
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


def test_a_deleted_folder_is_no_reason_to_lose_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where the target's folder is missing, nor where nobody can even say which it would be."""
    gone, spare = tmp_path / "gone", tmp_path / "spare"
    gone.mkdir()
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    monkeypatch.chdir(gone)
    gone.rmdir()
    for target in (tmp_path / "nowhere" / "people.sfm", Path("relative.sfm")):
        with pytest.raises(StorageError, match="it was kept in"):
            write_paid(target, b"paid")
        (kept,) = spare.glob(f"{target.name}.rescued-*")
        assert kept.read_bytes() == b"paid"


def test_a_file_that_has_the_name_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    taken = tmp_path / "people.sfm.rescued-00000000"
    taken.write_bytes(b"there")
    assert rescued(b"paid", tmp_path / "people.sfm") == "" and taken.read_bytes() == b"there"


def test_a_report_is_told_where_no_place_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "had been paid for and was kept in" in rescued_report(b"\x01\xff")
    (kept,) = tmp_path.glob("report.hex.rescued-*")
    assert kept.read_text() == "01ff\n"

    def full(descriptor: int) -> None:
        raise OSError

    monkeypatch.setattr(os, "fsync", full)
    assert rescued_report(b"\x01\xff") == "; it had been paid for and is, in hexadecimal, 01ff"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_closed_standard_output_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_output()
    closed = (tmp_path / "closed").open("w")
    closed.close()
    for missing in (None, closed):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", missing)
            with pytest.raises(StorageError, match="nothing was done or spent"):
                check_output()


CHILD = """
import os, sys
from sfumato.paid import check_output, fill_streams
fill_streams()
with open(sys.argv[1], "w") as file:
    assert file.fileno() > 2
assert sys.stdin.read() == ""
print("aside", file=sys.stderr)
try:
    os.write(2, b"what a library complains of")
except OSError:
    print("refused")
"""


def test_streams_that_are_closed_are_no_other_files(tmp_path: Path) -> None:
    """Before, the next file became standard error, and what was printed there came on standard output."""
    command = ["sh", "-c", '"$0" -c "$1" "$2" <&- 2>&-', sys.executable, CHILD, str(tmp_path / "ledger")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "refused\n" and not (tmp_path / "ledger").read_bytes()
