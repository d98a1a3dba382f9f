"""Broken twins of what devices report, locally or through a shuffler, as (mechanism, mistake, case)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sfumato.audit import AuditCase, Case, EpsilonClaim
from sfumato.audit.cases import local, local_published, shuffled
from sfumato.audit.cases.reports import enumerated_case, signs_law
from sfumato.audit.estimators import exact_delta
from sfumato.kernels import L2LSH, Angular, Gaussian
from sfumato.local.coins import Coins
from sfumato.local.pooled import POSITIONS, MetricPhases, Phases, Rows, coarse
from sfumato.local.vector import Vector
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.published.local import calibration
from sfumato.published.local.point import SW_STEPS, Signs, square_window
from sfumato.published.local.sketch import MetricSketchDevice, difference
from sfumato.quantizers.base import Floats
from sfumato.shuffled.bitsum import BitSum, Counts, calibrate
from sfumato.shuffled.bitsum.bit_sum import rate_below
from sfumato.shuffled.bitsum.calibration import _cheapest_flood
from sfumato.shuffled.bitsum.shares import negative_binomial
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials

Twins = tuple[tuple[str, str, Callable[[], Case]], ...]


class _RowsTakenForBuckets(Rows):
    """Takes the number of rows for the number of buckets in the chance of keeping a bucket."""

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        bucket = self.hash.bucket(row, X)
        draw = coins.below(self.same + (self.rows_each - 1) * self.other)
        if draw < self.same:
            return bucket
        return (bucket + 1 + coins.below(self.hash.buckets - 1)) % self.hash.buckets


class _WholeEpsilonEach(Rows):
    """Spends the whole epsilon on every row."""

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        same = self.same**self.rows_each // self.other ** (self.rows_each - 1)
        draw = coins.below(same + (self.hash.buckets - 1) * self.other)
        steps = 0 if draw < same else 1 + (draw - same) // self.other
        return (self.hash.bucket(row, X) + steps) % self.hash.buckets


class _OddsOfTheArc(Phases):
    """Gives odds of e^epsilon to the arc as a whole, whatever its length."""

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        start = self.position(row, X) - self.inside // 2
        if coins.below(self.same + self.other) < self.same:
            return (start + coins.below(self.inside)) % POSITIONS
        return (start + self.inside + coins.below(POSITIONS - self.inside)) % POSITIONS


def _rows_taken_for_buckets() -> Case:
    document = local.small_protocol(L2LSH(0.2), "rows", 1, 2, 1, buckets=3)
    return enumerated_case("l2-lsh, 2 rows", _RowsTakenForBuckets(document), local.POINTS)


def _whole_epsilon() -> Case:
    document = local.small_protocol(L2LSH(0.2), "rows", 1, 2, 1, buckets=3)
    return enumerated_case("l2-lsh, 2 rows", _WholeEpsilonEach(document), local.POINTS)


def _odds_of_the_arc() -> Case:
    document = local.small_protocol(Gaussian(0.3), "phases", 1, 1, 1)
    return enumerated_case("gaussian, 1 row", _OddsOfTheArc(document), local.POINTS)


LOCAL_TWINS: Twins = (
    ("rows", "the number of rows for that of buckets", _rows_taken_for_buckets),
    ("rows", "the whole epsilon on every row", _whole_epsilon),
    ("phases", "odds of the arc as a whole", _odds_of_the_arc),
)


class _RowsForBuckets(MetricSketchDevice):
    """Keeps a bucket with probability e^gamma / (e^gamma + L - 1), L the number of rows."""

    def respond(self, bucket: int, coins: Coins) -> int:
        odds = self.law.odds
        if coins.below(odds.heads + (self.rows - 1) * odds.unit) < odds.heads:
            return bucket
        return (bucket + 1 + coins.below(self.hash.buckets - 1)) % self.hash.buckets


def _rows_for_buckets() -> Case:
    right = local_published.small_sketch(L2LSH(0.5), "mldp-kde", rows=2, buckets=3)
    return local_published.sketch_case("l2-lsh, 2 rows of 3", _RowsForBuckets(right.document))


class _HalfCalibrated(MetricSketchDevice):
    """Takes signs for a rehash into two buckets: (R - 1) / R times the chance of different ones."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        chance = difference(self.closeness, 0.1, self.scales, 0.0) / 2
        gamma = calibration.calibrate(self.epsilon, self.rows, chance, self.calibration.eta).gamma
        self.calibration = calibration.Calibration(gamma, self.rows, self.calibration.eta, "exact")


def _half_calibrated() -> Case:
    device, points = local_published.at_radius()["angular"]
    return local_published.unlucky_case("hash functions, angular", _HalfCalibrated(device.document), points)


class _TwiceTheOdds(MetricSketchDevice):
    """Spends twice its share of the budget on every row."""

    def respond(self, bucket: int, coins: Coins) -> int:
        odds = self.law.odds
        kept = coins.below(odds.heads**2 + odds.unit**2) < odds.heads**2
        return bucket if kept else 1 - bucket


def _twice_the_odds() -> Case:
    right = local_published.small_sketch(Angular(), "fkm-lr", rows=2)
    return local_published.sketch_case("angular, 2 rows", _TwiceTheOdds(right.document))


def _farther_directions() -> Case:
    """Noise for 70 % of the angle between the directions."""
    return local_published.direction_case("directions beyond the radius", 0.3 / 0.7)


def _likelier_window() -> Case:
    """Draw from the likelier outputs with odds of e^(10/7)."""
    return local_published.piecewise_case("one column", Fraction(10, 7), 1.0)


def _both_sides() -> Case:
    """Count ties z . v = 0 on both sides, which each are drawn from uniformly."""
    law = Signs(Fraction(1), 2)

    def weight(signs: int, report: int) -> float:
        agreements = 2 - (signs ^ report).bit_count()
        sides = (law.odds.heads * (2 * agreements >= 2), law.odds.unit * (2 * agreements <= 2))
        return float(sum(sides))

    corners = [(0, 0), (1 << 16, 0), (0, 1 << 16), (1 << 16, 1 << 16)]
    return local_published.all_pairs("2 columns", 1.0, lambda: np.log(signs_law(law, corners, weight)))


def _cut_at_the_bounds() -> Case:
    """Cut the likelier outputs of the square wave at the bounds, and scale their probabilities up again."""
    law, reach = square_window(Fraction(1))

    def log_laws() -> Floats:
        table = []
        for step in (0, SW_STEPS // 2, SW_STEPS):
            positions = np.arange(SW_STEPS + 1)
            weights = np.where(np.abs(positions - step) <= reach, law.odds.heads, law.odds.unit).astype(float)
            table.append(np.log(weights / weights.sum()))
        return np.array(table)

    return local_published.all_pairs("one column", 1.0, log_laws)


def _scale_without_radius() -> Case:
    """Draw noise of scale 1 / epsilon where it should be radius / epsilon."""
    device = local_published.planar_device("1", 1.0)
    return local_published.planar_case(
        "at the radius", device, 2.0, 1.0, 120, lambda point: [round(x / device.step) for x in point]
    )


class _LittleNoise(MetricPhases):
    """Pays for 70 % of how far a radius moves a phase."""

    def scale(self, frequency: Sequence[int]) -> int:
        norm = math.sqrt(math.fsum((a * s) ** 2 for a, s in zip(frequency, self.scales, strict=True)))
        return coarse(0.7 * self.radius * norm / self.share)


def _little_noise() -> Case:
    return local_published.phases_case("at the radius", _LittleNoise(local_published.phases_document(2)), 1)


class _CapOfAnySize(Vector):
    """Gives higher odds to all outputs within a cap, however many there are."""

    def draw(self, likely: Sequence[int], coins: Coins) -> int:
        cap = likely[: 1 + likely[0] % self.likely]
        number = coins.below(len(cap) * self.same + (2 * self.vectors - len(cap)) * self.other)
        if number < len(cap) * self.same:
            return cap[number // self.same]
        output = (number - len(cap) * self.same) // self.other
        for member in cap:
            output += member <= output
        return output


def _cap_of_any_size() -> Case:
    document = local_published.vector_document("codebook", blocks=2, vectors=4, likely=2)
    return enumerated_case("codebook", _CapOfAnySize(document), local_published.POINTS)


LOCAL_PUBLISHED_TWINS: Twins = (
    ("mldp-kde", "the number of rows for that of buckets", _rows_for_buckets),
    ("mldp-kde", "angular calibration with (R - 1) / R", _half_calibrated),
    ("fkm-lr", "twice the share on every row", _twice_the_odds),
    ("fkm-ll", "noise 30 % low", _farther_directions),
    ("dm", "ties on both sides", _both_sides),
    ("pm", "epsilon 10/7 in the place of 1", _likelier_window),
    ("sw", "outputs cut at the bounds", _cut_at_the_bounds),
    ("gi", "scale without the radius", _scale_without_radius),
    ("metric-phases", "noise 30 % low", _little_noise),
    ("vector", "caps of any size", _cap_of_any_size),
)


LOW = Fraction(7, 10)
CLAIM = EpsilonClaim(float(shuffled.EPSILON), shuffled.DELTA)


@dataclass(frozen=True)
class _WithoutFlood(ThreeNegativeBinomials):
    """3NB that leaves out N3, as circulating code does to save messages."""

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Counts:
        up, down = (negative_binomial(secure, count, share, self.rate) for _ in range(2))
        return Counts(up, down)


@dataclass(frozen=True)
class _SharedCoin(shuffled.SampledView):
    """All participants flip with the same coin: their noise does not add up."""

    def __call__(self, trials: int, bits: SecureBits) -> tuple[Integers, Integers]:
        flips = self.protocol.randomise(np.zeros((trials, 1), dtype=np.int64), bits).ones[:, 0]
        n = self.protocol.n
        zeros = n * flips
        return zeros, np.where(flips, zeros - 1, zeros + 1)


def _less_noise(protocol: BitSum) -> BitSum:
    parameters = protocol.parameters
    if "flip" in parameters:
        return replace(protocol, flip=parameters["flip"] * LOW)  # type: ignore[type-var]
    if "mean" in parameters:
        return replace(protocol, mean=parameters["mean"] * LOW**2)  # type: ignore[type-var]
    return replace(protocol, rate=parameters["rate"] / LOW)  # type: ignore[type-var]


def _sampled(name: str, statistic: shuffled.Statistic) -> Callable[[], Case]:
    def case() -> Case:
        return AuditCase(
            "less noise", CLAIM, shuffled.SampledView(_less_noise(shuffled.small(name).protocol), statistic)
        )

    return case


def _negative_binomial() -> Case:
    (case,) = shuffled.negative_binomial_cases()
    assert isinstance(case, AuditCase)
    return replace(case, sample=shuffled.SampledView(_less_noise(shuffled.small_negative_binomial()), shuffled.ones))


def _without_flood() -> Case:
    found = shuffled.small("3nb").protocol
    twin = _WithoutFlood(n=found.n, **found.parameters)  # type: ignore[arg-type]
    return AuditCase("plus alone", CLAIM, shuffled.SampledView(twin, shuffled.ones))


def _one_number_of_ones() -> Case:
    """RR with the flips that suffice if about half of the others hold ones."""
    n, middle = shuffled.PARTICIPANTS, (shuffled.PARTICIPANTS - 1) // 2

    def excess(flip: float) -> float:
        first, second = shuffled.response_views(n, flip)
        return exact_delta(first[middle], second[middle], float(shuffled.EPSILON)) - shuffled.DELTA

    return shuffled.response_case(n, float(brentq(excess, 1e-3, 0.499)), CLAIM)


def _shared_coin() -> Case:
    return AuditCase("ones", CLAIM, _SharedCoin(shuffled.small("rr").protocol, shuffled.ones))


def _pure_with_rho_1() -> Case:
    """Floods for twice the dropped bits that there are, which is what rho = 1 amounts to."""
    found = calibrate("pure", n=3, instances=1, epsilon=1).protocol
    assert isinstance(found, Pure)
    shape, rate, copies = _cheapest_flood(3, 1.0, 0.01, 2 * float(found.drop))
    twin = replace(found, copies=copies, flood_shape=shape, flood_rate=rate_below(rate))
    return shuffled.pure_case(twin, EpsilonClaim(1.0))


def _bundled() -> Case:
    claim = EpsilonClaim(float(shuffled.BUNDLE_EPSILON), shuffled.BUNDLE_DELTA)
    return AuditCase("bundles", claim, shuffled.small_collection(bundled=True))


def _one_instance_paid() -> Case:
    """Noise for one instance on all of them."""
    claim = EpsilonClaim(float(shuffled.BUNDLE_EPSILON), shuffled.BUNDLE_DELTA)
    found = shuffled.small_collection()
    single = calibrate("rr", n=8, instances=1, epsilon=shuffled.BUNDLE_EPSILON, delta=shuffled.BUNDLE_DELTA).protocol
    return AuditCase("one instance paid", claim, replace(found, group=replace(found.group, bitsum=single)))


def _few_participants() -> Case:
    """Half of the participants stay away."""
    claim = EpsilonClaim(float(shuffled.BUNDLE_EPSILON), shuffled.BUNDLE_DELTA)
    found = shuffled.small_collection()
    fewer = replace(found.group.bitsum, n=4)  # type: ignore[type-var]
    return AuditCase("half stay away", claim, replace(found, group=replace(found.group, bitsum=fewer)))


def _kept_too_often() -> Case:
    """Report the truth with probability e^e / (1 + e^e), whatever the number of classes."""
    keep = math.e / (1 + math.e)
    matrix = np.full((5, 5), (1 - keep) / 4) + np.eye(5) * (keep - (1 - keep) / 4)
    return shuffled.label_case(matrix, 1.0)


SHUFFLED_TWINS: Twins = (
    ("rr", "30 % fewer flips", _sampled("rr", shuffled.ones)),
    ("rr", "calibrated on one number of ones", _one_number_of_ones),
    ("rr", "one coin for all", _shared_coin),
    ("poisson", "30 % less noise", _sampled("poisson", shuffled.ones)),
    ("negative-binomial", "30 % less noise", _negative_binomial),
    ("3nb", "30 % less noise", _sampled("3nb", shuffled.difference)),
    ("3nb", "no N3", _without_flood),
    ("pure", "rho = 1", _pure_with_rho_1),
    ("shuffled", "bundled messages", _bundled),
    ("shuffled", "one instance paid for", _one_instance_paid),
    ("shuffled", "half of the participants stay away", _few_participants),
    ("labels", "the response of two classes for five", _kept_too_often),
    ("secure-aggregation", "one share of four", lambda: shuffled.aggregation_case("discrete-gaussian", 1)),
    ("secure-aggregation", "one Skellam share of four", lambda: shuffled.aggregation_case("skellam", 1)),
)
