"""Min-hash: the bucket is the element of a set that comes first in a random order of all elements.

For two sets the first element of their union is in both with probability |x and y| / |x or y|: the kernel `Jaccard`.
Orders are random permutations, so this is exact. The empty set has a bucket of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import Jaccard
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family


@register_family
@dataclass(frozen=True, eq=False)
class MinHash(HashFamily):
    """One order of the columns a hash function; the bucket is the place of the set's first element in it."""

    box: Box
    places: NDArray[np.int32]

    name = "min-hash"
    kernels = (Jaccard,)

    @classmethod
    def draw(
        cls, kernel: Jaccard, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> MinHash:
        """Draw orders one hash function after another, each by sorting random words.

        Ties between 64-bit words, which would favour the earlier column, have probability below columns^2 * 2**-65.
        """
        box = Box.from_bounds((0.0, 1.0) if bounds is None else bounds, dimension, outside)
        order = np.argsort(stream.words(rows * dimension).reshape(rows, dimension), axis=1, kind="stable")
        return cls(box, np.argsort(order, axis=1, kind="stable").astype(np.int32))

    @classmethod
    def buckets(cls, kernel: Jaccard, dimension: int, bounds: Any) -> int:
        """Every element, and nothing."""
        return dimension + 1

    @property
    def lattice(self) -> Lattice:
        """Whole numbers."""
        return Lattice(self.box, (0,) * self.box.dimension)

    @property
    def rows(self) -> int:
        """One order each."""
        return len(self.places)

    def cells(self, coordinates: Floats) -> Integers:
        """Place of the first element; the number of columns for the empty set."""
        members = coordinates + self.lattice.centre >= 1
        cells = np.empty((len(members), self.rows, 1), dtype=np.int64)
        _first(members, self.places, cells)
        return cells

    def part(self, start: int, stop: int) -> MinHash:
        """Return some of the functions."""
        return replace(self, places=self.places[start:stop])

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Place of every column in every order."""
        return (self.places,)


@njit(nogil=True, cache=True)
def _first(members, places, cells):  # type: ignore[no-untyped-def]
    columns = members.shape[1]
    for i in range(members.shape[0]):
        present = np.nonzero(members[i])[0]
        for r in range(places.shape[0]):
            first = columns
            for j in present:
                first = min(first, places[r, j])
            cells[i, r, 0] = first
