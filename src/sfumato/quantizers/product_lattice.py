r"""The Fourier series on a box (`lattice`) by products of columns: sums of many modes by products of few numbers.

A mode's pair exp(2 pi i (j / L) . x) is a product over the columns. Columns are put into two halves; a record has one
complex integer for every part of a mode that a half sees, and its pair is the product of the two. So the sums of all
pairs over a tile of rows are inner products of the halves' integers: four multiplications a record for each pair of
parts, which two modes share, instead of a table look-up for each (`product_sums`).

Integers (law 1). A value becomes a position p = floor((x - lower) 2^20 / L), one subtraction and one product rounded
once each. exp(2 pi i p / 2^20) is the product of two table entries of radius F = 2^20, and its powers follow by
multiplication, each time divided by F and cut towards 0: float64 below 2^53 that hold whole numbers or their quotients
by powers of two, hence exact. In a half of several columns powers are rounded to the radius R = 2^12, and so is the
product of two columns; at last a part a is rounded to a radius r_a of its own. Parts have 16 bits, and all that follows
is integer arithmetic: exact in any order.

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
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public.portable import cos_sin_turns
from sfumato.quantizers.base import Floats, Integers, stored_array
from sfumato.quantizers.cosines import cosine_table
from sfumato.quantizers.lattice import LatticeQuantizer
from sfumato.quantizers.product_sums import FINE, TABLE_BITS, add, encode_each
from sfumato.quantizers.series import MOST_MODE

RADIUS = 2**12  # R


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
        leading = own[np.arange(len(own)), (own != 0).argmax(axis=1)] if columns else np.zeros(len(own))
        sign = np.where(leading < 0, -1, 1)
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

    @cached_property
    def recipe(self) -> tuple[Any, ...]:
        """What `product_sums` needs to compute the parts.

        Columns, how many powers of each, the number that stands for no column, factors of powers, steps of all columns
        one below the other, where each column's end, factors of joined parts, and the most numbers at any time.
        """
        heights = [self.first, *(int(np.abs(step[:, 1]).max()) + 1 for step in self.steps)]
        alone = len(self.columns) < 2
        powers = self.radii if alone else np.full(max(heights), float(RADIUS))
        steps = np.concatenate([np.zeros((0, 2), dtype=np.int64), *self.steps])
        joined = np.full(len(steps), float(RADIUS))
        if not alone:
            joined[len(joined) - len(self.radii) :] = self.radii
        return (
            np.array(self.columns, dtype=np.int64),
            np.array(heights),
            int(self.radii[0]) - 1,
            (powers - 1) / FINE,
            steps,
            np.cumsum([0, *map(len, self.steps)]),
            (joined - 1) / RADIUS**2,
            max(*heights, *map(len, self.steps), 1),
        )


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
    def _tables(self) -> tuple[Any, ...]:
        """What `product_sums` needs to find positions: edges, positions per unit of length, and the tables."""
        box, cells = self.domain, 1 << TABLE_BITS
        edges = np.array(box.lower), np.array(box.upper), box.outside == "drop"
        coarse = cosine_table(FINE, TABLE_BITS).astype(np.float64)
        fine = np.rint((FINE - 1) * np.stack(cos_sin_turns(((np.arange(cells) + 0.5) / cells - 0.5) / cells)))
        return edges, FINE / self._lengths, coarse, fine

    @cached_property
    def _products(self) -> tuple[Integers, Integers]:
        """Pairs of parts whose products are summed, and which of them every pair has."""
        pairs, which = np.unique(np.column_stack([half.which for half in self._halves]), axis=0, return_inverse=True)
        return pairs, which.reshape(-1)

    @property
    def _recipe(self) -> tuple[Any, ...]:
        return (self._tables, *(half.recipe for half in self._halves))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows: the count's, then pairs (cos, sin, cos, sin, ...)."""
        pairs, which = self._products
        flat = np.empty((len(rows), 2 * len(self.modes)), dtype=np.int64)
        signs = np.column_stack([half.sign for half in self._halves])
        flat = flat[: encode_each(rows, *self._recipe, pairs[which], signs, flat)]
        if not self.counted:
            return flat
        return np.hstack([np.full((len(flat), 1), self.counted, dtype=np.int64), flat])

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers: the halves' products are summed first, to the same end."""
        pairs, which = self._products
        products = np.zeros((len(pairs), 4), dtype=np.int64)
        total = int(add(rows, *self._recipe, pairs, products))
        if self.counted:
            sums[0] += self.counted * total
        first, second = (half.sign for half in self._halves)
        real, mixed, other, imaginary = products[which].T
        pairs = np.stack([real - first * second * imaginary, first * other + second * mixed], axis=-1)
        sums[1 if self.counted else 0 :] += pairs.reshape(-1)
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
