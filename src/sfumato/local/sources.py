"""Reports in blocks, from files, streams, bytes or one by one."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sfumato.errors import InputError
from sfumato.local.server import Payloads
from sfumato.storage import storage_errors

TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class Place:
    """How far a file was read.

    Attributes
    ----------
    name : str
        Its absolute path.
    offset : int
        Bytes that were read.
    tail : str
        SHA-256 of the last of them, by which the same file is recognised.
    """

    name: str
    offset: int
    tail: str


Block = tuple[Payloads, Place | None, int]


def blocks_of(source: Any, size: int, reports: int, places: Mapping[str, Place]) -> Iterator[Block]:
    """Cut a source into blocks of at most `reports` reports of `size` bytes.

    Yields
    ------
    block : ndarray of uint8, shape (reports, size)
        Reports of the right length.
    place : Place or None
        How far the file has now been read; None for other sources.
    odd : int
        How many reports of a wrong length came with it.
    """
    if isinstance(source, str | Path):
        return _file_blocks(Path(source), size, reports, places)
    if isinstance(source, bytes | bytearray | memoryview):
        return _single(bytes(source), size)
    if hasattr(source, "read"):
        return _stream_blocks(source, size, reports)
    if isinstance(source, Iterable):
        return _item_blocks(source, size, reports)
    raise InputError(f"reports come from a path, bytes, a binary stream or an iterable of bytes, not {type(source)!r}")


def _table(content: bytes, size: int) -> Payloads:
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, size)


def _single(content: bytes, size: int) -> Iterator[Block]:
    whole = len(content) // size * size
    yield _table(content[:whole], size), None, int(whole < len(content))


def _stream_blocks(stream: BinaryIO, size: int, reports: int) -> Iterator[Block]:
    rest = b""
    while content := stream.read(size * reports - len(rest)):
        if not isinstance(content, bytes):
            raise InputError("reports are bytes: open the stream in binary mode")
        content = rest + content
        whole = len(content) // size * size
        rest = content[whole:]
        if whole:
            yield _table(content[:whole], size), None, 0
    if rest:
        yield _table(b"", size), None, 1


def _file_blocks(path: Path, size: int, reports: int, places: Mapping[str, Place]) -> Iterator[Block]:
    if not path.exists():
        raise InputError(f"cannot read {str(path)!r}: there is no such file")
    name = os.path.realpath(path)
    with storage_errors("read", path), open(path, "rb") as file:
        offset = _resumed(file, places.get(name))
        file.seek(offset)
        for block, _, odd in _stream_blocks(file, size, reports):
            offset += block.size
            # A report that is cut off at the end may be one that is still being written: it is read again next time.
            yield block, Place(name, offset, _tail(file, offset)), odd


def _resumed(file: BinaryIO, place: Place | None) -> int:
    """Where to go on: after what was read of the same file, else at its beginning."""
    if place is None or _tail(file, place.offset) != place.tail:
        return 0
    return place.offset


def _tail(file: BinaryIO, offset: int) -> str:
    position = file.tell()
    start = max(0, offset - TAIL_BYTES)
    file.seek(start)
    content = file.read(offset - start)
    file.seek(position)
    return hashlib.sha256(content).hexdigest()


def _item_blocks(items: Iterable[bytes], size: int, reports: int) -> Iterator[Block]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, reports)):
        if not all(isinstance(item, bytes | bytearray | memoryview) for item in batch):
            raise InputError("reports are bytes, one item each")
        right = [item for item in batch if len(item) == size]
        yield _table(b"".join(right), size), None, len(batch) - len(right)
