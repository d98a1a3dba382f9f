"""Sharded Fourier pairs: every record adds only to the few frequencies of one secret group.

Records fall by independent secret coins into G groups; a group keeps the pairs (cos w.x, sin w.x) of its own m_g
frequencies. Neighbouring data sets differ in one record, which the coins put into one group whichever it is, so a
group-wise mechanism pays for m_g pairs instead of G m_g (parallel composition, conditional on the coins; the coins of
other records do not depend on it). The work falls by the factor G too.

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
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Object, Schema, Whole
from sfumato.public.ranges import MOST_INTEGERS
from sfumato.quantizers.base import Bound, Floats, Integers
from sfumato.quantizers.fourier import (
    RADIUS,
    PhaseQuantizer,
    check_radius,
    cosine_terms,
    pair_amplitudes,
    pair_l1,
)
from sfumato.quantizers.phases import TABLE_BITS, Phases

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
        # Sorted by group, so that a group's frequencies stay in the cache while its rows pass.
        order = np.argsort(groups, kind="stable")
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
