"""The rows of a public pool as arrays: for many points at once, the integers that `hashing` computes on a device.

Everything is 64-bit integer arithmetic that cannot overflow for points of the domain (the design sees to it), so it
agrees with Python's integers exactly.

So do the laws of devices for many people at once.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.local.coins import SphereNoise
from sfumato.local.hashing import HASH_BITS, LABEL, Grid, MinHash, PStable, RowHash, Signs
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteGaussian, geometric
from sfumato.privacy.response import Window
from sfumato.public.ranges import DRAWN_BYTES, READER_MEMORY, check_reader_cost
from sfumato.public.rows import CELLS, KEY_BYTES, NORMAL, WORD_BYTES, Law, row_bytes
from sfumato.quantizers.base import Floats, Integers

Words = NDArray[np.uint32]
Buckets = NDArray[np.uint8]
SUM_BITS = 61  # of projections, offsets apart
BLOCK_CELLS = 1 << 20
LARGEST_HALF = 2**31
NUMBER_BYTES = 8
MOST_NUMBERS = READER_MEMORY // NUMBER_BYTES  # of a new pool, which every reader of its release draws again


def row_table(
    seed: bytes, label: str, rows: int, keys: int, words: int, first: int = 0
) -> tuple[NDArray[np.uint64], Words]:
    """Draw the keys and the words of rows `first`, ... of a pool, shapes (rows, keys) and (rows, words)."""
    size = KEY_BYTES * keys + WORD_BYTES * words
    content = b"".join(row_bytes(seed, label, row, size) for row in range(first, first + rows))
    table = np.frombuffer(content, dtype=np.uint8).reshape(rows, size)
    split = KEY_BYTES * keys
    left, right = (np.ascontiguousarray(part) for part in (table[:, :split], table[:, split:]))
    return left.view("<u8").astype(np.uint64), right.view("<u4").astype(np.uint32)


def pool_tables(
    seed: bytes,
    label: str,
    rows: int,
    keys: int,
    words: int,
    made: Callable[[NDArray[np.uint64], Words], tuple[NDArray[Any], ...]],
) -> tuple[NDArray[Any], ...]:
    """Draw a pool block by block, so that only what is `made` of the keys and words of its rows is ever held.

    Examples
    --------
    >>> (own,) = pool_tables(bytes(32), LABEL, 1000, 0, 5000, lambda keys, words: (words[:, :1],))
    >>> bool((own[:2] == row_table(bytes(32), LABEL, 2, 0, 1)[1]).all())
    True
    """
    block = max(1, BLOCK_CELLS // (keys + words))
    wholes: tuple[NDArray[Any], ...] = ()
    for start in range(0, rows, block):
        parts = made(*row_table(seed, label, min(block, rows - start), keys, words, start))
        wholes = wholes or tuple(np.empty((rows, *part.shape[1:]), part.dtype) for part in parts)
        for whole, part in zip(wholes, parts, strict=True):
            whole[start : start + len(part)] = part
    return wholes


def numbers(law: Law, words: Words) -> Integers:
    """Turn words into numbers of a law, as `Law.numbers` does.

    Examples
    --------
    >>> bool((numbers(NORMAL, np.array([5, 2**31], dtype=np.uint32)) == NORMAL.numbers([5, 2**31])).all())
    True
    """
    nodes = np.frombuffer(law.nodes, dtype=np.int64)
    index = (words >> np.uint32(16)).astype(np.int64)
    low = nodes[index]
    return np.asarray(low + ((nodes[index + 1] - low) * (words & np.uint32(0xFFFF)).astype(np.int64) >> 16))


def held_numbers(functions: RowHash) -> int:
    """Count the 64-bit numbers that `HashPool` holds for each row."""
    slopes = functions.dimension if isinstance(functions, Grid) and not functions.random_widths else 0
    return functions.keys + functions.words + slopes


def check_pool(rows: int, each: int) -> None:
    """Refuse to read a release whose pool holds too many numbers; they take eight bytes, being drawn in blocks."""
    check_reader_cost(rows * each * NUMBER_BYTES / DRAWN_BYTES)


def by_blocks(table: Integers, function: Callable[[Integers], Integers]) -> Integers:
    """Apply a function of rows to blocks of a table, whose products would take several times its memory."""
    block = max(1, BLOCK_CELLS // table.shape[1])
    return np.concatenate([function(table[start : start + block]) for start in range(0, len(table), block)])


class HashPool:
    """All rows of a pool of hash functions."""

    def __init__(self, row_hash: RowHash, rows: int) -> None:
        self.hash = row_hash
        self.rows = rows

    @cached_property
    def _tables(self) -> tuple[NDArray[np.uint64], tuple[Any, ...]]:
        made = self.hash
        keys, *tables = pool_tables(
            made.seed, LABEL, self.rows, made.keys, made.words, lambda keys, words: (keys, *self._functions(words))
        )
        return keys, (*tables, made.shift) if isinstance(made, PStable | Grid) else tuple(tables)

    def _functions(self, words: Words) -> tuple[Integers, ...]:
        """Hash functions of the rows of these words."""
        made, d = self.hash, self.hash.dimension
        if isinstance(made, PStable):
            return numbers(made.law, words[:, 1:]), shifted(words[:, 0], made.shift)
        if isinstance(made, Grid):
            slopes = numbers(CELLS, words[:, d:]) if made.random_widths else np.full((len(words), d), 1 << 16)
            return slopes, shifted(words[:, :d], made.shift)
        if isinstance(made, Signs):
            return (numbers(NORMAL, words).reshape(len(words), made.power, d),)
        return (words.astype(np.int64),)

    @cached_property
    def farthest(self) -> int:
        """Largest coordinate for which nothing overflows; queries, which may lie anywhere, are cut there."""
        made = self.hash
        if isinstance(made, PStable):
            return (1 << SUM_BITS) // (made.dimension * made.law.largest)
        if isinstance(made, Signs):
            return (1 << SUM_BITS) // (made.dimension * NORMAL.largest)
        return (1 << SUM_BITS) // CELLS.largest

    def buckets(self, X: Integers, which: Integers, rows: Integers) -> Buckets:
        """Bucket of point `which[i]` in row `rows[i]`, for every i."""
        _, tables = self._tables
        result = np.empty(len(rows), dtype=np.uint8)
        block = max(1, BLOCK_CELLS // self.hash.length)
        for start in range(0, len(rows), block):
            part = slice(start, start + block)
            cells = np.empty((len(rows[part]), self.hash.length), dtype=np.int64)
            _CELLS[type(self.hash)](X, which[part], rows[part], *tables, cells)
            result[part] = self.named(cells, rows[part])
        return result

    def named(self, cells: Integers, rows: Integers) -> Buckets:
        """Bucket of every cell, shape (cells, integers of a cell), in its row."""
        if not self.hash.rehashes:
            return cells[:, 0].astype(np.uint8)
        result = np.empty(len(rows), dtype=np.uint8)
        _rehash(cells, rows, self._tables[0], self.hash.buckets, result)
        return result

    @property
    def directions(self) -> Integers:
        """Directions of p-stable rows, shape (rows, columns)."""
        assert isinstance(self.hash, PStable)
        return np.asarray(self._tables[1][0])

    def projections(self, X: Integers, which: Integers, rows: Integers) -> Integers:
        """Projection of point `which[i]` in p-stable row `rows[i]`, in units of ``2**-shift`` cells."""
        _, (directions, offsets, _) = self._tables
        result = np.empty((len(rows), 1), dtype=np.int64)
        _floors(X, which, rows, directions, offsets, 0, result)
        return result[:, 0]

    def table(self, X: Integers) -> Buckets:
        """Bucket of every point in every row, shape (points, rows)."""
        result = np.empty((len(X), self.rows), dtype=np.uint8)
        rows = np.arange(self.rows)
        for i in range(len(X)):
            result[i] = self.buckets(X, np.full(self.rows, i), rows)
        return result


def shifted(words: Words, shift: int) -> Integers:
    """Offsets ``word 2**(shift - 32)``, rounded down."""
    wide = words.astype(np.int64)
    return wide << shift - 32 if shift >= 32 else wide >> 32 - shift


@njit(reads=True, nogil=True, cache=True)
def _floors(X, which, rows, directions, offsets, shift, cells):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        r, w = rows[i], which[i]
        total = offsets[r]
        for j in range(X.shape[1]):
            total += X[w, j] * directions[r, j]
        cells[i, 0] = total >> shift


@njit(reads=True, nogil=True, cache=True)
def _grid_cells(X, which, rows, slopes, offsets, shift, cells):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        r, w = rows[i], which[i]
        for j in range(X.shape[1]):
            cells[i, j] = (X[w, j] * slopes[r, j] + offsets[r, j]) >> shift


@njit(reads=True, nogil=True, cache=True)
def _signs(X, which, rows, directions, cells):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        r, w = rows[i], which[i]
        signs = 0
        for plane in range(directions.shape[1]):
            total = 0
            for j in range(X.shape[1]):
                total += X[w, j] * directions[r, plane, j]
            signs |= (total >= 0) << plane
        cells[i, 0] = signs


@njit(reads=True, nogil=True, cache=True)
def _first_members(X, which, rows, words, cells):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        r, w = rows[i], which[i]
        best, column = 1 << 32, X.shape[1]
        for j in range(X.shape[1]):
            if X[w, j] > 0 and words[r, j] < best:
                best, column = words[r, j], j
        cells[i, 0] = column


@njit(reads=True, nogil=True, cache=True)
def _rehash(cells, rows, keys, buckets, out):  # type: ignore[no-untyped-def]
    lower, scale = np.uint64(64 - HASH_BITS), np.uint64(HASH_BITS)
    for i in range(len(rows)):
        r = rows[i]
        code = keys[r, 2 * cells.shape[1]]
        for part in range(cells.shape[1]):
            cell = np.uint64(cells[i, part])
            code += cell * (keys[r, 2 * part] + cell * keys[r, 2 * part + 1])
        out[i] = ((code >> lower) * np.uint64(buckets)) >> scale


_CELLS = {PStable: _floors, Grid: _grid_cells, Signs: _signs, MinHash: _first_members}


def directions(points: Floats) -> Floats:
    """Do to many points what `promises.direction` does to one, bit for bit.

    Examples
    --------
    >>> directions(np.array([[6.0, 8.0], [0.0, np.nan]]))
    array([[0.6, 0.8],
           [1. , 0. ]])
    """
    largest = np.abs(points).max(axis=1, keepdims=True)
    good = (largest > 0) & np.isfinite(points).all(axis=1, keepdims=True)
    shares = np.where(good, points, np.arange(points.shape[1]) == 0) / np.where(good, largest, 1.0)
    squares = np.cumsum(shares * shares, axis=1)[:, -1:]  # from the first column to the last, unlike `sum`
    return np.asarray(shares / np.sqrt(squares), dtype=np.float64)


def draw_windows(law: Window, starts: Integers, bits: SecureBits) -> Integers:
    """Draw an output for each start, independently: the law of `Window.draw`.

    Examples
    --------
    >>> from sfumato.privacy.response import Odds
    >>> draw_windows(Window(4, 1, Odds(3, 1)), np.array([2, 2, 0]), SecureBits.seeded(7))
    array([1, 2, 0])
    """
    numbers = _below(law.total, starts.size, bits).reshape(starts.shape)
    others = (numbers - law.inside) // law.odds.unit
    others += law.width * (others >= starts)
    return np.where(numbers < law.inside, starts + numbers // law.odds.heads, others)


def _below(bound: int, count: int, bits: SecureBits) -> Integers:
    """Exactly uniform integers; two from a word where the bound allows, because sketches need very many."""
    if bound > LARGEST_HALF:
        return bits.below(bound, count)
    return bits.draw(_fill_halves, count, 0.5, np.uint64(bound))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_halves(words: NDArray[np.uint64], out: Integers, done: int, bound: np.uint64) -> tuple[int, int]:
    small = np.uint32(bound)
    limit = np.uint32(2**32 // bound * bound - 1)  # halves above it would favour small integers: draw again
    at = 0
    while at < words.size and done < out.size:
        word = words[at]
        at += 1
        low, high = np.uint32(word & np.uint64(0xFFFFFFFF)), np.uint32(word >> np.uint64(32))
        if low <= limit:
            out[done] = low % small
            done += 1
        if high <= limit and done < out.size:
            out[done] = high % small
            done += 1
    return done, at


def rounded_at_random(numerators: Integers, denominator: int, bits: SecureBits) -> Integers:
    """Round fractions to whole numbers without bias, by one exact coin each."""
    coins = bits.below(denominator, numerators.size).reshape(numerators.shape)
    return numerators // denominator + (coins < numerators % denominator)


def draw_spheres(law: SphereNoise, count: int, bits: SecureBits) -> Integers:
    """Draw noise vectors, shape (count, dimension): the law of `SphereNoise.draw`.

    A coin of probability exp(-a / b) is a geometric variable of rate 1 / b that is at least a. Shells are worked
    through one radius after another, because samplers take one sigma.

    Examples
    --------
    >>> draw_spheres(SphereNoise(2, Fraction(1, 5)), 1000, SecureBits.seeded(7)).shape
    (1000, 2)
    """
    size = law.dimension
    out = np.empty((count, size), dtype=np.int64)
    missing = np.arange(count)
    while missing.size:
        shells = law.first_shell + geometric(bits, missing.size * (size + 1), law.mu).reshape(-1, size + 1).sum(axis=1)
        order = np.argsort(shells, kind="stable")
        radii, starts = np.unique(shells[order], return_index=True)
        kept = np.zeros(missing.size, dtype=bool)
        for radius, places in zip(radii.tolist(), np.split(order, starts[1:]), strict=True):
            noise = DiscreteGaussian(radius).sample(bits, places.size * size).reshape(-1, size)
            short = size * radius**2 - np.square(noise).sum(axis=1)
            coins = geometric(bits, places.size, Fraction(1, 2 * radius**2))
            good = (short >= 0) & (coins >= short)
            kept[places[good]] = True
            out[missing[places[good]]] = noise[good]
        missing = missing[~kept]
    return out
