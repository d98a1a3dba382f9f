"""`mldp-kde`, `fkm-lr`, `fkm-ll` and `race`, device halves: a bucket in each of L rows that all participants share.

Source: Zhou et al. (2024) (Algorithm 1) and, for the angular kernel, N. Fernandes, Y. Kawamoto, T. Murakami,
"Locality sensitive hashing with extended differential privacy", ESORICS 2021.

- **`mldp-kde`** (LSH + GRR): every row's bucket through generalised randomised response of parameter gamma. Two points
  whose buckets differ in X of the L rows are told apart by at most gamma X, for every output. `calibration` has gamma
  and what it promises within the radius, whichever of 2^g seeds was picked; gamma L holds for all pairs and all hash
  functions. A device repeats the calibration and refuses a gamma that is too large.
- **`fkm-lr`** (LSH + randomised response on the signs of the angular kernel): the same mechanism for two buckets,
  calibrated by Hoeffding's bound as published.
- **`fkm-ll`** (Laplace + LSH): the point as a unit vector on a lattice plus `SphereNoise`, then its true signs. The
  chord between unit vectors is at most the angle, so the loss of points within an angle is that of `gi` within the
  same distance, without exceptions; hashing is post-processing.
- **`race`**: the true buckets. NOT PRIVATE: a line to compare with.

Distances. Points are rounded to the protocol's grid before hashing, which moves either by half a step and the rounding
of binary64: the radius is widened by that. For angles `turned` has how far; points are scaled to length 1 before
anything is clipped or rounded. The chance of different buckets grows by what `closeness` proves of the tables from
which hash functions are drawn, and by 10^-12 of itself for the floating-point functions in it.

A payload is the buckets as one little-endian integer, as many bits each as the number of buckets needs, the first row
lowest. The standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.device import Device
from sfumato.local.hashing import row_hash
from sfumato.local.pooled import LARGEST_COORDINATE
from sfumato.local.promises import (
    LEAST_GRINDING,
    angle_conditions,
    check_eta,
    check_grinding,
    check_hashing,
    check_radius,
    check_radius_in,
    checked_radius,
    claimed_condition,
    direction,
    near,
    positive_integer,
    seed_condition,
)
from sfumato.privacy.response import Odds, Window, check_weights
from sfumato.public.codec import Ratio
from sfumato.public.document import plain
from sfumato.published.local.calibration import RULES, Calibration, calibrate, sketch_conditions
from sfumato.published.local.closeness import Closeness, Steps, closeness_of
from sfumato.published.local.point import check_planar_columns, planar_law, planar_step

MOST_ROWS = 1 << 12
FUNCTION_ERROR = 1e-12
# Coordinates of metric sketches; each is computed with an error of at most 2^-52 of itself before it is rounded, so
# that two points come closer or drift apart by STEP steps at most.
MOST_STEPS = 2**40
STEP = 1 + 2.0**-10
DIRECTION_ERROR = 2.0**-53  # of a direction's length, for each column and for eight more
FARTHEST = 2**30  # lattice coordinates of noisy unit vectors are cut here, a function of the report


def difference(closeness: Closeness, distance: float, scales: Sequence[float], collision: float) -> float:
    """Chance that one row tells points within a distance apart; see the module's text.

    Parameters
    ----------
    closeness : Closeness
        The kernel's metric.
    distance : float
        Before rounding.
    scales : sequence of float
        Grid steps per data unit, one for each column.
    collision : float
        q of the rehash.

    Examples
    --------
    >>> close = closeness_of({"kernel": "l2-lsh", "bandwidth": 1.0})
    >>> round(difference(close, 0.1, [2.0**20], 0.25), 5)
    0.06001
    """
    if closeness.metric == "euclidean":
        distance += STEP * math.sqrt(math.fsum(1 / scale**2 for scale in scales))
    elif closeness.metric == "manhattan":
        distance += STEP * math.fsum(1 / scale for scale in scales)
    elif closeness.metric == "angle":
        distance += 2 * turned(scales)
    chance = closeness.separation(distance) + closeness.excess(distance, len(scales))
    return min(1.0, (1 - collision) * chance * (1 + FUNCTION_ERROR))


def turned(scales: Sequence[float]) -> float:
    """Largest angle by which rounding to the grid turns a direction; raise `InputError` where it may leave none.

    Half a step in every column moves a unit vector by half the root of the sum of squared steps. In binary64 a column
    of d is computed with an error of d / 2 + 5 units of 2^-53 of itself, and clipping to [-1, 1] brings it no farther
    from the true one. What has moved by h < 1 in all has turned by asin(h) at most.

    Examples
    --------
    >>> f"{turned([2.0**20, 2.0**20]):.1e}"
    '6.7e-07'
    """
    moved = math.sqrt(math.fsum(0.25 / scale**2 for scale in scales)) + (len(scales) + 8) * DIRECTION_ERROR
    if not moved < 1:
        raise InputError(
            "the protocol's grid is too coarse for directions in so many columns (point_bits): do not report under it"
        )
    return math.asin(moved)


def calibrated(
    epsilon: Fraction,
    rows: int,
    closeness: Closeness,
    radius: float,
    scales: Sequence[float],
    collision: float,
    eta: float,
    rule: str,
    grinding: int,
) -> Calibration:
    """Calibrate gamma at a radius; the paper's rules take its line in the distance where that is larger."""
    chance = difference(closeness, radius, scales, collision)
    line = max(chance, (1 - collision) * closeness.published(radius))
    return calibrate(epsilon, rows, chance, eta, rule, line, grinding)


class SketchDevice(Device):
    """A device that reports a bucket for each of L shared rows; by default the true one (`race`)."""

    name = "race"
    private = False

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.angular = document["kernel"].get("kernel") == "angular"
        self.rows = positive_integer(self.parameters, "rows")
        self.groups = positive_integer(self.parameters, "groups")
        if self.rows > MOST_ROWS or self.groups > self.rows:
            raise InputError(f"the protocol's sketch must have at most {MOST_ROWS} rows, and no more groups than rows")
        self.hash = row_hash(self.parameters, self.seed, self.domain.dimension)
        self.scales = _scales(self.parameters, self.domain.dimension)
        self.origin = self.domain.middle if self.parameters.get("origin") == "middle" else (0.0,) * len(self.scales)
        self.check_coordinates(LARGEST_COORDINATE)

    def check_coordinates(self, largest: int) -> None:
        """Refuse scales that send some point of the domain beyond `largest`."""
        corners = zip((*self.domain.lower, *self.domain.upper), self.origin * 2, self.scales * 2, strict=True)
        if not all(abs((x - o) * s) <= largest for x, o, s in corners):
            raise InputError("the protocol's bounds are too wide for its scales")

    def prepared(self, point: Sequence[float]) -> list[float]:
        """Take the direction before anything is clipped or rounded, where that is what counts."""
        return super().prepared(direction(self.domain.numbers(point)) if self.angular else point)

    @property
    def bucket_bits(self) -> int:
        """Bits of one bucket in a payload."""
        return (self.hash.buckets - 1).bit_length()

    @property
    def payload_bytes(self) -> int:
        """All buckets."""
        return -(-self.rows * self.bucket_bits // 8)

    def lattice(self, point: Sequence[float], coins: Coins) -> list[int]:
        """Integers of a clipped point: ``(x - origin) * scale`` in binary64, rounded half to even."""
        return [round((x - o) * s) for x, o, s in zip(point, self.origin, self.scales, strict=True)]

    def conditions(self) -> tuple[str, ...]:
        """Say that nothing is kept."""
        return ("NOT PRIVATE: devices report their true buckets, and no epsilon is kept",)

    def respond(self, bucket: int, coins: Coins) -> int:
        """Bucket to report."""
        return bucket

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Hash, respond, pack."""
        X, code = self.lattice(point, coins), 0
        for row in range(self.rows):
            code |= self.respond(self.hash.bucket(row, X), coins) << row * self.bucket_bits
        return code.to_bytes(self.payload_bytes, "little")


def _scales(parameters: Mapping[str, Any], dimension: int) -> tuple[float, ...]:
    scales = plain(parameters.get("scales"))
    if not isinstance(scales, list) or len(scales) != dimension:
        raise InputError("the protocol needs one scale for each column")
    if not all(isinstance(scale, float) and 0 < scale < 2.0**400 for scale in scales):
        raise InputError("the protocol's scales must be positive decimals")
    return tuple(scales)


class MetricSketchDevice(SketchDevice):
    """`mldp-kde`; see the module's text."""

    name = "mldp-kde"
    private = True
    rules: tuple[str, ...] = RULES

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        gamma = Ratio().read(self.parameters.get("gamma"), "gamma")
        rule, eta = self.parameters.get("calibration"), check_eta(plain(self.parameters.get("eta")))
        if rule not in self.rules:
            raise InputError("the protocol's calibration is damaged or of a newer version; update sfumato")
        self.radius = checked_radius(self.parameters)
        # Version 1 knew no tries of the seed.
        grinding = 0 if document["version"] == 1 else check_grinding(self.parameters.get("grinding"))
        self.calibration = Calibration(gamma, self.rows, eta, rule, grinding)
        same, other = check_weights(self.parameters.get("same"), self.parameters.get("other"), gamma)
        self.law = Window(self.hash.buckets, 1, Odds(same, other))

    def certify(self) -> None:
        """Check the radius, that points are hashed as the kernel says, and gamma."""
        super().certify()
        check_hashing(self.document["kernel"], self.parameters, self.domain)
        self.check_coordinates(MOST_STEPS)
        if self.closeness.metric in ("angle", "jaccard"):
            check_radius(self.radius, 1.0)
        else:
            check_radius_in(self.radius, self.domain, self.hash.point_bits, self.scales)
        made, q = self.calibration, float(self.hash.collision)
        found = calibrated(
            self.epsilon, self.rows, self.closeness, self.radius, self.scales, q, made.eta, made.rule, made.grinding
        )
        if made.gamma > found.gamma:
            raise InputError(
                f"the protocol spends gamma = {float(made.gamma):g} on every row, and what it promises allows "
                f"{float(found.gamma):g}: do not report under it, and tell the organiser"
            )

    @cached_property
    def closeness(self) -> Closeness:
        """The kernel's metric, or the four numbers that an organiser claims for its hash family."""
        claimed = plain(self.parameters.get("sensitive"))
        if claimed is None:
            return closeness_of(self.document["kernel"])
        if not isinstance(claimed, list) or len(claimed) != 4 or not all(isinstance(part, float) for part in claimed):
            raise InputError("the protocol's sensitive family needs r1, r2, p1 and p2")
        return Steps(*claimed).closeness()

    def conditions(self) -> tuple[str, ...]:
        """Return radius, eta and worst case, and what rests on the organiser's word."""
        return (*sketch_conditions(self.radius, self.closeness.metric, self.calibration), *self.unchecked())

    def unchecked(self) -> tuple[str, ...]:
        """Return that nobody chose the seed, where eta does not pay for it, and what the organiser claims."""
        grinding, claimed = self.calibration.grinding, plain(self.parameters.get("sensitive"))
        return (
            *(() if grinding >= LEAST_GRINDING else (seed_condition(grinding),)),
            *(() if claimed is None else (claimed_condition(claimed),)),
        )

    @property
    def within(self) -> str:
        """The radius, and eta."""
        return near(self.radius, self.calibration.eta)

    @property
    def failure(self) -> float:
        """Return eta."""
        return self.calibration.eta

    def loss(self, distance: float) -> float:
        """Loss that points within a distance exceed with probability eta at most, over the hash functions."""
        chance = difference(self.closeness, distance, self.scales, float(self.hash.collision))
        return min(self.calibration.loss(chance), float(self.calibration.worst_case))

    def respond(self, bucket: int, coins: Coins) -> int:
        """Randomised response."""
        return self.law.draw(bucket, coins)


class SignsDevice(MetricSketchDevice):
    """`fkm-lr`; see the module's text."""

    name = "fkm-lr"
    rules = ("theorem-1",)


class NoisySignsDevice(SketchDevice):
    """`fkm-ll`; see the module's text."""

    name = "fkm-ll"
    private = True

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.radius = checked_radius(self.parameters)
        self.step = planar_step(self.radius, self.domain.dimension)
        self.law = planar_law(self.epsilon, self.domain.dimension)

    def certify(self) -> None:
        """Check the radius, and that points are hashed as the kernel says."""
        super().certify()
        check_planar_columns(self.domain.dimension)
        check_hashing(self.document["kernel"], self.parameters, self.domain)
        check_radius(self.radius, 1.0)

    def conditions(self) -> tuple[str, ...]:
        """Return the radius."""
        return angle_conditions(self.radius)

    @property
    def within(self) -> str:
        """The radius."""
        return near(self.radius)

    def lattice(self, point: Sequence[float], coins: Coins) -> list[int]:
        """Direction of the point on the lattice, plus noise."""
        places = (round(x / self.step) for x in point)
        noisy = (place + noise for place, noise in zip(places, self.law.draw(coins), strict=True))
        return [min(max(value, -FARTHEST), FARTHEST) for value in noisy]
