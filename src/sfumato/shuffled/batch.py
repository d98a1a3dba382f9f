"""A shuffled batch as a file: a header that says what it is for, the messages in their new order, a checksum.

Layout: ``sfumato-batch-1`` and a line feed, the header's length (4 bytes, little-endian), the header as JSON, the
messages, all of one length, and the SHA-256 of everything before it. The checksum finds accidents, not forgers: forged
messages do not open.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import ReleaseFileError
from sfumato.public.canonical_json import parse
from sfumato.shuffled.sealing import MESSAGE_BYTES, Context
from sfumato.storage import AtomicFile, storage_errors

MAGIC = b"sfumato-batch-1\n"
BLOCK_MESSAGES = 1 << 14
_LENGTH = struct.Struct("<I")
_LARGEST_HEADER = 4096
_CHECKSUM_BYTES = 32


@dataclass(frozen=True)
class Header:
    """What a batch is.

    Attributes
    ----------
    fingerprint, group
        The protocol and the place of the group in it.
    participants : int
        How many took part, as the shuffler counted.
    messages : int
        How many messages follow.
    """

    fingerprint: str
    group: int
    participants: int
    messages: int

    @property
    def context(self) -> Context:
        """What the messages must be bound to."""
        return Context(self.fingerprint, self.group)


def write_batch(path: str | Path, header: Header, blocks: Iterable[bytes], overwrite: bool = False) -> None:
    """Write a batch, which appears whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file.
    header : Header
        What it is.
    blocks : iterable of bytes
        The messages, `header.messages` of them in all.
    overwrite : bool
        Whether an existing file may be replaced.
    """
    with AtomicFile(path, overwrite=overwrite, private=True) as file:
        write_batch_to(file, header, blocks)


def write_batch_to(file: AtomicFile, header: Header, blocks: Iterable[bytes]) -> str:
    """Write a batch to an open file, and return its checksum as hexadecimal digits."""
    text = json.dumps(asdict(header), sort_keys=True).encode()
    start = MAGIC + _LENGTH.pack(len(text)) + text
    digest = hashlib.sha256(start)
    file.write(start)
    for block in blocks:
        digest.update(block)
        file.write(block)
    file.write(digest.digest())
    return digest.hexdigest()


def written_batch(path: str | Path) -> str | None:
    """Return the checksum of a batch that is whole; None where there is no such file."""
    if not Path(path).is_file():
        return None
    try:
        for _ in read_batch(path):
            pass
    except ReleaseFileError:
        return None
    with storage_errors("read", path), open(path, "rb") as file:
        file.seek(-_CHECKSUM_BYTES, os.SEEK_END)
        return file.read().hex()


def read_header(path: str | Path) -> Header:
    """Read what a batch says it is, and check its length.

    Raises
    ------
    ReleaseFileError
        If it is no batch, or cut off.
    """
    with storage_errors("read", path), open(path, "rb") as file:
        return _header(file, path)[0]


def read_batch(path: str | Path) -> Iterator[bytes]:
    """Give the messages of a batch in blocks; the checksum is checked before the last block is given.

    Raises
    ------
    ReleaseFileError
        If the batch is damaged.
    """
    with storage_errors("read", path), open(path, "rb") as file:
        header, start = _header(file, path)
        digest = hashlib.sha256(start)
        left = header.messages * MESSAGE_BYTES
        while left:
            block = file.read(min(left, BLOCK_MESSAGES * MESSAGE_BYTES))
            digest.update(block)
            left -= len(block)
            if not left and file.read() != digest.digest():
                raise _damaged(path, "its checksum does not match")
            yield block


def _header(file: BinaryIO, path: str | Path) -> tuple[Header, bytes]:
    start = file.read(len(MAGIC) + _LENGTH.size)
    if not start.startswith(MAGIC) or len(start) < len(MAGIC) + _LENGTH.size:
        raise ReleaseFileError(f"{str(path)!r} is not a shuffled batch")
    size = _LENGTH.unpack(start[len(MAGIC) :])[0]
    text = file.read(min(size, _LARGEST_HEADER))
    try:
        header = Header(**parse(text))
        sound = all(type(value) is int and value >= 0 for value in (header.group, header.participants, header.messages))
        bytes.fromhex(header.fingerprint)
    except (TypeError, ValueError, RecursionError):
        sound = False
    if not sound:
        raise _damaged(path, "its header cannot be read")
    expected = len(start) + size + header.messages * MESSAGE_BYTES + _CHECKSUM_BYTES
    if os.fstat(file.fileno()).st_size != expected:
        raise _damaged(path, f"it should have {expected} bytes")
    return header, start + text


def _damaged(path: str | Path, what: str) -> ReleaseFileError:
    return ReleaseFileError(f"the batch {str(path)!r} is damaged: {what}; ask the shuffler for it again")
