r"""The Fourier series on a box (`lattice`) by products of columns: sums of many modes by one small matrix product.

A mode's pair exp(2 pi i (j / L) . x) is a product over the columns. Columns are put into two halves; a record has one
complex integer for every part of a mode that a half sees, and its pair is the product of the two. So the sums of all
pairs over a block of rows are entries of A B', A and B the halves' integers: a few multiplications a record for each
mode instead of a table look-up for each.

Integers (law 1). A value becomes a position p = floor((x - lower) 2^20 / L), one subtraction and one product rounded
once each. exp(2 pi i p / 2^20) is the product of two table entries of radius F = 2^20, and its powers follow by
multiplication, each time divided by F and cut towards 0. In a half of several columns powers are rounded to the radius
R = 2^12, and so is the product of two columns; at last a part a is rounded to a radius r_a of its own. All of these are
float64 below 2^53 that hold whole numbers or their quotients by powers of two, hence exact; sums over a block of 2^12
rows are at most 2^12 R^2 < 2^53: the matrix product is exact too, in any order, and blocks are added as 64-bit
integers.

Amplitudes. The coefficients c_j multiply over the columns, and so do the best amplitudes sqrt |c_j|: the radii r_a of
the halves' parts are in proportion to the square roots of their own coefficients.

Hard bound. Entries of the tables lie in the disc of radius F, a product of two such numbers over F does, and cutting
towards 0 makes both coordinates smaller: all powers lie in it. Rounding z (r - 1) / F moves a number by sqrt(1/2) at
most, from within r - 1: it stays within r; so does the product of two of radius R, as z w (r - 1) / R^2. A pair is the
product of a number of the disc of radius r_a and one of that of radius r_b, so it lies in the disc of radius r_a r_b.

Bias of the integers, in units of a pair's length: the position is half a step off at most, pi |j| 2^-20 with |j| the
sum of the mode's numbers; powers lose 4 |j| 2^-20 at most; a rounding to the radius r is off by sqrt(1/2) / (r - 1) at
most and by sqrt(1/12) / (r - 1) in each coordinate as a root mean square. A half of k > 1 columns has 2 k - 2 of them
at R beside its last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public.portable import cos_sin_turns
from sfumato.quantizers.base import Floats, Integers, stored_array
from sfumato.quantizers.clamping import held
from sfumato.quantizers.cosines import cosine_table
from sfumato.quantizers.lattice import LatticeQuantizer
from sfumato.quantizers.nodes import keep
from sfumato.quantizers.series import MOST_MODE

RADIUS = 2**12  # R
FINE = 2**20  # F, of a power; and positions in a period
TABLE_BITS = 10
# Rows of a matrix product: enough that threads seldom meet, and fewer where their parts would take much memory.
ROW_BLOCK, MOST_ROWS, BLOCK_PARTS = 512, 4096, 2**17


@dataclass(frozen=True, eq=False)
class Half:
    """What some of the columns see of the modes, up to its sign.

    Attributes
    ----------
    columns : tuple of int
        The columns.
    first : int
        Parts of the first column alone: its modes 0, 1, 2, ...
    steps : tuple of ndarray of int64, shape (parts, 2)
        For each column after the first: the part of the columns before, and the number of this one's mode.
    which, sign : ndarray of int64, shape (pairs,)
        Part of every pair, and whether it is the part itself or its conjugate.
    radii : ndarray of float64, shape (parts,)
        r_a; R where no pair has the part.
    """

    columns: tuple[int, ...]
    first: int
    steps: tuple[Integers, ...]
    which: Integers
    sign: Integers
    radii: Floats

    @classmethod
    def of(cls, modes: Integers, columns: tuple[int, ...], radii: Integers) -> Half:
        """Find the parts of all modes in some columns."""
        own = modes[:, list(columns)]
        sign = np.array([next((1 if j > 0 else -1 for j in mode if j), 1) for mode in own.tolist()], dtype=np.int64)
        own = own * sign[:, None]
        parts = [np.arange(int(own[:, :1].max(initial=0)) + 1)[:, None]]
        parts += [np.unique(own[:, : length + 1], axis=0) for length in range(1, len(columns))]
        steps = [np.column_stack([_places(before, each[:, :-1]), each[:, -1]]) for before, each in pairwise(parts)]
        which = _places(parts[-1], own) if columns else np.zeros(len(modes), dtype=np.int64)
        of_parts = np.full(len(parts[-1]), float(RADIUS))
        of_parts[which] = radii
        if (of_parts[which] != radii).any():
            raise InputError("pairs that share a part must share its radius")
        return cls(columns, len(parts[0]), tuple(steps), which, sign, of_parts)

    @property
    def roundings(self) -> int:
        """Roundings at R."""
        return max(2 * len(self.columns) - 2, 0)

    @property
    def lengths(self) -> Floats:
        """Length of every pair's part."""
        return np.asarray((self.radii[self.which] - 1) * ((RADIUS - 1) / RADIUS) ** self.roundings)

    def errors(self, largest: bool) -> Floats:
        """Squared typical error of every pair's part in each coordinate, or its largest error."""
        own = 1 / (self.radii[self.which] - 1) if self.columns else np.zeros(len(self.which))
        if largest:
            return math.sqrt(0.5) * (own + self.roundings / (RADIUS - 1))
        return np.asarray((np.square(own) + self.roundings / (RADIUS - 1) ** 2) / 12)

    def space(self, rows: int) -> list[Floats]:
        """Return room for what `parts` computes."""
        heights = [
            self.first,
            *(size for step in self.steps for size in (int(np.abs(step[:, 1]).max()) + 1, len(step))),
        ]
        return [np.empty((2, height, rows)) for height in heights]

    def parts(self, turned: Floats, space: list[Floats]) -> Floats:
        """Return the parts of rows, shape (2, parts, rows): real ones, then imaginary ones."""
        found = space[0]
        if not self.columns:
            found[:] = [[[self.radii[0] - 1]], [[0.0]]]
            return found
        _raise(turned[self.columns[0]], self._radii(0, self.first), found)
        for place, column in enumerate(self.columns[1:], start=1):
            powers, joined = space[2 * place - 1 : 2 * place + 1]
            _raise(turned[column], np.full(powers.shape[1], float(RADIUS)), powers)
            _join(found, powers, self.steps[place - 1], self._radii(place, joined.shape[1]), joined)
            found = joined
        return found

    def _radii(self, place: int, count: int) -> Floats:
        """Radii of what the columns up to a place make: their own at the last."""
        return self.radii if place == len(self.steps) else np.full(count, float(RADIUS))


def _places(among: Integers, rows: Integers) -> Integers:
    """Return where rows stand in a table that has them all."""
    places = {row: place for place, row in enumerate(map(tuple, among.tolist()))}
    return np.array([places[row] for row in map(tuple, rows.tolist())], dtype=np.int64)


def halves_of(columns: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cut the columns in two; the second half of one column is empty."""
    return tuple(range((columns + 1) // 2)), tuple(range((columns + 1) // 2, columns))


@dataclass(frozen=True, eq=False)
class ProductLattice(LatticeQuantizer):
    """A Fourier series of a separable kernel on a box, whose pairs are products of columns; see the module's text.

    Attributes
    ----------
    amplitudes : ndarray of int64, shape (pairs, 2)
        r_a and r_b of every pair, from 2 to R.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers.box import Box
    >>> radii = np.array([[90, 11], [70, 11]])
    >>> quantizer = ProductLattice(Gaussian(1.0), Box((0.0,), (6.0,)), (9.2,), np.array([[1], [2]]), radii)
    >>> quantizer.encode(np.array([[0.0]])).tolist()
    [[890, 0, 690, 0]]
    """

    name: ClassVar[str] = "product-lattice"
    schema = LatticeQuantizer.schema.extended({"quantizer": name})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.amplitudes.shape[1:] != (2,) or not ((self.amplitudes >= 2) & (self.amplitudes <= RADIUS)).all():
            raise InputError(f"every pair has two radii from 2 to {RADIUS}")
        self._halves  # noqa: B018  # radii that do not fit together

    @cached_property
    def _halves(self) -> tuple[Half, Half]:
        first, second = halves_of(self.domain.dimension)
        return Half.of(self.modes, first, self.amplitudes[:, 0]), Half.of(self.modes, second, self.amplitudes[:, 1])

    @cached_property
    def _lengths(self) -> Floats:
        """Periods in the units of the data."""
        return np.array(self.periods) * self.kernel.column_scales(self.domain.dimension)

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        """What `_turn` needs: edges, columns, positions per unit of length, and the tables."""
        box, cells = self.domain, 1 << TABLE_BITS
        edges = np.array(box.lower), np.array(box.upper), box.outside == "drop"
        coarse = cosine_table(FINE, TABLE_BITS).astype(np.float64)
        fine = np.rint((FINE - 1) * np.stack(cos_sin_turns(((np.arange(cells) + 0.5) / cells - 0.5) / cells)))
        return edges, np.arange(box.dimension), FINE / self._lengths, coarse, fine

    def _blocks(self, rows: NDArray[Any]) -> Iterator[tuple[Floats, Floats]]:
        """Both halves' integers, block by block, in the same place."""
        turned, spaces = np.empty((0, 2, 0)), [[np.empty(0)]] * 2
        largest = max(len(half.radii) for half in self._halves)
        length = max(ROW_BLOCK, min(MOST_ROWS, BLOCK_PARTS // largest))
        for start in range(0, len(rows), length):
            block = rows[start : start + length]
            if turned.shape[2] != len(block):
                turned = np.empty((self.domain.dimension, 2, len(block)))
                spaces = [half.space(len(block)) for half in self._halves]
            kept = _turn(block, *self._parts, turned)
            left, right = (half.parts(turned, space) for half, space in zip(self._halves, spaces, strict=True))
            yield left[:, :, :kept], right[:, :, :kept]

    def _paired(self, at: Callable[[int, int], Floats]) -> Integers:
        """Pairs (cos, sin, cos, sin, ...) from products of the halves' numbers: 0 for real ones, 1 for imaginary."""
        first, second = (half.sign for half in self._halves)
        real, imaginary = at(0, 0) - first * second * at(1, 1), first * at(1, 0) + second * at(0, 1)
        pairs = np.stack([real, imaginary], axis=-1).astype(np.int64)
        return pairs.reshape(*real.shape[:-1], 2 * len(self.modes))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows: the count's, then pairs (cos, sin, cos, sin, ...)."""
        first, second = (half.which for half in self._halves)
        found = [np.zeros((0, 2 * len(self.modes)), dtype=np.int64)]
        for left, right in self._blocks(rows):
            found.append(self._paired(lambda i, j: (left[i, first] * right[j, second]).T))  # noqa: B023
        flat = np.concatenate(found)
        if not self.counted:
            return flat
        return np.hstack([np.full((len(flat), 1), self.counted, dtype=np.int64), flat])

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers: one exact matrix product for each block."""
        first, second = self._halves
        # Whole numbers between the blocks: a caller's rows may be so many that their sums leave 2^53.
        products, total = np.zeros((2, len(first.radii), 2, len(second.radii)), dtype=np.int64), 0
        for left, right in self._blocks(rows):
            kept = left.shape[2]
            heights = 2 * len(first.radii), 2 * len(second.radii)  # of which nothing follows where no row is kept
            block = left.reshape(heights[0], kept) @ right.reshape(heights[1], kept).T
            products += block.reshape(products.shape).astype(np.int64)
            total += kept
        if self.counted:
            sums[0] += self.counted * total
        sums[1 if self.counted else 0 :] += self._paired(lambda i, j: products[i, first.which, j, second.which])
        return total

    @property
    def radii(self) -> Integers:
        """Hard bounds of the pairs' lengths."""
        return np.asarray(self.amplitudes.prod(axis=1))

    @property
    def lengths(self) -> Floats:
        """Lengths that decode the pairs without bias."""
        first, second = self._halves
        return first.lengths * second.lengths

    def turns(self, Y: Floats) -> Floats:
        """Phases of queries in turns, from the lower edges."""
        return np.asarray((Y - np.array(self.domain.lower)) / self._lengths @ self.modes.T)

    @property
    def table_errors(self) -> tuple[Floats | float, Floats | float]:
        """Largest error of a pair, in units of its length, and the typical one of its coordinates."""
        fine = np.abs(self.modes).sum(axis=1) * ((math.pi + 4) / FINE)
        largest = sum((half.errors(largest=True) for half in self._halves), fine)
        return largest, np.sqrt(sum((half.errors(largest=False) for half in self._halves), np.square(fine) / 3))

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the series, whose modes and radii a release holds."""
        pairs = (size - (1 if fields["counted"] else 0)) // 2
        modes = stored_array(arrays, "modes", "i", (pairs, fields["box"].dimension), MOST_MODE)
        radii = stored_array(arrays, "amplitudes", "i", (pairs, 2), RADIUS)
        return cls(kernel, fields["box"], fields["periods"], modes, radii, fields["counted"])


@njit(nogil=True, cache=True)
def _turn(rows, edges, columns, inverse, coarse, fine, turned):  # type: ignore[no-untyped-def]
    """Put exp(2 pi i p / 2^20) of every column of the rows that the box keeps, and return how many those were."""
    lower, upper, drop = edges
    spot = np.empty(len(columns))
    cells = len(coarse)
    kept = 0
    turned[:] = 0.0  # rows that are dropped leave room
    for i in range(rows.shape[0]):
        if not keep(rows[i], lower, upper, drop, columns, spot):
            continue
        for j in range(len(columns)):
            position = held((spot[j] - lower[j]) * inverse[j], 0, FINE - 1)
            high, low = position // cells, position % cells
            a, b = coarse[high], coarse[(high - cells // 4) & (cells - 1)]
            c, d = fine[0, low], fine[1, low]
            turned[j, 0, kept] = np.trunc((a * c - b * d) * (1 / FINE))
            turned[j, 1, kept] = np.trunc((a * d + b * c) * (1 / FINE))
        kept += 1
    return kept


@njit(nogil=True, cache=True)
def _raise(turned, radii, powers):  # type: ignore[no-untyped-def]
    """Round the powers of numbers of radius 2^20, from the power 0 on, to radii of their own."""
    rows = turned.shape[1]
    real, imaginary = np.full(rows, float(FINE)), np.zeros(rows)
    for j in range(powers.shape[1]):
        shrink = (radii[j] - 1) / FINE
        for i in range(rows):
            powers[0, j, i] = np.rint(real[i] * shrink)
            powers[1, j, i] = np.rint(imaginary[i] * shrink)
            a, b = real[i], imaginary[i]
            real[i] = np.trunc((a * turned[0, i] - b * turned[1, i]) * (1 / FINE))
            imaginary[i] = np.trunc((a * turned[1, i] + b * turned[0, i]) * (1 / FINE))


@njit(nogil=True, cache=True)
def _join(before, powers, steps, radii, found):  # type: ignore[no-untyped-def]
    """Multiply parts of the columns before by powers of this one, or their conjugates, and round."""
    for k in range(len(steps)):
        shrink = (radii[k] - 1) / RADIUS**2
        part, number = steps[k]
        sign, power = (1.0, number) if number >= 0 else (-1.0, -number)
        for i in range(found.shape[2]):
            a, b = before[0, part, i], before[1, part, i]
            c, d = powers[0, power, i], sign * powers[1, power, i]
            found[0, k, i] = np.rint((a * c - b * d) * shrink)
            found[1, k, i] = np.rint((a * d + b * c) * shrink)
