"""Broken twins of the published local mechanisms, of `metric-phases` and of `vector`, for `benchmarks.twins`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit import Case
from sfumato.audit.cases import local_published as audits
from sfumato.audit.cases.enumeration import enumerated_case
from sfumato.audit.cases.report_laws import signs_law
from sfumato.kernels import L2LSH, Angular
from sfumato.local.coins import Coins
from sfumato.local.pooled import MetricPhases, coarse
from sfumato.local.vector import Vector
from sfumato.published.local.calibration import Calibration, calibrate
from sfumato.published.local.point import SW_STEPS, Signs, square_window
from sfumato.published.local.sketch import MetricSketchDevice, difference
from sfumato.quantizers.base import Floats


class RowsForBuckets(MetricSketchDevice):
    """Keeps a bucket with probability e^gamma / (e^gamma + L - 1), L the number of rows."""

    def respond(self, bucket: int, coins: Coins) -> int:
        odds = self.law.odds
        if coins.below(odds.heads + (self.rows - 1) * odds.unit) < odds.heads:
            return bucket
        return (bucket + 1 + coins.below(self.hash.buckets - 1)) % self.hash.buckets


def _rows_for_buckets() -> Case:
    right = audits.small_sketch(L2LSH(0.5), "mldp-kde", rows=2, buckets=3)
    return audits.sketch_case("l2-lsh, 2 rows of 3", RowsForBuckets(right.document))


class HalfCalibrated(MetricSketchDevice):
    """Takes signs for a rehash into two buckets: (R - 1) / R times the chance of different ones."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        chance = difference(self.closeness, 0.1, self.scales, 0.0) / 2
        gamma = calibrate(self.epsilon, self.rows, chance, self.calibration.eta).gamma
        self.calibration = Calibration(gamma, self.rows, self.calibration.eta, "exact")


def _half_calibrated() -> Case:
    device, points = audits.at_radius()["angular"]
    return audits.unlucky_case("hash functions, angular", HalfCalibrated(device.document), points)


class TwiceTheOdds(MetricSketchDevice):
    """Spends twice its share of the budget on every row."""

    def respond(self, bucket: int, coins: Coins) -> int:
        odds = self.law.odds
        kept = coins.below(odds.heads**2 + odds.unit**2) < odds.heads**2
        return bucket if kept else 1 - bucket


def _twice_the_odds() -> Case:
    right = audits.small_sketch(Angular(), "fkm-lr", rows=2)
    return audits.sketch_case("angular, 2 rows", TwiceTheOdds(right.document))


def _farther_directions() -> Case:
    """Noise for 70 % of the angle between the directions."""
    return audits.direction_case("directions beyond the radius", 0.3 / 0.7)


def _likelier_window() -> Case:
    """Draw from the likelier outputs with odds of e^(10/7)."""
    return audits.piecewise_case("one column", Fraction(10, 7), 1.0)


def _both_sides() -> Case:
    """Count ties z . v = 0 on both sides, which each are drawn from uniformly."""
    law = Signs(Fraction(1), 2)

    def weight(signs: int, report: int) -> float:
        agreements = 2 - (signs ^ report).bit_count()
        sides = (law.odds.heads * (2 * agreements >= 2), law.odds.unit * (2 * agreements <= 2))
        return float(sum(sides))

    corners = [(0, 0), (1 << 16, 0), (0, 1 << 16), (1 << 16, 1 << 16)]
    return audits.all_pairs("2 columns", 1.0, lambda: np.log(signs_law(law, corners, weight)))


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

    return audits.all_pairs("one column", 1.0, log_laws)


def _scale_without_radius() -> Case:
    """Draw noise of scale 1 / epsilon where it should be radius / epsilon."""
    device = audits.planar_device("1", 1.0)
    return audits.planar_case(
        "at the radius", device, 2.0, 1.0, 120, lambda point: [round(x / device.step) for x in point]
    )


class LittleNoise(MetricPhases):
    """Pays for 70 % of how far a radius moves a phase."""

    def scale(self, frequency: Sequence[int]) -> int:
        norm = math.sqrt(math.fsum((a * s) ** 2 for a, s in zip(frequency, self.scales, strict=True)))
        return coarse(0.7 * self.radius * norm / self.share)


def _little_noise() -> Case:
    return audits.phases_case("at the radius", LittleNoise(audits.phases_document(2)), 1)


class CapOfAnySize(Vector):
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
    document = audits.vector_document("codebook", blocks=2, vectors=4, likely=2)
    return enumerated_case("codebook", CapOfAnySize(document), audits.POINTS)


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
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
