"""What compressed files become in memory, told from what they claim before anything is decompressed.

A decompressor gets as much room as the file claims that it needs: in Parquet the header of each page says it (see
`sfumato.sources.parquet_headers`), in Arrow's own files the number in front of each buffer. A few kilobytes can claim
gigabytes and hold them (zeros), so that all claims are read first. Of a Parquet column a page and its dictionary lie in
memory at a time, of an Arrow file a record batch and all dictionaries; together they may take 256 MiB or four times the
file, whichever is more. Ordinary files stay far below that.
"""

from __future__ import annotations

import struct

from sfumato.deferred import pyarrow as pa
from sfumato.sources.base import TooLargeError

LARGEST_AT_ONCE = 1 << 28
LARGEST_RATIO = 4
DICTIONARY_MESSAGE, BATCH_MESSAGE = 2, 3
# The number in front of a buffer that did not get smaller by compression.
STORED_AS_IT_IS = -1


def check_at_once(size: int, stored: int) -> None:
    """Refuse what takes too much memory at once; `stored` is the size of the file."""
    most = max(LARGEST_AT_ONCE, LARGEST_RATIO * stored)
    if size > most:
        raise TooLargeError(
            f"it takes {size} bytes of memory at once when it is decompressed, and {most} are allowed. Write it in "
            "smaller parts (data_page_size, row_group_size or chunksize), or without compression"
        )


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
