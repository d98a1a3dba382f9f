"""What compressed files become in memory, told from what they claim before anything is decompressed.

A decompressor gets as much room as the file claims that it needs: in Parquet the header of each page says it, in
Arrow's own files the number in front of each buffer. A few kilobytes can claim gigabytes and hold them (zeros), so that
all claims are read first. Of a Parquet column a page and its dictionary lie in memory at a time, of an Arrow file a
record batch and all dictionaries; together they may take 256 MiB or four times the file, whichever is more. Ordinary
files stay far below that.

Texts can grow once more after that: Parquet's `DELTA_BYTE_ARRAY` writes a text as what it adds to the one before it, so
that each may be as long as its page. Of such pages few rows are decoded at a time. (A text that a dictionary holds once
and many rows name is left in its dictionary.)
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from sfumato.deferred import pyarrow as pa

LARGEST_AT_ONCE = 1 << 28
LARGEST_RATIO = 4
LONGEST_PAGE_HEADER = 1 << 20
SHORT_PAGE_HEADER = 1 << 10  # most headers: those without long texts as their least and greatest values
# Of Parquet's structures the numbers of the fields that are read.
ROW_GROUPS, COLUMNS, DETAILS = 4, 1, 3
PATH, VALUES, STORED, DATA_OFFSET, DICTIONARY_OFFSET = 3, 5, 7, 9, 11
DESCRIBED = {PATH: [bytes], VALUES: int, STORED: int, DATA_OFFSET: int, DICTIONARY_OFFSET: int}
FOOTER = {ROW_GROUPS: [{COLUMNS: [{DETAILS: DESCRIBED}]}]}
PAGE_KIND, PAGE_SIZE, PAGE_STORED = 1, 2, 3
PAGE = {PAGE_KIND: int, PAGE_SIZE: int, PAGE_STORED: int, 5: {2: int}, 8: {4: int}}
DICTIONARY_PAGE, DELTA_BYTE_ARRAY = 2, 7
DICTIONARY_MESSAGE, BATCH_MESSAGE = 2, 3
# The number in front of a buffer that did not get smaller by compression.
STORED_AS_IT_IS = -1


def check_at_once(size: int, stored: int) -> None:
    """Refuse what takes too much memory at once; `stored` is the size of the file."""
    most = max(LARGEST_AT_ONCE, LARGEST_RATIO * stored)
    if size > most:
        raise ValueError(
            f"it takes {size} bytes of memory at once when it is decompressed, and {most} are allowed. Write it in "
            "smaller parts (data_page_size, row_group_size or chunksize), or without compression"
        )


@dataclass
class Pages:
    """What the pages of a Parquet file's columns take.

    Attributes
    ----------
    largest : list of int
        Bytes of the largest dictionary and of the largest other page.
    growing : bool
        Whether there are pages whose texts may each be as long as the page.
    """

    largest: list[int] = field(default_factory=lambda: [0, 0])
    growing: bool = False


def check_pages(file: Path, columns: Collection[str]) -> int:
    """Check the pages of some columns of a Parquet file; return the longest that a text may grow, 0 if none does."""
    growing, largest, wanted = False, 0, {name.encode("utf-8", "surrogateescape") for name in columns}
    with file.open("rb") as stream:
        for chunks in _row_groups(stream):
            at_once = 0
            for chunk in chunks:
                if (chunk.get(PATH) or [b""])[0] in wanted:
                    pages = _pages(stream, chunk)
                    at_once += sum(pages.largest)
                    growing |= pages.growing
                    largest = max(largest, *pages.largest)
            check_at_once(at_once, file.stat().st_size)
    return largest if growing else 0


def _row_groups(stream: BinaryIO) -> list[list[dict[int, Any]]]:
    """Read from the footer what it says of the columns of each row group.

    Not through Arrow, which ends the process (an exception of C++ that nobody catches) where statistics are odd.
    """
    stream.seek(-8, os.SEEK_END)
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(-8 - length, os.SEEK_END)
    try:
        footer = Thrift(stream.read(length)).structure(FOOTER)
    except IndexError:
        raise ValueError("its footer is damaged") from None
    groups = footer.get(ROW_GROUPS, [])
    return [[column.get(DETAILS, {}) for column in group.get(COLUMNS, [])] for group in groups]


def _pages(stream: BinaryIO, chunk: dict[int, Any]) -> Pages:
    """Read the headers of all pages of a column chunk."""
    start, first = chunk.get(DATA_OFFSET, 0), chunk.get(DICTIONARY_OFFSET, 0)
    start = first if 0 < first < start else start
    end = start + chunk.get(STORED, 0) if chunk.get(VALUES, 0) > 0 else start
    found = Pages()
    while start < end:
        header, length = _page_header(stream, start)
        size, stored = header[PAGE_SIZE], header[PAGE_STORED]
        if size < 0 or stored < 0:
            raise ValueError("a page claims a negative size")
        other = int(header[PAGE_KIND] != DICTIONARY_PAGE)
        found.largest[other] = max(found.largest[other], size)
        found.growing |= DELTA_BYTE_ARRAY in (header.get(5, {}).get(2), header.get(8, {}).get(4))
        start += length + stored
    return found


def _page_header(stream: BinaryIO, start: int) -> tuple[dict[int, Any], int]:
    """Return the header of the page that starts here, which has kind and sizes, and its length."""
    for most in (SHORT_PAGE_HEADER, LONGEST_PAGE_HEADER):
        stream.seek(start)
        header = Thrift(stream.read(most))
        try:
            fields = header.structure(PAGE)
        except IndexError:
            continue
        if all(number in fields for number in (PAGE_KIND, PAGE_SIZE, PAGE_STORED)):
            return fields, header.place
    raise ValueError("the header of a page is damaged")


def check_messages(mapped: pa.MemoryMappedFile) -> int:
    """Check every message of an Arrow stream from here on; return the number of record batches."""
    dictionaries, batches, largest = 0, 0, 0
    for message in pa.ipc.MessageReader.open_stream(mapped):
        kind, size = _decompressed(message)
        if kind == DICTIONARY_MESSAGE:
            dictionaries += size
        elif kind == BATCH_MESSAGE:
            batches += 1
            largest = max(largest, size)
        check_at_once(dictionaries + largest, mapped.size())
    return batches


def _decompressed(message: pa.Message) -> tuple[int, int]:
    """Return the kind of a message, and how many bytes its compressed buffers claim to become."""
    described = message.metadata.to_pybytes()
    try:
        root = Table(described, struct.unpack_from("<I", described)[0])
        kind, batch = root.number(1, "<B"), root.table(2)
        if kind == DICTIONARY_MESSAGE and batch is not None:
            batch = batch.table(1)
        if kind not in (DICTIONARY_MESSAGE, BATCH_MESSAGE) or batch is None:
            return kind, 0
        # Before version 5 of the format the word stood in the metadata.
        if not batch.has(3) and b"experimental_compression" not in described:
            return kind, 0
        return kind, sum(_claim(message.body, offset, length) for offset, length in batch.pairs(2))
    except struct.error:
        raise ValueError("a message is damaged") from None


def _claim(body: pa.Buffer | None, offset: int, length: int) -> int:
    """Return what one buffer claims to become."""
    if body is None or not 0 <= offset <= offset + length <= body.size:
        raise ValueError("a buffer lies outside of its message")
    if length < 8:
        return 0
    claim = int.from_bytes(body.slice(offset, 8).to_pybytes(), "little", signed=True)
    if claim < STORED_AS_IT_IS:
        raise ValueError("a buffer claims a negative size")
    return 0 if claim == STORED_AS_IT_IS else claim


class Table:
    """A table of a FlatBuffer, in which Arrow's messages are written; it raises struct.error outside of the content.

    Parameters
    ----------
    content : bytes
        The whole buffer.
    place : int
        Where the table starts.
    """

    def __init__(self, content: bytes, place: int) -> None:
        self.content, self.place = content, place
        self.fields = place - self._at(place, "<i")

    def _at(self, place: int, kind: str) -> int:
        if place < 0:
            raise struct.error
        return int(struct.unpack_from(kind, self.content, place)[0])

    def _field(self, number: int) -> int:
        """Return the place of a field, 0 if there is none."""
        size, entry = self._at(self.fields, "<H"), 4 + 2 * number
        offset = self._at(self.fields + entry, "<H") if entry < size else 0
        return self.place + offset if offset else 0

    def has(self, number: int) -> bool:
        """Tell whether a field is there."""
        return self._field(number) > 0

    def number(self, number: int, kind: str) -> int:
        """Return a field that is a number, 0 if it is not there."""
        return self._at(place, kind) if (place := self._field(number)) else 0

    def table(self, number: int) -> Table | None:
        """Return a field that is a table."""
        place = self._field(number)
        return Table(self.content, place + self._at(place, "<I")) if place else None

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a field that is a vector of pairs of numbers of 64 bits."""
        place = self._field(number)
        if not place:
            return []
        start = place + self._at(place, "<I")
        count = self._at(start, "<I")
        if 16 * count > len(self.content) - start - 4:
            raise struct.error
        return [struct.unpack_from("<qq", self.content, start + 4 + 16 * at) for at in range(count)]


# Types of the protocol, and how deeply structures may be nested.
WHOLE, BINARY, LIST, STRUCTURE, DEEPEST = (4, 5, 6), 8, 9, 12, 12


class Thrift:
    """A reader of Thrift's compact protocol, in which Parquet describes itself; it raises IndexError at the end.

    Parameters
    ----------
    content : bytes
        Where a structure starts.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def structure(self, wanted: Mapping[int, Any], depth: int = 0) -> dict[int, Any]:
        """Read a structure and return the wanted fields by their ids.

        What is wanted of a field is `int`, the wanted fields of a structure, or in brackets what is wanted of each
        entry of a list: a structure or `bytes`. A field of another type than that is stepped over.
        """
        if depth > DEEPEST:
            raise ValueError("a structure is nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind, part = head & 15, wanted.get(number)
            if kind in WHOLE and part is int:
                found[number] = self._whole()
            elif kind == STRUCTURE and isinstance(part, dict):
                found[number] = self.structure(part, depth + 1)
            elif kind == LIST and isinstance(part, list):
                found[number] = self._list(part[0], depth)
            elif kind not in (1, 2):  # true and false, which the head says
                self._skip(kind, depth)
        return found

    def _list(self, part: Any, depth: int) -> list[Any]:
        head = self._byte()
        count, kind = self._natural() if head >> 4 == 15 else head >> 4, head & 15
        if kind == STRUCTURE and isinstance(part, dict):
            return [self.structure(part, depth + 1) for _ in range(count)]
        if kind == BINARY and part is bytes:
            return [self._step(self._natural()) for _ in range(count)]
        for _ in range(count):
            self._skip(kind, depth)
        return []

    def _skip(self, kind: int, depth: int) -> None:
        if depth > DEEPEST:
            raise ValueError("a structure is nested too deeply")
        if kind in (1, 2, 3):
            self._byte()
        elif kind in (4, 5, 6):
            self._whole()
        elif kind == 7:
            self._step(8)
        elif kind == 8:
            self._step(self._natural())
        elif kind in (9, 10):
            self._list(None, depth + 1)
        elif kind == STRUCTURE:
            self.structure({}, depth + 1)
        else:
            raise ValueError("its description is damaged")

    def _step(self, count: int) -> bytes:
        self.place += count
        if self.place > len(self.content):
            raise IndexError
        return self.content[self.place - count : self.place]

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _natural(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) >= 128:
            number |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("its description is damaged")
        return number | byte << shift

    def _whole(self) -> int:
        number = self._natural()
        return number >> 1 ^ -(number & 1)
