"""Random Fourier features on integers: k(x, y) = E cos(w.(x - y)) for every positive definite shift-invariant kernel.

Source: random Fourier features as used by LSQ in Wagner et al. (2023) (3.1 and appendix D). Two layouts:

- ``phase``: one coordinate cos(w.x + b) per term, b uniform (as published): a (1, radius, 1) family;
- ``pair``: two coordinates (cos w.x, sin w.x) per term: a (2, radius, 2) family whose approximation variance is halved.

The integer phase picks a cosine from a table of integers (see `phases`). The limit of the exact sum is the float64
matrix product plus one table look-up per cosine (about 0.7 ns).

Bound of one record. phase: every coordinate is at most r, so l1 <= I r and l2^2 <= I r^2. pair: every pair lies in
the disc of radius r, so l1 <= sqrt(2) r per pair and l2^2 <= m r^2.

Variance of one answer over the draw of w: about P/I for phases and P/(2m) for pairs, P the mean kernel value between
two points of the data (docs/fourier.md).

Sharded pairs: every record adds only to the few frequencies of one secret group. Records fall by independent secret
coins into G groups; a group keeps the pairs (cos w.x, sin w.x) of its own m_g frequencies. Neighbouring data sets
differ in one record, which the coins put into one group whichever it is, so a group-wise mechanism pays for m_g pairs
instead of G m_g (parallel composition, conditional on the coins; the coins of other records do not depend on it). The
work falls by the factor G too.

The group must come from the record's own coins. A group read off the row's position (i mod G, equal splits) moves all
later records when one is removed and is not private; that twin is in the audit.

Estimate: G times the mean over all terms is unbiased, because every record lands in group g with probability 1/G.
Variance over the coins: 1 / (2 n m_g) of the mean kernel value, on top of the P / (2 m) of m = G m_g pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Object, Schema, Text, Whole, brief
from sfumato.public.ranges import MOST_INTEGERS
from sfumato.quantizers.base import Bound, Floats, Integers
from sfumato.quantizers.cosines import RADIUS, PhaseQuantizer, check_radius, pair_amplitudes, pair_l1, pair_waves
from sfumato.quantizers.mesh import Complex
from sfumato.quantizers.phases import COLUMN_BLOCK, TABLE_BITS, Phases


@njit(nogil=True, cache=True)
def add_cosines(bits, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add the table's cosine of every phase (its bits shifted down to a table cell) to the sum of its column."""
    mask = len(table) - 1
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            sums[j] += table[(bits[i, j] >> shift) & mask]


@njit(nogil=True, cache=True)
def add_pairs(bits, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add cosine and sine of every phase to the two sums of its column."""
    mask = len(table) - 1
    quarter = len(table) // 4
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            cell = (bits[i, j] >> shift) & mask
            sums[2 * j] += table[cell]
            sums[2 * j + 1] += table[(cell - quarter) & mask]


@njit(nogil=True, cache=True)
def _cosine(turns):  # type: ignore[no-untyped-def]
    t = abs(turns - np.rint(turns))
    # cos(2 pi t) = sin(2 pi (1/4 - t)), an odd series on a quarter turn each way
    u = 6.283185307179586 * (0.25 - t)
    s = u * u
    sine = s * -7.647163731819816e-13 + 1.6059043836821613e-10
    sine = s * sine - 2.505210838544172e-08
    sine = s * sine + 2.7557319223985893e-06
    sine = s * sine - 1.984126984126984e-04
    sine = s * sine + 8.333333333333333e-03
    sine = s * sine - 1.6666666666666666e-01
    return u + u * s * sine


def _all_cosine_terms(turns: Floats, lengths: Floats, shifts: Floats) -> None:
    turns[:] = lengths * _cosine.py_func(turns - shifts)


@njit(reads=_all_cosine_terms, nogil=True, cache=True)
def cosine_terms(turns, lengths, shifts):  # type: ignore[no-untyped-def]
    """Replace turns[i, j] by lengths[j] * cos(2 pi (turns[i, j] - shifts[j])), accurate to 1e-9."""
    for i in range(turns.shape[0]):
        for j in range(turns.shape[1]):
            turns[i, j] = lengths[j] * _cosine(turns[i, j] - shifts[j])


LAYOUTS = ("phase", "pair")
ROW_BLOCK = 128  # with COLUMN_BLOCK, a block of phases stays within the second-level cache


@dataclass(frozen=True, eq=False)
class FourierQuantizer(PhaseQuantizer):
    """Fourier features of a shift-invariant kernel; build it with `FourierQuantizer.draw`.

    Attributes
    ----------
    phases : Phases
        Public frequencies and offsets on integer grids.
    layout : {"phase", "pair"}
        One cosine with a random offset, or cosine and sine.
    radius : int
        Integer amplitude that no coordinate (phase) and no pair (pair) exceeds.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.kernels import Gaussian
    >>> quantizer = FourierQuantizer.draw(Gaussian(1.0), dimension=2, terms=3, seed=7, layout="pair")
    >>> quantizer.encode(np.zeros((1, 2))).shape
    (1, 6)
    """

    phases: Phases
    layout: str = "pair"
    radius: int = 2**15 - 1

    name: ClassVar[str] = "fourier"
    schema = Schema(
        {"quantizer": name, "table_bits": TABLE_BITS}, layout=Text(*LAYOUTS), radius=RADIUS, phases=Object()
    )

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.layout not in LAYOUTS:
            raise InputError(f"layout must be 'phase' or 'pair', got {brief(self.layout)}")

    @classmethod
    def draw(
        cls,
        kernel: ShiftInvariantKernel,
        dimension: int,
        terms: int,
        seed: int,
        *,
        layout: str = "pair",
        radius: int = 2**15 - 1,
        bounds: Any = None,
        outside: str = "clip",
    ) -> FourierQuantizer:
        """Draw public frequencies for a kernel and fit the integer grids to the bounds.

        Parameters
        ----------
        kernel : ShiftInvariantKernel
            The kernel to approximate.
        dimension, terms : int
            Columns of a point; number of frequencies.
        seed : int
            Public feature seed.
        layout, radius
            See the class.
        bounds : pair, or one pair per column, optional
            Public bounds. Without them a wide box around the origin is used (up to 2**17 bandwidths each way).
        outside : {"clip", "drop"}
            What to do with finite values outside the bounds.
        """
        return cls(Phases.draw(kernel, dimension, terms, seed, bounds, outside), layout, radius)

    @property
    def width(self) -> int:
        """Coordinates per frequency."""
        return 1 if self.layout == "phase" else 2

    @property
    def bound(self) -> Bound:
        """Bounds of one record, see the module's text."""
        terms, radius = self.terms, self.radius
        l1 = radius if self.layout == "phase" else pair_l1(radius)
        return Bound(l1=terms * l1, l2_squared=terms * radius**2, largest=radius)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integer features of the kept rows; pairs are interleaved (cos, sin, cos, sin, ...)."""
        cells = self.phases.integers(rows) >> (self.phases.bits - TABLE_BITS)
        if self.layout == "phase":
            return np.asarray(self._table[cells], dtype=np.int64)
        quarter, mask = 1 << (TABLE_BITS - 2), (1 << TABLE_BITS) - 1
        pairs = np.stack([self._table[cells], self._table[(cells - quarter) & mask]], axis=2)
        return pairs.reshape(len(cells), self.size).astype(np.int64)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`: per block one exact matrix product, then one pass of table look-ups."""
        block = self.phases.rows(min(ROW_BLOCK, len(rows)))
        products = np.empty(len(block) * min(COLUMN_BLOCK, self.terms))
        shift, total = self.phases.bits - TABLE_BITS, 0
        add = add_cosines if self.layout == "phase" else add_pairs
        for start in range(0, len(rows), ROW_BLOCK):
            kept = self.phases.lattice.place(rows[start : start + ROW_BLOCK], block)
            for index, columns in enumerate(self.phases.blocks):
                count = columns.shape[1]
                product = products[: kept * count].reshape(kept, count)
                np.dot(block[:kept], columns, out=product)
                first = index * COLUMN_BLOCK * self.width
                add(product.view(np.int64), self._table, shift, sums[first : first + count * self.width])
            total += kept
        return total

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y) in the layout of `encode`."""
        angles = 2 * np.pi * self.phases.turns(Y)
        if self.layout == "phase":
            return np.asarray(np.cos(angles) * (2 / self.gain))
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=2)
        return pairs.reshape(len(Y), self.size) / self.gain

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """One cosine a term, see `pair_amplitudes`."""
        if self.layout == "phase":
            lengths, shifts = 2 * sums, np.zeros(self.terms)
        else:
            lengths, shifts = pair_amplitudes(sums)
        turns = self.phases.turns(Y)
        cosine_terms(turns, lengths / self.gain, shifts)
        return turns

    def amplitudes(self, sums: Floats) -> Complex:
        """Those of single cosines, or of pairs."""
        waves = 2 * sums.astype(np.complex128) if self.layout == "phase" else pair_waves(sums)
        return waves / self.gain


CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class ShardedFourier(PhaseQuantizer):
    """Fourier pairs in groups; one record touches the pairs of one group.

    Attributes
    ----------
    phases : Phases
        All G * m_g public frequencies, group by group.
    per_group : int
        m_g.
    radius : int
        Integer radius of the disc of one pair.
    """

    phases: Phases
    per_group: int
    radius: int

    name: ClassVar[str] = "sharded-fourier"
    schema = Schema(
        {"quantizer": name, "table_bits": TABLE_BITS}, per_group=Whole(1, MOST_INTEGERS), radius=RADIUS, phases=Object()
    )

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.per_group < 1 or self.phases.terms % self.per_group:
            raise InputError(f"{self.phases.terms} frequencies cannot be cut into groups of {self.per_group}")

    @property
    def width(self) -> int:
        """A pair has two coordinates."""
        return 2

    @property
    def groups(self) -> int:
        """G."""
        return self.terms // self.per_group

    @property
    def shards(self) -> int:
        """G: coins keep one record in G."""
        return self.groups

    @property
    def bound(self) -> Bound:
        """Bounds of one record: the pairs of one group, each in the disc of the radius."""
        return Bound(
            l1=self.per_group * pair_l1(self.radius),
            l2_squared=self.per_group * self.radius**2,
            largest=self.radius,
        )

    @cached_property
    def _constants(self) -> Floats:
        return np.stack(self.phases.cut(self.per_group))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows (zero outside the row's group); the coins decide the groups."""
        encoded = np.zeros((len(rows), self.size), dtype=np.int64)
        points = self.phases.rows(len(rows))
        kept = self.phases.lattice.place(rows, points)
        own = encoded[:kept].reshape(kept, self.groups, 2 * self.per_group)
        shift = self.phases.bits - TABLE_BITS
        _write_grouped(points, self._draw(coins, kept), self._constants, self._table, shift, own)
        return encoded[:kept]

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to the sums of their groups."""
        points = self.phases.rows(min(CHUNK_ROWS, len(rows)))
        total = 0
        for start in range(0, len(rows), CHUNK_ROWS):
            kept = self.phases.lattice.place(rows[start : start + CHUNK_ROWS], points)
            self._add(points[:kept], self._draw(coins, kept), sums)
            total += kept
        return total

    def _draw(self, coins: SecureBits | None, count: int) -> Integers:
        if coins is None:
            raise InputError("sharded features need secret coins: pass coins=SecureBits()")
        return coins.below(self.groups, count)

    def _add(self, points: Floats, groups: Integers, sums: Integers) -> None:
        # Sorted by group, so that a group's frequencies stay in the cache while its rows pass. Sixteen bits are sorted
        # by counting, in a fifth of the time; of more groups than that a few pass together, to the same sums.
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        shift = self.phases.bits - TABLE_BITS
        _add_grouped(points, order, groups, self._constants, self._table, shift, sums.reshape(self.groups, -1))

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y): those of pairs, times G."""
        angles = 2 * np.pi * self.phases.turns(Y)
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=2)
        return pairs.reshape(len(Y), self.size) * (self.groups / self.gain)

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """One cosine a term, see `pair_amplitudes`."""
        lengths, shifts = pair_amplitudes(sums)
        turns = self.phases.turns(Y)
        cosine_terms(turns, lengths * (self.groups / self.gain), shifts)
        return turns

    def amplitudes(self, sums: Floats) -> Complex:
        """Those of pairs, times G."""
        return pair_waves(sums) * (self.groups / self.gain)


@njit(nogil=True, cache=True)
def _add_grouped(points, order, groups, constants, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add cosine and sine of the phases of each row's group; all sums are exact integers below 2^53, in any order."""
    mask, quarter = len(table) - 1, len(table) // 4
    columns, terms = constants.shape[1], constants.shape[2]
    phase = np.empty(terms)
    bits = phase.view(np.int64)
    for row in order:
        group = groups[row]
        for k in range(terms):
            phase[k] = constants[group, columns - 1, k]
        for j in range(columns - 1):
            value = points[row, j]
            for k in range(terms):
                phase[k] += value * constants[group, j, k]
        for k in range(terms):
            cell = (bits[k] >> shift) & mask
            sums[group, 2 * k] += table[cell]
            sums[group, 2 * k + 1] += table[(cell - quarter) & mask]


@njit(nogil=True, cache=True)
def _write_grouped(points, groups, constants, table, shift, encoded):  # type: ignore[no-untyped-def]
    """Write cosine and sine of the phases of each row's group to the row's own integers."""
    first = np.zeros(1, dtype=np.int64)
    for row in range(len(encoded)):
        _add_grouped(points[row : row + 1], first, groups[row : row + 1], constants, table, shift, encoded[row])
