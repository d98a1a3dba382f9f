"""`metric-phases`, device half: phases with noise in proportion to how far a radius can move them.

Source: geo-indistinguishability (M. Andres and others, CCS 2013) on the random phases of `phases`. A row's phase a . X,
an integer in units of 2**-shift turns, moves by at most S = r |a s| + c |a|_1 + 1 between points within a Euclidean
distance r: s are the grid's steps per data unit, and rounding moves either point by half a step, and by 2^-52 of a
coordinate for binary64, so that c = 1 + 2^-50 (1 + largest coordinate) steps cover both. Discrete Laplace noise
of scale B >= S / share is added before the phase is wrapped, and the position is its upper 8 bits. A row whose noise
would say less than an arc (B above `largest`) takes the arc of `phases`, which treats all points alike.

Guarantee, for every two points, every frequency and every report (no eta). Noise of scale B makes two phases that lie T
apart look alike up to T / B; wrapping, cutting to 8 bits and the choice of the row are post-processing or independent
of the point. Within r the loss of a row is at most S / B <= share = epsilon / rows_each, that of an arc at most the
share: epsilon in all. At t r, t >= 1, T <= t S: at most t epsilon. Below r the loss of a noisy row shrinks with the
distance, that of an arc does not: it stays epsilon.

Law: B is a whole number of six significant bits, rounded up, so the noise has the exact rate 1 / B. The standard
library only; `metric_phases_server` has the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.hashing import little_endian
from sfumato.local.phases import LABEL, POSITION_BITS, Phases
from sfumato.local.promises import check_radius_in, checked_radius, near, phases_condition
from sfumato.local.sphere import laplace
from sfumato.public.rows import WORD_BYTES, row_bytes

SIGNIFICANT_BITS = 6
# The norm is computed in floating point, to more digits than this.
NORM_ERROR = 1e-9


def coarse(scale: float) -> int:
    """Round a scale up to a whole number of six significant bits.

    Examples
    --------
    >>> coarse(63.2), coarse(1001.0)
    (64, 1008)
    """
    whole = math.ceil(scale)
    surplus = max(0, whole.bit_length() - SIGNIFICANT_BITS)
    return -(-whole // (1 << surplus)) << surplus


class MetricPhases(Phases):
    """Noisy phases, or arcs; see the module's text."""

    name = "metric-phases"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.radius = checked_radius(self.parameters)
        self.share = float(self.epsilon) / self.rows_each
        largest = self.parameters.get("largest")
        if type(largest) is not int or largest < 0:
            raise InputError("the protocol's largest scale must be a whole number")
        self.largest: int = largest
        # Version 1 left the rounding of binary64 out; its releases are read by their own scales.
        self.steps_apart = 1.0 if document["version"] == 1 else 1 + 2.0**-50 * (1 + self.reach)

    def certify(self) -> None:
        """Check the radius: below a millionth of the width, or of a length, the noise is none."""
        super().certify()
        check_radius_in(self.radius, self.domain, self.point_bits, self.scales)

    def conditions(self) -> tuple[str, ...]:
        """Return the radius."""
        return (phases_condition(self.radius),)

    @property
    def within(self) -> str:
        """The radius."""
        return near(self.radius)

    def scale(self, frequency: Sequence[int]) -> int:
        """Scale B of the noise on the phases of one frequency."""
        norm = math.sqrt(math.fsum((a * s) ** 2 for a, s in zip(frequency, self.scales, strict=True)))
        moved = self.radius * norm + self.steps_apart * sum(map(abs, frequency)) + 1
        return coarse(moved / self.share * (1 + NORM_ERROR))

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Add noise to the phase before it is wrapped, or take the arc."""
        words = little_endian(row_bytes(self.seed, LABEL, row, WORD_BYTES * (1 + len(X))))
        frequency = self.law.numbers(words[1:])
        scale = self.scale(frequency)
        if scale > self.largest:
            return super().digit(row, X, coins)
        phase = (
            sum(map(int.__mul__, frequency, X)) + (words[0] << self.shift >> 32) + laplace(Fraction(1, scale), coins)
        )
        return (phase & ((1 << self.shift) - 1)) >> (self.shift - POSITION_BITS)
