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
from sfumato.quantizers.base import Bound, Floats, Integers, TermQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.cosines import (
    TABLE_BITS,
    check_radius,
    cosine_table,
    cosine_terms,
    pair_amplitudes,
    pair_l1,
    table_gain,
)
from sfumato.quantizers.phases import Phases

CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class ShardedFourier(TermQuantizer):
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

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.per_group < 1 or self.phases.terms % self.per_group:
            raise InputError(f"{self.phases.terms} frequencies cannot be cut into groups of {self.per_group}")

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.phases.lattice.box

    @property
    def terms(self) -> int:
        """Number of frequencies of all groups."""
        return self.phases.terms

    @property
    def width(self) -> int:
        """A pair has two coordinates."""
        return 2

    @property
    def groups(self) -> int:
        """G."""
        return self.terms // self.per_group

    @property
    def bound(self) -> Bound:
        """Bounds of one record: the pairs of one group, each in the disc of the radius."""
        return Bound(
            l1=self.per_group * pair_l1(self.radius),
            l2_squared=self.per_group * self.radius**2,
            largest=self.radius,
        )

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return cosine_table(self.radius)

    @cached_property
    def gain(self) -> float:
        """Amplitude that decodes the integer cosines without bias."""
        return table_gain(self._table)

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

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        phases, stored = self.phases.to_document()
        document = {
            "quantizer": self.name,
            "per_group": self.per_group,
            "radius": self.radius,
            "table_bits": TABLE_BITS,
            "phases": phases,
        }
        return document, stored

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> ShardedFourier:
        """Rebuild from a release."""
        phases = Phases.from_document(document["phases"], arrays, kernel, size)
        return cls(phases, int(document["per_group"]), int(document["radius"]))


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
