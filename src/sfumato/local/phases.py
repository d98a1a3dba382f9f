"""`phases`, device half: few random frequencies of a large public pool, each phase through a discrete arc.

A row has a random frequency of the kernel and a random offset; the phase of a point, in turns, falls into one of
M = 256 equal positions. With an odd number `inside` of positions around it, itself in the middle, a position inside is
reported with weight `same` each and one outside with weight `other` each.

Guarantee: epsilon for every two points, without exceptions. The group of rows does not depend on the point; in each of
its `rows_each` rows every position has weight `same` or `other` out of the same total, and ``same <= other e^(epsilon /
rows_each)``. Positions are integers and weights are exact: there are no floating-point angles that could leak.

Phase of row r, by `public.rows.row_bytes(seed, "local/phases", r)`, 32-bit words b, a_1 ... a_d: with ``shift =
point_bits + fraction_bits``, ``(a . X + b 2**(shift - 32)) mod 2**shift`` in units of 2**-shift turns; the position is
its upper 8 bits. X are the columns in units of ``2**-point_bits`` times 2 pi bandwidths, from the middle of the bounds.
Frequencies are normal for `Gaussian` (X in units sqrt 2 smaller: they have variance 2), Cauchy for `Laplacian`, Laplace
for `Cauchy`. `phases_server` has the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.hashing import little_endian
from sfumato.local.pool_device import PoolDevice, positive_integer
from sfumato.privacy.response import Response
from sfumato.public.rows import CAUCHY, LAPLACE, NORMAL, WORD_BYTES, row_bytes

LABEL = "local/phases"
POSITION_BITS = 8
POSITIONS = 1 << POSITION_BITS
MOST_ROWS_EACH = 4
LAWS = {"normal": NORMAL, "cauchy": CAUCHY, "laplace": LAPLACE}


class Phases(PoolDevice):
    """The arc randomiser on phases; see the module's text."""

    name = "phases"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.inside = positive_integer(self.parameters, "inside")
        self.point_bits = positive_integer(self.parameters, "point_bits")
        if self.parameters.get("law") not in LAWS:
            raise InputError("the protocol's law of frequencies is not known; update sfumato")
        if self.inside % 2 == 0 or self.inside >= POSITIONS or self.rows_each > MOST_ROWS_EACH or self.point_bits > 30:
            raise InputError("the protocol's arcs are out of range")
        self.law = LAWS[self.parameters["law"]]
        self.shift = self.point_bits + self.law.fraction_bits
        self.response = Response(self.same, self.other, POSITIONS, self.inside)
        self.total = self.response.total

    @property
    def outcomes(self) -> int:
        """Positions of a turn."""
        return POSITIONS

    def position(self, row: int, X: Sequence[int]) -> int:
        """Position of a point's phase in a row."""
        size = WORD_BYTES * (1 + len(X))
        words = little_endian(row_bytes(self.seed, LABEL, row, size))
        phase = sum(map(int.__mul__, self.law.numbers(words[1:]), X)) + (words[0] << self.shift >> 32)
        return (phase & ((1 << self.shift) - 1)) >> (self.shift - POSITION_BITS)

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Report a position near the phase's, or any other one."""
        return self.response.draw(self.position(row, X) - self.inside // 2, coins)
