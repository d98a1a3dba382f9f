"""What a shuffler keeps on disk: a folder with the stage of the collection, and in it the inbox of submissions.

The folder has a marker that it is a shuffler's, which is also the lock. A folder is taken if it is new, empty or
marked; any other is refused before a file in it is touched. The stage stands under a checksum, so that damage is found
and not acted upon.

The inbox is a file of submissions that is added to and never changed, each whole or forgotten. A record is the number
of messages (8 bytes, little-endian), the submission's identity (16), a digest of these (8) and of these and the
messages (16), and the messages. A crash can cut off or spoil the last record, which was not acknowledged; the digest of
the start tells that from damage elsewhere, which is not passed over in silence.

All of it is for its owner alone: it holds the messages of each participant together.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import InputError, StorageError
from sfumato.locks import lock_file
from sfumato.owner import private_folder, private_opener
from sfumato.public.canonical_json import parse
from sfumato.public.codec import Schema
from sfumato.shuffled.messages import Submission
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.storage import AtomicFile, storage_errors

_MARK = b"sfumato-shuffler-1\n"
_WITHOUT_LOCKS = "two shufflers could spoil each other's messages; put the folder on a local disk (--state FOLDER)"
_LEFT = re.compile(r"buckets-[0-9a-f]{16}|\.sfumato-[0-9a-f]{16}\.tmp")
_LARGEST_STATE = 10_000
_START = struct.Struct("<Q16s")
_START_DIGEST, _DIGEST = 8, 16
_RECORD = _START.size + _START_DIGEST + _DIGEST


class StateFolder:
    """A folder that one shuffler uses at a time.

    Parameters
    ----------
    path : Path
        Made if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1
        with storage_errors("use", path):
            private_folder(path)
            self._refuse_others()
            self._lock = private_opener(self.path / "lock", os.O_RDWR | os.O_CREAT)
            try:
                lock_file(self._lock, self.path / "lock", _WITHOUT_LOCKS)
                os.pwrite(self._lock, _MARK, 0)
                os.fsync(self._lock)
            except BlockingIOError:
                self.close()
                raise InputError(f"another shuffler is using {str(path)!r}; stop it, or pass another folder") from None
            except BaseException:
                self.close()
                raise
            self._sweep()

    def _refuse_others(self) -> None:
        names = {entry.name for entry in self.path.iterdir()}
        marker = self.path / "lock"
        content = marker.read_bytes() if marker.is_file() and marker.stat().st_size <= len(_MARK) else None
        if content == _MARK or not names or (names == {"lock"} and content == b""):  # killed before it was marked
            return
        state = self.path / "state.json"
        if state.is_file() and b'"fingerprint"' in state.read_bytes()[:_LARGEST_STATE]:
            raise InputError(
                f"{str(self.path)!r} holds a shuffler's state without its mark, the file 'lock': others may be missing "
                "too, and with them messages that were acknowledged. Nothing was touched: restore the folder from a "
                "copy, or collect again in a new one; if only that file is lost, and no shuffler runs there, make it "
                f"again: echo {_MARK.decode().strip()} > {shlex.quote(str(marker))}"
            )
        raise InputError(
            f"{str(self.path)!r} holds files that are not a shuffler's, and none of them was touched; pass a new or "
            "empty folder"
        )

    def _sweep(self) -> None:
        """Remove what a kill left behind, by names that only we give."""
        for entry in self.path.iterdir():
            if _LEFT.fullmatch(entry.name):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def read(self, schema: Schema) -> dict[str, Any] | None:
        """Return the stage, None in a new folder."""
        path, inbox = self.path / "state.json", self.path / "inbox"
        with storage_errors("read", path):
            content = b"" if not path.exists() else path.open("rb").read(_LARGEST_STATE)
        if not content and not inbox.exists():
            return None
        try:
            state: dict[str, Any] = parse(content)
            if state.pop("checksum") == _checksum(state):
                return schema.read(state, "state")
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            pass
        raise StorageError(
            f"the shuffler's state in {str(path)!r} is damaged, and without it nobody knows whether the collection "
            "is closed; restore it from a backup, or collect again in a new folder"
        )

    def write(self, state: Mapping[str, Any]) -> None:
        """Write the stage down, on disk when this returns."""
        with AtomicFile(self.path / "state.json", overwrite=True, private=True) as file:
            file.write(json.dumps({**state, "checksum": _checksum(state)}).encode())

    def holds(self, path: str | Path) -> bool:
        """Whether a path lies in the folder."""
        return Path(path).resolve().is_relative_to(self.path.resolve())

    def close(self) -> None:
        """Let another shuffler use the folder."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _checksum(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


class Inbox:
    """Submissions on disk.

    Parameters
    ----------
    path : Path
        The file; made if it does not exist. A last record that was cut off is removed.
    piece : int
        Bytes to read at once, whole messages.

    Attributes
    ----------
    known : dict
        Digests of the submissions, by identity.
    size : int
        Bytes of all whole records.
    """

    def __init__(self, path: Path, piece: int) -> None:
        self._path, self._piece = path, piece
        self._file = open(path, "r+b", buffering=0, opener=_creating)  # noqa: SIM115 - kept until `close`
        try:
            self.known, self.size = self._walk()
        except BaseException:
            self._file.close()
            raise

    def cut(self) -> None:
        """Remove what follows the last whole record."""
        self._file.truncate(self.size)
        self._file.seek(self.size)

    def check(self) -> None:
        """Read everything again, and refuse to go on if something that was acknowledged is not there."""
        if self._walk() != (self.known, self.size) or os.fstat(self._file.fileno()).st_size != self.size:
            raise self._damaged()

    def _walk(self) -> tuple[dict[bytes, bytes], int]:
        """Identities and digests of whole records, and where the last one ends."""
        size, at, known = os.fstat(self._file.fileno()).st_size, 0, dict[bytes, bytes]()
        while at + _RECORD <= size:
            record = self._read(at, _RECORD)
            start, content = record[: _START.size], at + _RECORD
            count, identity = _START.unpack(start)
            if record[_START.size : -_DIGEST] != _digest(start, [], _START_DIGEST):
                raise self._damaged()
            end = content + count * MESSAGE_BYTES
            if end > size:
                break
            if record[-_DIGEST:] != _digest(start, self._pieces(content, end), _DIGEST):
                if end < size:
                    raise self._damaged()
                break
            known[identity] = record[-_DIGEST:]
            at = end
        return known, at

    def add(self, submissions: Sequence[Submission]) -> None:
        """Write those that are not known yet; on disk when this returns, and none of them if it raises."""
        fresh = self.unknown(submissions)
        with storage_errors("write", self._path):
            try:
                for submission in fresh.values():
                    self._write(_record(submission))
                os.fsync(self._file.fileno())
            except BaseException:
                self.cut()
                raise
        self.known |= {identity: _record_digest(submission) for identity, submission in fresh.items()}
        self.size = self._file.tell()

    def unknown(self, submissions: Sequence[Submission]) -> dict[bytes, Submission]:
        """Return those that did not come before, by identity; refuse an identity that came with other messages."""
        fresh: dict[bytes, Submission] = {}
        for submission in submissions:
            identity = submission.identity
            other = identity in fresh and fresh[identity] != submission
            if other or (identity in self.known and self.known[identity] != _record_digest(submission)):
                raise InputError(
                    "a submission under this identity came before with other messages; a participant sends one, and "
                    "the very same again if it was not acknowledged: nothing was taken"
                )
            if identity not in self.known:
                fresh[identity] = submission
        return fresh

    def _write(self, content: bytes) -> None:
        """Write all of it: a disk that fills up takes a part and reports no error."""
        view = memoryview(content)
        while view:
            written = self._file.write(view)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[written:]

    def messages(self) -> Iterator[bytes]:
        """Give the messages of all submissions, in pieces."""
        at = 0
        while at < self.size:
            count, _ = _START.unpack(self._read(at, _START.size))
            content, at = at + _RECORD, at + _RECORD + count * MESSAGE_BYTES
            yield from self._pieces(content, at)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read(self, start: int, size: int) -> bytes:
        content = os.pread(self._file.fileno(), size, start)
        if len(content) != size:
            raise self._damaged()
        return content

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, self._piece):
            yield self._read(at, min(self._piece, end - at))

    def _damaged(self) -> StorageError:
        return StorageError(
            f"the shuffler's messages in {str(self._path)!r} are damaged, and none of them can be used; restore the "
            "file from a backup, or collect again in a new folder"
        )


def _creating(path: str, flags: int) -> int:
    return private_opener(path, flags | os.O_CREAT)


def _record(submission: Submission) -> bytes:
    start = _START.pack(len(submission), submission.identity)
    return start + _digest(start, [], _START_DIGEST) + _record_digest(submission) + b"".join(submission)


def _record_digest(submission: Submission) -> bytes:
    return _digest(_START.pack(len(submission), submission.identity), submission, _DIGEST)


def _digest(start: bytes, pieces: Iterator[bytes] | Sequence[bytes], size: int) -> bytes:
    digest = hashlib.blake2b(start, digest_size=size)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
