"""Thrift's compact protocol, in which Parquet describes itself.

A second reader of the same bytes is worth something only if both see the same. Arrow's reader steps over a field of
another type than Parquet's, lets the last of repeated fields win, cuts numbers to their width, and takes the entries of
a list for what they should be, whatever the list says of them. Here all of that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.sources.base import TooLargeError

# Types of the protocol, and how deeply structures may be nested.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCTURE, DEEPEST = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 12
BITS = {I16: 16, I32: 32, I64: 64}
LARGEST_FIELD = (1 << 15) - 1
# Bytes of memory that Arrow takes for an entry of a list: a structure of which fields are wanted, such as a column of
# a row group, another structure or a text, a number; and for all entries together. 500,000 columns of row groups fit.
WANTED_BYTES, ENTRY_BYTES, NUMBER_BYTES = 640, 80, 16
LARGEST_DESCRIBED = 1 << 29


@dataclass(frozen=True)
class Made:
    """A structure in place of which something smaller is kept: the wanted fields, and what is made of them."""

    fields: Mapping[int, Any]
    make: Callable[[dict[int, Any]], Any]


class Thrift:
    """A reader of the protocol; it raises IndexError at the end, and ValueError for what is not as it should be.

    Parameters
    ----------
    content : bytes
        Where a structure starts.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.place, self.described = content, 0, 0

    def structure(self, wanted: Mapping[int, Any], depth: int = 0) -> dict[int, Any]:
        """Read a structure and return the wanted fields by their ids.

        What is wanted of a field is a type of whole numbers or of texts, the wanted fields of a structure, `Made` of
        them, or in brackets what is wanted of each entry of a list. Of lists of numbers and of texts, and of structures
        without wanted fields, nothing is kept.
        """
        if depth > DEEPEST:
            raise ValueError("a structure is nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole(I16)
            if not 0 < number <= LARGEST_FIELD:
                raise ValueError("its description is damaged")
            kind, part = head & 15, wanted.get(number)
            if part is None:
                if kind not in (TRUE, FALSE):  # which the head says
                    self._skip(kind, depth)
            elif number in found:
                raise ValueError("its description gives a field twice")
            else:
                found[number] = self._field(kind, part, depth)
        return found

    def _field(self, kind: int, part: Any, depth: int) -> Any:
        if kind != _kind(part):
            raise ValueError("its description has a field of another type than Parquet's")
        if kind == LIST:
            return self._list(part[0], depth)
        if kind == BINARY:
            return self._step(self._natural(32))
        return self._structure(part, depth) if kind == STRUCTURE else self._whole(kind)

    def _structure(self, part: Any, depth: int) -> Any:
        made = isinstance(part, Made)
        found = self.structure(part.fields if made else part, depth + 1)
        return part.make(found) if made else found

    def _list(self, part: Any, depth: int) -> list[Any]:
        head = self._byte()
        count, kind = self._natural(32) if head >> 4 == 15 else head >> 4, head & 15
        if part is not None and count and kind != _kind(part):
            raise ValueError("its description has a list of another type than Parquet's")
        self._count(count, kind, bool(part) and kind == STRUCTURE)
        if part and kind == STRUCTURE:
            return [self._structure(part, depth) for _ in range(count)]
        for _ in range(count):
            self._skip(kind, depth)
        return []

    def _count(self, count: int, kind: int, wanted: bool) -> None:
        """Count what Arrow will take for a list, before it is read: entries of one byte may take hundreds."""
        entry = ENTRY_BYTES if kind in (BINARY, LIST, SET, STRUCTURE) else NUMBER_BYTES
        self.described += count * (WANTED_BYTES if wanted else entry)
        if self.described > LARGEST_DESCRIBED:
            raise TooLargeError(
                f"the description of its columns takes more than {LARGEST_DESCRIBED} bytes of memory, which are very "
                "many columns or row groups. Write it with fewer, larger row groups (row_group_size), or as several "
                "files"
            )

    def _skip(self, kind: int, depth: int) -> None:
        if depth > DEEPEST:
            raise ValueError("a structure is nested too deeply")
        if kind in (TRUE, FALSE, BYTE):
            self._byte()
        elif kind in BITS:
            self._whole(kind)
        elif kind == DOUBLE:
            self._step(8)
        elif kind == BINARY:
            self._step(self._natural(32))
        elif kind in (LIST, SET):
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

    def _natural(self, bits: int) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) >= 128 and shift < 63:
            number |= (byte & 127) << shift
            shift += 7
        number |= byte << shift
        if byte >= 128 or number >> bits:
            raise ValueError("its description is damaged")
        return number

    def _whole(self, kind: int) -> int:
        number = self._natural(BITS[kind])
        return number >> 1 ^ -(number & 1)


def _kind(part: Any) -> int:
    """Type of the protocol that a wanted part has."""
    if isinstance(part, list):
        return LIST
    return STRUCTURE if isinstance(part, dict | Made) else int(part)
