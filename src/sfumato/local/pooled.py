"""Devices that answer for few rows of a large public pool: `rows`, `phases` and `metric-phases`.

A payload is the group of rows as 16 bits and one digit for each of its rows, base `outcomes`, as 32 bits, the first
row's digit lowest; both little-endian. The group is drawn independently of the point, so only the digits cost privacy,
epsilon / rows_each each.

`rows`: each bucket through generalised randomised response.

Guarantee: epsilon for every two points, without exceptions. The group of rows is drawn independently of the point; in
each of its `rows_each` rows the bucket of the point is kept with weight `same` and replaced by each other bucket with
weight `other`, ``same <= other e^(epsilon / rows_each)``. For two points every report therefore has probabilities whose
ratio is at most ``(same / other)^rows_each <= e^epsilon``, whatever the hash functions are.

`phases`: the phase of a random frequency through a discrete arc.

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
for `Cauchy`.

`metric-phases`: phases with noise in proportion to how far a radius can move them.

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

Law: B is a whole number of six significant bits, rounded up, so the noise has the exact rate 1 / B.

The standard library only; `rows_server`, `phases_server` and `metric_phases_server` have the estimates.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins, laplace
from sfumato.local.device import MOST_BITS, WEIGHT, Device
from sfumato.local.hashing import FAMILIES, MOST_POINT_BITS, family_of, little_endian, row_hash
from sfumato.local.promises import LENGTH, check_radius_in, near, phases_condition
from sfumato.privacy.response import Response, check_weights
from sfumato.public.codec import Field, Many, Real, Text, Whole
from sfumato.public.rows import CAUCHY, LAPLACE, NORMAL, WORD_BYTES, row_bytes

GROUP_BYTES, CODE_BYTES = 2, 4
LARGEST_POOL = 1 << 16
LARGEST_COORDINATE = 1 << 52
LARGEST_SCALE = 2.0**400
LABEL = "local/phases"
POSITION_BITS = 8
POSITIONS = 1 << POSITION_BITS
MOST_ROWS_EACH = 4
LAWS = {"normal": NORMAL, "cauchy": CAUCHY, "laplace": LAPLACE}
SIGNIFICANT_BITS = 6
# The norm is computed in floating point, to more digits than this.
NORM_ERROR = 1e-9


class PoolDevice(Device):
    """A device that answers for a random group of consecutive rows of a pool, one digit a row.

    Attributes
    ----------
    rows_each, groups : int
        Rows of a group; number of groups.
    reach : int
        Largest coordinate of a point.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        given = self.read(**self.fields())
        domain = self.domain
        self.rows_each: int = given["rows_each"]
        self.groups: int = given["groups"]
        if self.groups * self.rows_each > LARGEST_POOL:
            raise InputError(f"the protocol's pool must have at most {LARGEST_POOL} rows")
        self.same, self.other = check_weights(given["same"], given["other"], self.epsilon / self.rows_each)
        self.scales: tuple[float, ...] = given["scales"]
        self.origin = domain.middle if given["origin"] == "middle" else (0.0,) * domain.dimension
        self.reach = max(map(abs, self.lattice(domain.lower) + self.lattice(domain.upper)))
        if self.reach > LARGEST_COORDINATE:
            raise InputError("the protocol's bounds are too wide for its scales")
        self.given = given

    def fields(self) -> dict[str, Field[Any]]:
        """Return the parameters' kinds and ranges."""
        columns = self.domain.dimension
        return {
            **{"rows_each": Whole(1, LARGEST_POOL), "groups": Whole(1, LARGEST_POOL), "same": WEIGHT, "other": WEIGHT},
            "scales": Many(Real(math.ulp(0.0), LARGEST_SCALE), columns, columns),
            "origin": Text("middle", "zero"),
        }

    @property
    def payload_bytes(self) -> int:
        """A group and a code."""
        return GROUP_BYTES + CODE_BYTES

    @property
    @abstractmethod
    def outcomes(self) -> int:
        """Number of digits of one row."""

    def lattice(self, point: Sequence[float]) -> list[int]:
        """Integers of a clipped point: ``(x - origin) * scale`` in binary64, rounded half to even."""
        return [round((x - o) * s) for x, o, s in zip(point, self.origin, self.scales, strict=True)]

    @abstractmethod
    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Random outcome of one row."""

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Pick a group, answer for each of its rows."""
        X = self.lattice(point)
        group = coins.below(self.groups)
        code = 0
        for i in reversed(range(self.rows_each)):
            code = code * self.outcomes + self.digit(group * self.rows_each + i, X, coins)
        return group.to_bytes(GROUP_BYTES, "little") + code.to_bytes(CODE_BYTES, "little")


class Rows(PoolDevice):
    """Generalised randomised response on buckets of hash functions; see the module's text."""

    name = "rows"

    def fields(self) -> dict[str, Field[Any]]:
        """Add the hash functions'."""
        return {**super().fields(), "family": Text(*FAMILIES), **family_of(self.parameters).fields}

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.hash = row_hash(self.parameters, self.seed, self.domain.dimension)
        if self.outcomes**self.rows_each > 1 << 8 * CODE_BYTES:
            raise InputError("the protocol's reports do not fit their length")
        self.response = Response(self.same, self.other, self.hash.buckets)
        self.total = self.response.total

    @property
    def outcomes(self) -> int:
        """Buckets of a row."""
        return self.hash.buckets

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Keep the bucket, or take one of the others."""
        return self.response.draw(self.hash.bucket(row, X), coins)


class Phases(PoolDevice):
    """The arc randomiser on phases; see the module's text."""

    name = "phases"

    def fields(self) -> dict[str, Field[Any]]:
        """Add the arcs' and the frequencies'."""
        arcs: dict[str, Field[Any]] = {
            "inside": Whole(1, POSITIONS - 1),
            "point_bits": Whole(1, MOST_POINT_BITS),
            "law": Text(*LAWS),
        }
        return {**super().fields(), **arcs}

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.inside: int = self.given["inside"]
        self.point_bits: int = self.given["point_bits"]
        self.law = LAWS[self.given["law"]]
        if self.inside % 2 == 0 or self.rows_each > MOST_ROWS_EACH:
            raise InputError("the protocol's arcs are out of range")
        self.shift: int = self.point_bits + self.law.fraction_bits
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

    def fields(self) -> dict[str, Field[Any]]:
        """Add the radius and the largest scale of noise."""
        return {**super().fields(), "radius": LENGTH, "largest": Whole(0, (1 << MOST_BITS) - 1)}

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.radius: float = self.given["radius"]
        self.share = float(self.epsilon) / self.rows_each
        self.largest: int = self.given["largest"]
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
