"""Thrift's compact protocol, in which Parquet describes itself: the few fields that are wanted, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
