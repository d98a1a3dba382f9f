"""From buckets to counters.

A universal rehash of buckets into a few: distinct buckets collide with a probability that is known exactly.

Source: polynomials modulo a power of two (M. Dietzfelbinger, "Universal hashing and k-wise independent random
variables via integer arithmetic without primes", STACS 1996). For a bucket z of `length` integers and keys a_l, c_l,
b, uniform 64-bit words of one row, let v(z) be the upper 24 bits of (sum_l z_l (a_l + c_l z_l) + b) mod 2**64.

Two buckets. For z != z' with integers of magnitude below 2**40, (v(z), v(z')) is uniform on pairs. Some z_l - z'_l is
an odd multiple of 2**s, and s <= 40 because the difference is below 2**41. Given all other keys, the difference D of
the two sums is a constant plus a_l (z_l - z'_l), uniform on the multiples of 2**s modulo 2**64, so its upper 24 bits
are uniform whatever its lower 40 are. b is uniform and independent, so the first sum V is uniform and independent of
D. The upper bits of V - D are those of V minus those of D minus a borrow, which depends on lower bits only: uniform,
and independent of V's.

Three buckets, with integers below 2**20, have independent uniform v. If one l has three different x_l, y_l, z_l,
write the polynomial in Newton's form there: y differs from x by a' (y_l - x_l) and z from both by c_l (z_l - x_l)
(z_l - y_l) more, with a' and c_l independent and uniform, both products uniform on multiples of at most 2**40.
Otherwise some l sets x apart from y and z, and some m another one apart from the rest; their keys are different and
independent. So the counters that two other buckets fall into are uncorrelated, given a query's, which is what the
variance of an estimate needs (`quantizers.hashing`); a linear hash sends z + 1 and z - 1 to the counter of z
together.

The bucket is floor(v B / 2**24). It takes the value j for c_j of the 2**24 values of v, where c_j is 2**24 / B
rounded down or up, so that distinct buckets collide with probability q = sum_j (c_j / 2**24)^2 exactly: 1/B when B is
a power of two, and above 1/B by less than B / 2**48 otherwise. Taking z mod B instead would not do: neighbouring
buckets, which similar points fall into, would never collide.

Hash functions come in parts: while the points of a block pass, the counters of one part stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Integers
from sfumato.quantizers.hashes.base import HashFamily

HASH_BITS = 24
MOST_BUCKETS = 2**20


@dataclass(frozen=True, eq=False)
class Rehash:
    """One keyed hash for each row, into the integers below `buckets`.

    Attributes
    ----------
    keys : ndarray of uint64, shape (rows, 2 length + 1)
        Public keys of each row: a_1, c_1, a_2, c_2, ..., b.
    buckets : int
        B.

    Examples
    --------
    >>> rehash = Rehash.draw(PublicStream(7, "example"), rows=2, length=1, buckets=8)
    >>> rehash(np.array([[[3], [3]], [[4], [4]]]))
    array([[5, 1],
           [1, 7]], dtype=uint32)
    >>> rehash.collision
    Fraction(1, 8)
    """

    keys: NDArray[np.uint64]
    buckets: int

    @classmethod
    def draw(cls, stream: PublicStream, rows: int, length: int, buckets: int) -> Rehash:
        """Draw the keys row by row."""
        if not 2 <= buckets <= MOST_BUCKETS:
            raise InputError(f"the number of buckets must be from 2 to {MOST_BUCKETS}; got {buckets}")
        return cls(stream.words(rows * (2 * length + 1)).reshape(rows, 2 * length + 1), buckets)

    @property
    def collision(self) -> Fraction:
        """Probability q with which distinct buckets collide."""
        smaller, larger_ones = divmod(2**HASH_BITS, self.buckets)
        squares = larger_ones * (smaller + 1) ** 2 + (self.buckets - larger_ones) * smaller**2
        return Fraction(squares, 4**HASH_BITS)

    def __call__(self, cells: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Hash buckets of shape (points, rows, length) to integers of shape (points, rows)."""
        out = np.empty(cells.shape[:2], dtype=np.uint32)
        _rehash(cells, self.keys, self.buckets, out)
        return out

    def part(self, start: int, stop: int) -> Rehash:
        """Return the hashes of some of the rows."""
        return Rehash(self.keys[start:stop], self.buckets)

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Return the keys as signed integers."""
        return (self.keys.view(np.int64),)


def _rehash_all(cells: NDArray[Any], keys: NDArray[np.uint64], buckets: int, out: NDArray[Any]) -> None:
    words = cells.astype(np.uint64)
    codes = keys[:, -1] + (words * (keys[:, :-1:2] + words * keys[:, 1:-1:2])).sum(axis=2, dtype=np.uint64)
    out[:] = ((codes >> np.uint64(64 - HASH_BITS)) * np.uint64(buckets)) >> np.uint64(HASH_BITS)


@njit(reads=_rehash_all, nogil=True, cache=True)
def _rehash(cells, keys, buckets, out):  # type: ignore[no-untyped-def]
    length, lower, scale = cells.shape[2], np.uint64(64 - HASH_BITS), np.uint64(HASH_BITS)
    for i in range(cells.shape[0]):
        for r in range(cells.shape[1]):
            code = keys[r, 2 * length]
            if length == 1:  # most families: without the loop the compiler uses vector instructions
                cell = np.uint64(cells[i, r, 0])
                code += cell * (keys[r, 0] + cell * keys[r, 1])
            else:
                for part in range(length):
                    cell = np.uint64(cells[i, r, part])
                    code += cell * (keys[r, 2 * part] + cell * keys[r, 2 * part + 1])
            out[i, r] = ((code >> lower) * np.uint64(buckets)) >> scale


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
