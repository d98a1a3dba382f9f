"""Sums of products of columns (`product_lattice`), compiled.

Rows are taken in tiles that stay in the first-level cache: positions, powers, parts and the products of parts follow
one another there. Parts are whole numbers of 16 bits, below R = 2^12 in magnitude.

Why `dots` is written in LLVM's own language: processors multiply 16-bit numbers and add up neighbours in one
instruction, 16 products at a time. Numba's loops are made for 8 at a time at most, which takes half as long again for
all of a release; a float64 matrix product takes four times as long as `dots`. Nothing in it belongs to one processor.

Exact: a lane of 32 bits adds up TILE / 8 products below 2^24, hence stays below 2^31 for a TILE up to 1024; lanes are
joined as 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.compiled import Written, njit
from sfumato.quantizers.clamping import held

FINE = 2**20  # F, of a power; and positions in a period
TABLE_BITS = 10
TILE = 256
AT_ONCE = 16
CELLS = 1 << TABLE_BITS
QUARTER = CELLS // 4


def _emit_dots(ir: Any, builder: Any, starts: Sequence[Any]) -> list[Any]:
    numbers = ir.VectorType(ir.IntType(16), AT_ONCE)
    wide, lanes = (ir.VectorType(ir.IntType(32), count) for count in (AT_ONCE, AT_ONCE // 2))
    even, odd = (ir.Constant(lanes, list(range(begin, AT_ONCE, 2))) for begin in (0, 1))
    sums = [ir.Constant(lanes, None)] * 4
    for place in range(0, TILE, AT_ONCE):
        factors = []
        for start in starts:
            here = builder.gep(start, [ir.Constant(ir.IntType(64), place)])
            loaded = builder.load(builder.bitcast(here, numbers.as_pointer()))
            loaded.align = 2
            factors.append(builder.sext(loaded, wide))
        for which in range(4):
            products = builder.mul(factors[which // 2], factors[2 + which % 2])
            # Neighbours together: what the one instruction does.
            pair = [builder.shuffle_vector(products, ir.Constant(wide, ir.Undefined), half) for half in (even, odd)]
            sums[which] = builder.add(sums[which], builder.add(*pair))
    joined, name = ir.VectorType(ir.IntType(64), AT_ONCE // 2), f"llvm.vector.reduce.add.v{AT_ONCE // 2}i64"
    module = builder.module
    total = module.globals.get(name) or ir.Function(module, ir.FunctionType(ir.IntType(64), [joined]), name)
    return [builder.call(total, [builder.sext(lane, joined)]) for lane in sums]


# Sums of a c, a d, b c and b d over a tile: four arrays of TILE numbers of 16 bits, side by side.
dots: Any = Written(_emit_dots)


@njit(nogil=True, cache=True)
def add(rows, tables, first, second, pairs, products):  # type: ignore[no-untyped-def]
    """Add the products of the halves' parts, for each pair of parts: real and imaginary ones of both, as in `dots`."""
    room = _room(len(tables[0][0]), first, second)
    start, total = 0, 0
    while start < len(rows):
        start, kept, left, right = _fill(rows, start, tables, first, second, room)
        left[:, :, kept:] = 0
        for k in range(len(pairs)):
            a, b = pairs[k]
            found = dots(left[0, a], left[1, a], right[0, b], right[1, b])
            products[k, 0] += found[0]
            products[k, 1] += found[1]
            products[k, 2] += found[2]
            products[k, 3] += found[3]
        total += kept
    return total


@njit(nogil=True, cache=True)
def encode_each(rows, tables, first, second, which, signs, encoded):  # type: ignore[no-untyped-def]
    """Write the pairs of each kept row to a row of its own of `encoded`, and return how many those were."""
    room = _room(len(tables[0][0]), first, second)
    start, total = 0, 0
    while start < len(rows):
        start, kept, left, right = _fill(rows, start, tables, first, second, room)
        for k in range(len(which)):
            (a, b), (one, other) = which[k], signs[k]
            for i in range(kept):
                p, q = np.int64(left[0, a, i]), one * left[1, a, i]
                r, s = np.int64(right[0, b, i]), other * right[1, b, i]
                encoded[total + i, 2 * k] = p * r - q * s
                encoded[total + i, 2 * k + 1] = q * r + p * s
        total += kept
    return total


@njit(nogil=True, cache=True)
def _room(columns, first, second):  # type: ignore[no-untyped-def]
    """Room for a tile: values, turns, two lines of powers, and what each half needs."""
    return np.zeros((columns, TILE)), np.zeros((columns, 2, TILE)), np.zeros((2, TILE)), _thrice(first), _thrice(second)


@njit(nogil=True, cache=True)
def _thrice(half):  # type: ignore[no-untyped-def]
    """Room for a half's parts, those before, and the powers of a column: apart, which is faster than in one piece."""
    height = half[-1]
    return (
        np.zeros((2, height, TILE), np.int16),
        np.zeros((2, height, TILE), np.int16),
        np.zeros((2, height, TILE), np.int16),
    )


@njit(nogil=True, cache=True)
def _fill(rows, start, tables, first, second, room):  # type: ignore[no-untyped-def]
    """Find the parts of the next rows that the box keeps, a tile at most; and how many, and where to go on."""
    spots, turned, lines, one, other = room
    start, kept = _turn(rows, start, tables, spots, turned)
    return start, kept, _parts(turned, first, lines, one), _parts(turned, second, lines, other)


@njit(nogil=True, cache=True)
def _turn(rows, start, tables, spots, turned):  # type: ignore[no-untyped-def]
    """Put exp(2 pi i p / 2^20) of every column, in units of 2^20; behind the rows that are kept is what was there."""
    (lower, upper, drop), inverse, coarse, fine = tables
    columns, kept = len(lower), 0
    while start < len(rows) and kept < TILE:
        keep = True
        for j in range(columns):
            value = np.float64(rows[start, j])
            keep &= np.isfinite(value) & (not drop or lower[j] <= value <= upper[j])
            spots[j, kept] = lower[j] if value < lower[j] else (upper[j] if value > upper[j] else value)
        kept += keep
        start += 1
    for j in range(columns):
        for i in range(kept):
            # One subtraction and one product, each rounded once: the same position on every machine.
            position = held((spots[j, i] - lower[j]) * inverse[j], 0, FINE - 1)
            high, low = (position >> TABLE_BITS) & (CELLS - 1), position & (CELLS - 1)
            a, b = coarse[high], coarse[(high - QUARTER) & (CELLS - 1)]
            c, d = fine[0, low], fine[1, low]
            turned[j, 0, i] = np.trunc((a * c - b * d) * (1 / FINE)) * (1 / FINE)
            turned[j, 1, i] = np.trunc((a * d + b * c) * (1 / FINE)) * (1 / FINE)
    return start, kept


@njit(nogil=True, cache=True)
def _parts(turned, half, lines, room):  # type: ignore[no-untyped-def]
    """Compute what one half sees of the modes."""
    found, other, powers = room
    columns, heights, constant, shrinks, steps, ends, factors, _ = half
    if len(columns) == 0:
        found[0, 0], found[1, 0] = constant, 0
        return found
    _raise(turned[columns[0]], shrinks[: heights[0]], lines, found)
    for place in range(1, len(columns)):
        _raise(turned[columns[place]], shrinks[: heights[place]], lines, powers)
        new = slice(ends[place - 1], ends[place])
        _join(found, powers, steps[new], factors[new], other)
        found, other = other, found
    return found


@njit(nogil=True, cache=True)
def _raise(turned, shrinks, lines, powers):  # type: ignore[no-untyped-def]
    """Round the powers of numbers of radius 2^20, from the power 0 on, to radii of their own."""
    real, imaginary = lines[0], lines[1]  # unpacked as one, the loop is not vectorised
    for i in range(TILE):
        powers[0, 0, i], powers[1, 0, i] = np.int16(np.rint(FINE * shrinks[0])), np.int16(0)
        real[i], imaginary[i] = FINE * turned[0, i], FINE * turned[1, i]
    for j in range(1, len(shrinks)):
        shrink = shrinks[j]
        for i in range(TILE):
            a, b = real[i], imaginary[i]
            powers[0, j, i] = np.int16(np.rint(a * shrink))
            powers[1, j, i] = np.int16(np.rint(b * shrink))
            real[i] = np.trunc(a * turned[0, i] - b * turned[1, i])
            imaginary[i] = np.trunc(a * turned[1, i] + b * turned[0, i])


@njit(nogil=True, cache=True)
def _join(before, powers, steps, factors, found):  # type: ignore[no-untyped-def]
    """Multiply parts of the columns before by powers of this one, or their conjugates, and round."""
    for k in range(len(steps)):
        part, number = steps[k]
        sign, power, factor = np.int32(1 if number >= 0 else -1), abs(number), factors[k]
        for i in range(TILE):
            a, b = np.int32(before[0, part, i]), np.int32(before[1, part, i])
            c, d = np.int32(powers[0, power, i]), np.int32(sign * powers[1, power, i])
            found[0, k, i] = np.int16(np.rint(np.int32(a * c - b * d) * factor))
            found[1, k, i] = np.int16(np.rint(np.int32(a * d + b * c) * factor))
