"""The journal under the ledger: survives a kill at any call, waits for its turn, and notices every alteration."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from sfumato.errors import InputError, LedgerError, StorageError, WaitWarning
from sfumato.privacy import journal
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.loss import Loss

LOSS = Loss(pure=(Fraction(1, 80),), mu_squared=Fraction(1, 400)).to_document()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of four lines: the version, a budget and two charges."""
    account = Ledger(tmp_path / "ledger.jsonl").account("survey")
    account.set_budget(1, 1e-5, rule="gdp")
    account.charge("lsq-rff", 0.25, 1e-6, loss=Loss.from_document(LOSS))
    account.charge("race", "1/30", note="größe")
    return tmp_path / "ledger.jsonl"


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[3], lines[2]]


def relined(lines: list[bytes], number: int, **changes: object) -> list[bytes]:
    """Change one line and recompute the chain, as a forger would."""
    altered, previous = [], ""
    for position, line in enumerate(lines, 1):
        record = json.loads(line)
        del record["sha256"]
        text, previous = journal._line(record | (changes if position == number else {}), previous)
        altered.append(text)
    return altered


@pytest.mark.parametrize(
    ("alter", "line"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: [*lines[:2], lines[3]], 3),
        (swapped, 3),
        (lambda lines: [*lines, lines[3]], 5),
        (lambda lines: [*lines, b"\n"], 5),
        (lambda lines: [*lines, b"garbage\n"], 5),
        (lambda lines: [*lines, b"[]\n"], 5),
        (lambda lines: [*lines, b"[" * 100_000 + b"\n"], 5),
        (lambda lines: [*lines, b"\xff\n"], 5),
        (lambda lines: [*lines, b'{"event":"charge"}'], 5),
        (lambda lines: [*lines[:3], lines[3][:-1]], 4),
        (lambda lines: [*lines[:3], lines[3][:40]], 4),
        (lambda lines: [], 1),
        (lambda lines: [lines[0].replace(b"\n", b"\r\n"), *lines[1:]], 1),
        (lambda lines: [*lines[:2], lines[2].replace(b"1/4", b"1/9"), lines[3]], 3),
        (lambda lines: [*lines[:2], lines[2].replace(b",", b", "), lines[3]], 3),
        (lambda lines: relined(lines, 1, event="diary"), 1),
        (lambda lines: relined(lines, 1, version=0), 1),
        (lambda lines: relined(lines, 1, version=True), 1),
        (lambda lines: relined(lines, 2, event="gift"), 2),
        (lambda lines: relined(lines, 2, event=["budget"]), 2),
        (lambda lines: relined(lines, 3, epsilon="-1"), 3),
        (lambda lines: relined(lines, 3, epsilon=0.25), 3),
        (lambda lines: relined(lines, 3, epsilon="1e99999999"), 3),
        (lambda lines: relined(lines, 3, delta=-1.0), 3),
        (lambda lines: relined(lines, 2, rule="magic"), 2),
        (lambda lines: relined(lines, 2, delta=0.0), 2),
        (lambda lines: relined(lines, 3, loss=1), 3),
        (lambda lines: relined(lines, 3, loss=LOSS | {"pure": "1/80"}), 3),
        (lambda lines: relined(lines, 3, loss=LOSS | {"pure": ["1"]}), 3),
        (lambda lines: relined(lines, 3, loss=LOSS | {"mu_squared": "1"}), 3),
        (lambda lines: relined(lines, 3, loss=LOSS | {"mu_squared": "1e99999999"}), 3),
        (lambda lines: relined(lines, 3, loss=LOSS | {"failure": 2.0}), 3),
        (lambda lines: relined(lines, 3, loss=LOSS | {"surprise": 1}), 3),
        (lambda lines: relined(lines, 4, surprise=1), 4),
        (lambda lines: relined(lines, 4, id="short"), 4),
        (lambda lines: relined(lines, 4, unit="house"), 4),
        (lambda lines: relined(lines, 4, dataset=None), 4),
    ],
)
def test_alterations_are_found_in_their_line(
    path: Path, alter: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    altered = b"".join(alter(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(altered)
    account = Ledger(path).account("survey")
    for use in (lambda: account.spent, lambda: account.charge("m", 0.1), lambda: account.set_budget(5)):
        with pytest.raises(LedgerError, match=rf"line {line}: .*Restore the file"):
            use()
    assert path.read_bytes() == altered


def test_every_altered_byte_is_found(path: Path) -> None:
    content = path.read_bytes()
    for position in range(len(content)):
        altered = bytearray(content)
        altered[position] ^= 1 << position % 8
        path.write_bytes(altered)
        with pytest.raises(LedgerError, match="line [1-5]"):
            _ = Ledger(path).datasets


def test_a_newer_ledger_asks_for_an_upgrade(path: Path) -> None:
    path.write_bytes(b"".join(relined(path.read_bytes().splitlines(keepends=True), 1, version=3)))
    with pytest.raises(LedgerError, match="line 1: format 3, this one reads 2; upgrade"):
        Ledger(path).account("survey").charge("m", 0.1)


def test_a_held_lock_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_SECONDS", 0.05)
    account = Ledger(path).account("survey")
    with open(f"{path}.lock") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="lock .* for 0.05 seconds"):
            account.charge("m", 0.1)
        assert len(account.charges) == 2  # reading does not wait
    account.charge("m", 0.1)
    assert len(account.charges) == 3


def test_a_queue_of_others_is_waited_for_and_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_SECONDS", 1.0)
    monkeypatch.setattr(journal, "NOTICE_SECONDS", 0.1)
    content, holds = path.read_bytes(), threading.Event()

    def others() -> None:
        with open(f"{path}.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            holds.set()
            for turn in range(8):  # longer than the limit, but somebody charges all the time
                time.sleep(0.2)
                (path.parent / f"next-{turn}").write_bytes(content)
                os.replace(path.parent / f"next-{turn}", path)

    thread = threading.Thread(target=others)
    thread.start()
    holds.wait()
    with pytest.warns(WaitWarning, match="ledger's lock"):
        Ledger(path).account("survey").charge("m", 0.1)
    thread.join()
    assert len(Ledger(path).account("survey").charges) == 3


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_disk_without_locks_is_named(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(LedgerError, match=r"cannot lock files .*put the ledger on a local disk"):
        Ledger(path).account("survey").charge("m", 0.1)


def test_a_system_without_locks_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "HAS_LOCKS", False)
    with pytest.raises(LedgerError, match="no file locks"):
        Ledger(path).account("survey").charge("m", 0.1)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_charges_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StorageError, match="the disk is full"):
            Ledger(path).account("survey").charge("m", 0.1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_may_never_end_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It is not opened, and no lock is left beside it."""
    path = tmp_path / "ledger.jsonl"
    path.symlink_to("/dev/zero") if kind == "device" else os.mkfifo(path)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("it would be read without end"))
    monkeypatch.setattr(journal, "private_opener", lambda *arguments: pytest.fail("it would be locked"))
    ledger = Ledger(path)
    with pytest.raises(InputError, match="a device or a pipe, not a file"):
        _ = ledger.account("survey").charges
    with pytest.raises(InputError, match="a device or a pipe, not a file"):
        ledger.account("survey").charge("race", 1)


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Is a directory"):
        Ledger(tmp_path).account("d").charge("m", 1)


KILLS = """
import json, os, sys
from sfumato.privacy.ledger import Ledger

NAMES = "write", "fsync", "replace"
REAL = {name: getattr(os, name) for name in NAMES}

def charge_until_killed(path, acknowledgements, fatal_call, moment):
    calls = 0

    def patched(name):
        def call(*arguments):
            nonlocal calls
            calls += 1
            if calls == fatal_call:
                if moment == "after":
                    REAL[name](*arguments)
                elif moment == "half" and name == "write":
                    REAL[name](arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os._exit(9)
            return REAL[name](*arguments)
        return call

    for name in NAMES:
        setattr(os, name, patched(name))
    account = Ledger(path).account("d")
    for _ in range(3):
        REAL["write"](acknowledgements, account.charge("m", 0.1).id.encode())
    os._exit(0)

results = []
for moment in ("before", "half", "after"):
    for fatal_call in range(1, 100):
        path = f"{sys.argv[1]}/{moment}-{fatal_call}.jsonl"
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            charge_until_killed(path, writer, fatal_call, moment)
        os.close(writer)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(reader, "rb") as stream:
            text = stream.read().decode()
        results.append([path, code, [text[i : i + 32] for i in range(0, len(text), 32)]])
        if code != 9:
            break
print(json.dumps(results))
"""


def test_a_kill_at_any_call_loses_no_charge_and_tears_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLS, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert [code for _, code, _ in results].count(0) == 3  # each series ends with a run that nothing killed
    assert len(results) == 3 * (3 * 4 + 1)  # three charges of four calls: write, sync, replace, sync the folder
    unacknowledged = 0
    for path, _, acknowledged in results:
        account = Ledger(path).account("d")
        recorded = [charge.id for charge in account.charges]
        assert recorded[: len(acknowledged)] == acknowledged
        assert len(recorded) - len(acknowledged) in (0, 1)
        unacknowledged += len(recorded) - len(acknowledged)
        account.charge("m", 0.1)
        assert len(account.charges) == len(recorded) + 1
    assert unacknowledged > 0  # some kills came between the new file and the return


def test_a_ledger_of_two_names_is_refused(path: Path) -> None:
    """Each charge replaces the file under one of its names, and the other would keep the whole budget."""
    other = path.with_name("other.jsonl")
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(LedgerError, match="one of 2 names"):
            Ledger(name).account("survey").charge("m", 0.1)
    other.unlink()
    Ledger(path).account("survey").charge("m", 0.1)


def test_a_file_is_parsed_again_only_after_a_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred budgets each asks for its own, and a command would parse the ledger as often."""
    ledger = Ledger(path)
    before = ledger.account("survey").spent
    with monkeypatch.context() as patch:
        patch.setattr(journal, "parse", lambda *_: pytest.fail("it did not change"))
        assert ledger.account("survey").spent == before and ledger.datasets == ("survey",)
    Ledger(path).account("other").charge("m", 0.1)
    assert ledger.datasets == ("other", "survey")
    path.write_bytes(path.read_bytes().replace(b"1/4", b"1/9"))
    with pytest.raises(LedgerError, match="line 3"):
        _ = ledger.account("survey").spent


def moved_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def put_back_to_an_earlier_state(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def another_in_its_place(path: Path) -> None:
    path.unlink()
    Ledger(path).account("other").charge("race", 1)


@pytest.mark.parametrize("change", [moved_away, put_back_to_an_earlier_state, another_in_its_place])
@pytest.mark.parametrize("read_again", [False, True])
def test_what_was_read_is_gone(path: Path, change: Callable[[Path], None], read_again: bool) -> None:
    """A run that sums for hours must not charge a new file, in which nothing was spent."""
    account = Ledger(path).account("survey")
    assert account.spent[0] > 0
    before = path.read_bytes()
    change(path)
    if read_again:  # another look at what is there now makes it no better
        assert account.affords(0.1)
    found = path.read_bytes() if path.exists() else None
    for ask in (account.check, partial(account.charge, "race")):
        with pytest.raises(LedgerError, match="while it was in use.* nothing more was charged, and nothing released"):
            ask(0.1)
    assert (path.read_bytes() if path.exists() else None) == found
    path.write_bytes(before)
    account.charge("race", 0.1)


def test_what_was_written_is_gone(tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.jsonl").account("survey")
    account.charge("count", 0.1)
    (tmp_path / "ledger.jsonl").unlink()
    with pytest.raises(LedgerError, match="is gone while it was in use"):
        account.charge("race", 1)
    Ledger(tmp_path / "ledger.jsonl").account("survey").charge("race", 1)  # opened anew, as it is meant to be


@pytest.mark.parametrize("fails", ["lock", "file"])
def test_a_check_finds_what_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    account = Ledger(path).account("survey")
    name = "journal.private_opener" if fails == "lock" else "journal.tempfile.TemporaryFile"
    monkeypatch.setattr(f"sfumato.privacy.{name}", refuse)
    with pytest.raises(StorageError, match=r"the disk is read-only.*SFUMATO_LEDGER, --ledger"):
        account.check(0.1)
    assert account.affords(0.1)


def test_a_check_makes_no_ledger(tmp_path: Path) -> None:
    """One that refuses makes nothing at all; one that passes leaves the lock's file, as a charge would."""
    account = Ledger(tmp_path / "folder" / "ledger.jsonl").account("survey")
    with pytest.raises(InputError):
        account.check(-1)
    assert not list(tmp_path.iterdir())
    account.check(1)
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["ledger.jsonl.lock"]
