"""The shuffler's inbox: a file of submissions that is added to and never changed, each whole or forgotten.

A record is the number of messages (8 bytes, little-endian), the submission's identity (16), a digest of these (8) and
of these and the messages (16), and the messages. A crash can cut off or spoil the last record, which was not
acknowledged; the digest of the start tells that from damage elsewhere, which is not passed over in silence.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from sfumato.errors import StorageError
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.shuffled.submission import Submission
from sfumato.storage import private_opener, storage_errors

_START = struct.Struct("<Q16s")
_START_DIGEST, _DIGEST = 8, 16
_RECORD = _START.size + _START_DIGEST + _DIGEST


class Inbox:
    """Submissions on disk.

    Parameters
    ----------
    path : Path
        The file; made if it does not exist. A last record that was cut off is removed.
    piece : int
        Bytes to read at once, whole messages.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     inbox, nothing = Inbox(Path(folder, "inbox"), 1 << 20), Submission([])
    ...     inbox.add([nothing, Submission([bytes(53)]), nothing])
    ...     len(inbox.known), [len(piece) for piece in inbox.messages()]
    (2, [53])
    """

    def __init__(self, path: Path, piece: int) -> None:
        self._path, self._piece = path, piece
        descriptor = private_opener(path, os.O_RDWR | os.O_CREAT)
        self._file = open(descriptor, "r+b", buffering=0)  # noqa: SIM115 - kept until `close`
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

    def _walk(self) -> tuple[set[bytes], int]:
        """Identities of whole records, and where the last one ends."""
        size, at, known = os.fstat(self._file.fileno()).st_size, 0, set()
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
            known.add(identity)
            at = end
        return known, at

    def add(self, submissions: Sequence[Submission]) -> None:
        """Write those that are not known yet; on disk when this returns, and none of them if it raises."""
        fresh: set[bytes] = set()
        with storage_errors("write", self._path):
            try:
                for submission in submissions:
                    if submission.identity not in self.known and submission.identity not in fresh:
                        self._write(_record(submission))
                        fresh.add(submission.identity)
                os.fsync(self._file.fileno())
            except BaseException:
                self.cut()
                raise
        self.known |= fresh
        self.size = self._file.tell()

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
            f"the shuffler's messages in {str(self._path)!r} are damaged; restore the file, or collect again in a new "
            "folder"
        )


def _record(submission: Submission) -> bytes:
    content = b"".join(submission)
    start = _START.pack(len(submission), submission.identity)
    return start + _digest(start, [], _START_DIGEST) + _digest(start, [content], _DIGEST) + content


def _digest(start: bytes, pieces: Iterator[bytes] | Sequence[bytes], size: int) -> bytes:
    digest = hashlib.blake2b(start, digest_size=size)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
