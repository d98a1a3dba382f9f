"""Hash functions on a device: row r of a public pool sends a point to one of a few buckets.

The standard library only; `pool` computes the same integers for many points at once. A point arrives as integers X,
its columns measured from an origin in units of ``2**-point_bits`` bandwidths. Every row's functions are drawn by
`public.rows.row_bytes(seed, "local/rows", row)`: first the keys of the rehash, 64 bits each, then 32-bit words.

- **p-stable** (`L1LSH`, Cauchy numbers; `L2LSH`, normal ones): words b, a_1 ... a_d;
  cell ``(a . X + b 2**(shift - 32)) >> shift`` with ``shift = point_bits + fraction_bits``.
- **grid** (`Hat`, cells of width 1; `Laplacian`, widths of density w exp(-w), see `quantizers.hashes.carving`): words
  b_1 ... b_d and, for random widths, s_1 ... s_d; a cell for each column, ``(s_j X_j + b_j 2**(shift - 32)) >> shift``.
- **signs** (`Angular`): words a_1 ... a_d for each of `power` hyperplanes; the cell's bit p is ``a_p . X >= 0``.
- **minhash** (`Jaccard`): words w_1 ... w_d; the column of the smallest word among those with X_j > 0, the first of
  equals; d for the empty set.

Cells become buckets by the universal rehash of `quantizers.hashes.counters`: with keys a_l, c_l, b the bucket is
``v B >> 24``, v the upper 24 bits of ``sum_l z_l (a_l + c_l z_l) + b`` modulo 2**64. Distinct cells share a bucket with
a probability that is known exactly, `collision`. Few enough signs are buckets as they are.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.errors import InputError
from sfumato.public.codec import Field, Flag, Schema, Text, Whole
from sfumato.public.rows import CAUCHY, CELLS, KEY_BYTES, NORMAL, WORD_BYTES, Law, row_bytes

LABEL = "local/rows"
HASH_BITS = 24
MASK = 2**64 - 1
MOST_BUCKETS = 64
MOST_POINT_BITS = 30


class RowHash(ABC):
    """The hash functions of a pool.

    Parameters
    ----------
    given : mapping
        The family's `fields`, checked.
    seed : bytes
        Public seed.
    dimension : int
        Columns of a point.
    """

    name: ClassVar[str]
    fields: ClassVar[dict[str, Field[Any]]] = {
        "buckets": Whole(2, MOST_BUCKETS),
        "rehash": Flag(),
        "point_bits": Whole(0, MOST_POINT_BITS),
    }
    few_cells: ClassVar[bool] = False  # whether cells may be few enough to be buckets as they are

    def __init__(self, given: Mapping[str, Any], seed: bytes, dimension: int) -> None:
        self.seed = seed
        self.dimension = dimension
        self.buckets: int = given["buckets"]
        self.rehashes: bool = given["rehash"]
        self.point_bits: int = given["point_bits"]
        if not self.rehashes and not self.few_cells:  # a cell in the place of a bucket would give the point away
            raise InputError("the protocol's hash functions need a rehash")

    @property
    @abstractmethod
    def words(self) -> int:
        """How many 32-bit words a row takes."""

    @property
    def length(self) -> int:
        """Integers of a cell."""
        return 1

    @property
    def keys(self) -> int:
        """How many 64-bit keys a row's rehash takes."""
        return 2 * self.length + 1 if self.rehashes else 0

    @property
    def collision(self) -> Fraction:
        """Probability with which distinct cells share a bucket."""
        if not self.rehashes:
            return Fraction(0)
        smaller, larger_ones = divmod(2**HASH_BITS, self.buckets)
        squares = larger_ones * (smaller + 1) ** 2 + (self.buckets - larger_ones) * smaller**2
        return Fraction(squares, 4**HASH_BITS)

    @property
    def row_size(self) -> int:
        """Public random bytes of a row."""
        return KEY_BYTES * self.keys + WORD_BYTES * self.words

    def bucket(self, row: int, X: Sequence[int]) -> int:
        """Bucket of a point in a row, from 0 to `buckets` - 1."""
        keys, words = self.drawn(row)
        return self.named(keys, self.cell(words, X))

    def drawn(self, row: int) -> tuple[array[int], array[int]]:
        """Keys and words of a row."""
        content = row_bytes(self.seed, LABEL, row, self.row_size)
        split = KEY_BYTES * self.keys
        return little_endian(content[:split], "Q"), little_endian(content[split:])

    def named(self, keys: array[int], cell: Sequence[int]) -> int:
        """Bucket of a cell under a row's keys."""
        if not self.rehashes:
            return cell[0]
        terms = zip(cell, keys[::2], keys[1::2], strict=False)
        total = keys[-1] + sum([z * (first + z * second) for z, first, second in terms])
        return ((total & MASK) >> (64 - HASH_BITS)) * self.buckets >> HASH_BITS

    @abstractmethod
    def cell(self, words: array[int], X: Sequence[int]) -> Sequence[int]:
        """Cell of a point under the function that the words define."""


def little_endian(content: bytes, kind: str = "I") -> array[int]:
    """Read 32-bit ("I") or 64-bit ("Q") little-endian words on any machine.

    Examples
    --------
    >>> little_endian(bytes([1, 0, 0, 0]))[0]
    1
    """
    words = array(kind, content)
    if sys.byteorder == "big":
        words.byteswap()
    return words


class PStable(RowHash):
    """One projection; the cell is its floor."""

    name = "p-stable"
    laws: ClassVar[dict[str, Law]] = {"normal": NORMAL, "cauchy": CAUCHY}
    fields: ClassVar[dict[str, Field[Any]]] = {**RowHash.fields, "law": Text(*laws)}

    def __init__(self, given: Mapping[str, Any], seed: bytes, dimension: int) -> None:
        super().__init__(given, seed, dimension)
        self.law = self.laws[given["law"]]
        self.shift = self.point_bits + self.law.fraction_bits

    @property
    def words(self) -> int:
        """An offset and a direction."""
        return 1 + self.dimension

    def projection(self, words: array[int], X: Sequence[int]) -> int:
        """Projection and offset, in units of ``2**-shift`` cells."""
        return sum(map(int.__mul__, self.law.numbers(words[1:]), X)) + (words[0] << self.shift >> 32)

    def cell(self, words: array[int], X: Sequence[int]) -> tuple[int]:
        """Floor of the projection."""
        return (self.projection(words, X) >> self.shift,)


class Grid(RowHash):
    """A grid with random offsets and, for the Laplacian kernel, random widths; one cell integer for each column."""

    name = "grid"
    fields: ClassVar[dict[str, Field[Any]]] = {**RowHash.fields, "random_widths": Flag()}

    def __init__(self, given: Mapping[str, Any], seed: bytes, dimension: int) -> None:
        super().__init__(given, seed, dimension)
        self.random_widths: bool = given["random_widths"]
        self.shift = self.point_bits + CELLS.fraction_bits

    @property
    def words(self) -> int:
        """Offsets, and widths where they are random."""
        return (1 + self.random_widths) * self.dimension

    @property
    def length(self) -> int:
        """One integer for each column."""
        return self.dimension

    def cell(self, words: array[int], X: Sequence[int]) -> list[int]:
        """Cell in every column."""
        shift, d = self.shift, self.dimension
        slopes = CELLS.numbers(words[d:]) if self.random_widths else [1 << CELLS.fraction_bits] * d
        return [(s * x + (b << shift >> 32)) >> shift for s, x, b in zip(slopes, X, words, strict=False)]


class Signs(RowHash):
    """Sides of `power` hyperplanes through the origin, as the bits of one integer."""

    name = "signs"
    fields: ClassVar[dict[str, Field[Any]]] = {**RowHash.fields, "power": Whole(1, 32)}
    few_cells = True

    def __init__(self, given: Mapping[str, Any], seed: bytes, dimension: int) -> None:
        super().__init__(given, seed, dimension)
        self.power: int = given["power"]
        if not self.rehashes and self.buckets != 1 << self.power:
            raise InputError("the protocol's hyperplanes do not fit its buckets")

    @property
    def words(self) -> int:
        """A direction for each hyperplane."""
        return self.power * self.dimension

    def cell(self, words: array[int], X: Sequence[int]) -> tuple[int]:
        """Signs, the first hyperplane's in the lowest bit."""
        signs, d = 0, self.dimension
        for plane in range(self.power):
            direction = NORMAL.numbers(words[plane * d : (plane + 1) * d])
            signs |= (sum(map(int.__mul__, direction, X)) >= 0) << plane
        return (signs,)


class MinHash(RowHash):
    """The member of a set that comes first in a random order."""

    name = "minhash"

    @property
    def words(self) -> int:
        """A rank for each possible member."""
        return self.dimension

    def cell(self, words: array[int], X: Sequence[int]) -> tuple[int]:
        """Column of the smallest word among the members."""
        best, column = 2**32, self.dimension
        for j, (word, member) in enumerate(zip(words, X, strict=True)):
            if member > 0 and word < best:
                best, column = word, j
        return (column,)


FAMILIES: dict[str, type[RowHash]] = {family.name: family for family in (PStable, Grid, Signs, MinHash)}


def family_of(parameters: Mapping[str, Any]) -> type[RowHash]:
    """Return the family that a protocol names."""
    return FAMILIES[Text(*FAMILIES).read(parameters.get("family"), "mechanism.family")]


def row_hash(parameters: Mapping[str, Any], seed: bytes, dimension: int) -> RowHash:
    """Build the hash functions that a protocol names, out of those of its parameters that are theirs."""
    family = family_of(parameters)
    own = {name: value for name, value in parameters.items() if name in family.fields}
    return family(Schema(**family.fields).read(own, "mechanism"), seed, dimension)
