"""A journal: a list of JSON records that only grows, survives a kill at any moment, and shows when it was altered.

It is a file of lines. The first says the format's version. Each carries the SHA-256 of the previous line's hash and
itself, so that a changed, removed or reordered line breaks the chain from there on. The end of the file cannot vouch
for itself: whoever cuts lines off the end leaves a valid, shorter journal. The whole file is rewritten for each record
and takes the old one's place in one step, under a lock file, so that a reader needs no lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import InputError, LedgerError, StorageError, WaitWarning
from sfumato.locks import HAS_LOCKS, lock_file, unlock_file
from sfumato.owner import private_folder, private_opener
from sfumato.privacy.process import process_mark
from sfumato.public.canonical_json import parse
from sfumato.storage import AtomicFile, checked_path, storage_errors

VERSION = 2  # 1 had no rules and no losses; its files are read, and go on as they are
LOCK_SECONDS = 30.0  # without any progress; a queue of processes that charge may take as long as it takes
NOTICE_SECONDS = 3.0
_WITHOUT_LOCKS = "two processes could spend the same budget; put the ledger on a local disk (SFUMATO_LEDGER, --ledger)"

Record = dict[str, Any]


class Journal:
    """Records in a file, or in memory if there is no path.

    Parameters
    ----------
    path : str, Path or None
        The file; it is made with the first record, and its folder too.

    Examples
    --------
    >>> journal = Journal(None)
    >>> journal.append(lambda records: {"event": "greeting", "number": len(records)})
    >>> journal.records()
    [{'event': 'greeting', 'number': 0}]
    """

    def __init__(self, path: str | Path | None) -> None:
        self._store: _Memory | _File = _Memory() if path is None else _File(path)
        self._parsed: tuple[bytes | None, list[Record], str] = None, [], ""
        self._known = b""  # what was read or written last, with which every later content begins

    @property
    def path(self) -> str | None:
        """The file, absolute and without links; None in memory."""
        return self._store.path

    @property
    def names(self) -> tuple[str, ...]:
        """The file by its absolute path, without links and as it was given; empty in memory."""
        return () if isinstance(self._store, _Memory) else tuple(dict.fromkeys((self._store.path, self._store.given)))

    def records(self) -> list[Record]:
        """Return all records, oldest first, or raise `LedgerError` with the line at which the chain breaks.

        The list is the same as long as the file is, and nobody may change it.
        """
        return self._parse(self._store.read())[0]

    def append(self, decide: Callable[[list[Record]], Record]) -> None:
        """Add one record; when this returns, it is on disk.

        `decide` gets all records, while nobody else can add one, and returns the record to add, or raises to add none.
        """
        with self.locked():
            content = self._store.read()
            records, previous = self._parse(content)
            self._check_grown(content)
            record = decide(records)
            if content is None:
                content, previous = _line({"event": "ledger", "version": VERSION}, "")
            grown = content + _line(record, previous)[0]
            self._store.replace(grown)
            self._known = grown

    def check_ready(self) -> None:
        """Raise what would keep a record from being added now: a lock that is not free, a folder that takes no file."""
        with self.locked():
            self._check_grown(self._store.read())
            self._store.check_writable()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep everybody else from adding a record meanwhile."""
        with self._store.locked():
            yield

    def damaged(self, number: int, problem: str) -> LedgerError:
        """Return the error that line `number`, counted from 1, is not as it was written."""
        return LedgerError(
            f"the ledger {str(self.path)!r} is damaged or was altered, line {number}: {problem}. "
            "Restore the file from a copy; nothing can be charged until then"
        )

    def _check_grown(self, content: bytes | None) -> None:
        """Refuse to go on with less than was here before; asked under the lock, where nobody is about to add more."""
        if not (content or b"").startswith(self._known):
            problem = "is gone" if content is None else "is not the one, or not as long as, it was"
            raise LedgerError(
                f"the ledger {str(self.path)!r} {problem} while it was in use, and with it what was spent: nothing "
                "more was charged, and nothing released. Put back the file that was there and try again; if it shall "
                "stay as it is, open it anew: give the command again, or make another Ledger(path)"
            )

    def _parse(self, content: bytes | None) -> tuple[list[Record], str]:
        """Return the records, and the hash that the next line has to build on."""
        if content is None:
            return [], ""
        known = self._parsed
        if content == known[0]:  # most questions are asked of a file that did not change since the last one
            return known[1:]
        *lines, rest = content.split(b"\n")
        if rest or not lines:
            raise self.damaged(len(lines) + 1, "it is not complete")
        records, previous = [], ""
        for number, line in enumerate(lines, 1):
            try:
                record = parse(line)
                del record["sha256"]
                expected, chain = _line(record, previous)
            except (ValueError, TypeError, KeyError, RecursionError):
                raise self.damaged(number, "it is not a record") from None
            if number == 1:
                self._check_version(record)
            if expected != line + b"\n":
                raise self.damaged(number, "its checksum does not fit it and the line before")
            records.append(record)
            previous = chain
        if content.startswith(self._known):  # or it is another file, or an older reading of another thread
            self._known = content
        self._parsed = known = content, records[1:], previous
        return known[1:]

    def _check_version(self, record: Record) -> None:
        version = record.get("version")
        if record.get("event") != "ledger" or type(version) is not int or version < 1:
            raise self.damaged(1, "it does not say that this is a ledger")
        if version > VERSION:
            raise LedgerError(
                f"the ledger {str(self.path)!r} was written by a newer version of sfumato, line 1: format {version}, "
                f"this one reads {VERSION}; upgrade sfumato"
            )


def _line(record: Record, previous: str) -> tuple[bytes, str]:
    """Return the line of a record, and its hash, which builds on the hash of the line before."""
    chain = hashlib.sha256(previous.encode() + _canonical(record)).hexdigest()
    return _canonical({**record, "sha256": chain}) + b"\n", chain


def _canonical(record: Record) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(
        "utf-8"
    )


class _Memory:
    """Content that lives and dies with the process that made it."""

    path = None

    def __init__(self) -> None:
        self._content: bytes | None = None
        self._lock = threading.Lock()
        self._process = process_mark()

    def read(self) -> bytes | None:
        return self._content

    def replace(self, content: bytes) -> None:
        self._content = content

    def check_writable(self) -> None:
        """Nothing: memory is."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        if process_mark() != self._process:
            raise LedgerError("a ledger in memory cannot be used in a forked process: it is a copy; use Ledger(path)")
        with self._lock:
            yield


class _File:
    """Content of a file that is replaced as a whole."""

    def __init__(self, path: str | Path) -> None:
        name = checked_path("the ledger's place", path)
        # Two names of one file must share one lock.
        self.path = os.path.realpath(name)
        self.given = str(Path(name).absolute())  # `..` after a link stays: only the system knows where it leads

    def read(self) -> bytes | None:
        with _place_errors("read the ledger", self.path):
            return Path(self.path).read_bytes() if self._exists() else None

    def _exists(self) -> bool:
        """Whether there is a file; a pipe would wait, a device may never end, and a twin would be left behind."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        is_file = stat.S_ISREG(found.st_mode)
        if not (is_file or stat.S_ISDIR(found.st_mode)):  # opening a folder is an error that says so
            raise InputError(f"the ledger {self.path!r} is a device or a pipe, not a file; pass the path of a file")
        if is_file and found.st_nlink > 1:
            raise LedgerError(
                f"the ledger {self.path!r} is one of {found.st_nlink} names (hard links) of a file, and each would "
                "come to allow the whole budget: delete the others, or make them copies if they are backups"
            )
        return True

    def replace(self, content: bytes) -> None:
        writing = _place_errors("write the ledger", self.path)
        with writing, AtomicFile(self.path, overwrite=True, private=True) as file:
            file.write(content)

    def check_writable(self) -> None:
        """Raise `StorageError` if the folder takes no new file, which every record is written to first."""
        with _place_errors("write the ledger", self.path):
            tempfile.TemporaryFile(dir=os.path.dirname(self.path)).close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        name = f"{self.path}.lock"  # it stays: removing a lock file would let two processes lock different files
        with _place_errors("lock the ledger with", name):
            self._exists()  # or there is nothing to lock
            private_folder(os.path.dirname(name))
            descriptor = private_opener(name, os.O_RDWR | os.O_CREAT)
        try:
            self._wait(descriptor, name)
            try:
                yield
            finally:
                unlock_file(descriptor)  # closing is not enough if a fork holds the descriptor too
        finally:
            os.close(descriptor)

    def _wait(self, descriptor: int, name: str) -> None:
        """Wait as long as others charge: each of them replaces the file, so that a queue is told from a hang."""
        began = moved = time.monotonic()
        content, told = self._version(), False
        while not _locks(descriptor, name):
            now, latest = time.monotonic(), self._version()
            if latest != content:
                content, moved = latest, now
            if now > moved + LOCK_SECONDS:
                raise LedgerError(
                    f"another process has held the ledger's lock {name!r} for {LOCK_SECONDS:g} seconds; "
                    "wait for it or end it, then try again"
                )
            if not told and now > began + NOTICE_SECONDS:
                told = True
                warnings.warn(f"waiting for others to release the ledger's lock {name!r}", WaitWarning, stacklevel=2)
            time.sleep(random.uniform(0.002, 0.02))  # at random, so that nobody always comes too late

    def _version(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


@contextmanager
def _place_errors(action: str, path: str) -> Iterator[None]:
    """Turn an `OSError` into a `StorageError` that also says how to choose another place for a ledger."""
    try:
        with storage_errors(action, path):
            yield
    except StorageError as error:
        failure = StorageError(f"{error} (the ledger's path: SFUMATO_LEDGER, --ledger)")
        failure.errno = error.errno
        raise failure from error


def _locks(descriptor: int, name: str) -> bool:
    """Whether the lock could be taken at once."""
    if not HAS_LOCKS:
        raise LedgerError("this system has no file locks, without which two processes could spend the same budget")
    with storage_errors("lock the ledger with", name):
        try:
            lock_file(descriptor, name, _WITHOUT_LOCKS)
        except BlockingIOError:
            return False
        except StorageError as error:
            raise LedgerError(str(error)) from error
    return True
