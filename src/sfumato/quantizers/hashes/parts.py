"""Hash functions in parts: while the points of a block pass, the counters of one part stay in the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.quantizers.base import Integers
from sfumato.quantizers.hashes.base import HashFamily
from sfumato.quantizers.hashes.rehash import Rehash

Places = NDArray[np.uint32]

# An odd number of cache lines of places, so that one column of them does not contend for the same lines of the cache.
PART_ROWS = 112


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of counters, with their hash functions.

    Attributes
    ----------
    rows : slice
        Which rows of the table.
    family, rehash : HashFamily, Rehash or None
        Their hash functions.
    width : int
        Counters a row.
    """

    rows: slice
    family: HashFamily
    rehash: Rehash | None
    width: int

    def places(self, cells: Integers) -> Places:
        """Counters of buckets, shape (points, rows); always in the table, whatever a family gives."""
        if self.rehash is not None:
            return self.rehash(cells)
        return np.clip(cells[:, :, 0], 0, self.width - 1).astype(np.uint32)


def cut(family: HashFamily, rehash: Rehash | None, width: int) -> list[Part]:
    """Cut hash functions of `width` counters each into parts; a family that cannot be cut is one part."""
    parts = []
    for start in range(0, family.rows, PART_ROWS):
        stop = min(start + PART_ROWS, family.rows)
        some = family.part(start, stop)
        if some is None:
            return [Part(slice(0, family.rows), family, rehash, width)]
        parts.append(Part(slice(start, stop), some, rehash and rehash.part(start, stop), width))
    return parts


@njit(nogil=True, cache=True)
def count(places, value, table):  # type: ignore[no-untyped-def]
    """Add `value` to the counter of every place."""
    for r in range(places.shape[1]):
        for i in range(places.shape[0]):
            table[r, places[i, r]] += value
