"""Audits of the private bandwidth: its two histograms on worst-case neighbours. Importing this registers them.

The attacker sees the noisy integers and computes the likelihood ratio over the cells that differ; the others tell
nothing. All records fall into one group of pairs (n = 1), so that no coin hides what one more record does.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.audit import (
    AuditCase,
    CalibrationCase,
    Case,
    EpsilonClaim,
    ExactCase,
    Revealed,
    log_weights,
    register_audit,
    register_calibrations,
    revealed,
)
from sfumato.audit.claims import Samples
from sfumato.bandwidth.private import MECHANISM, Purchase
from sfumato.bandwidth.statistics import Statistic
from sfumato.engines import Threads
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import NEIGHBOURS
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

EPSILON = Fraction(1)
EXACT_REACH = 25


def differing_counts(statistic: Statistic, inside: Any, outside: Any) -> tuple[Integers, Integers]:
    """Exact integers of two data sets, in the cells in which they differ."""
    coins = SecureBits.seeded(0)  # all records are in one group: the coins decide nothing
    first, second = (
        statistic.count(Threads(1), open_source(np.asarray(rows, dtype=np.float64)), coins)
        for rows in (inside, outside)
    )
    differ = first != second
    return first[differ], second[differ]


def sampled_case(name: str, counts: tuple[Integers, Integers], law: DiscreteLaplace) -> AuditCase:
    """Attack noisy counts by their likelihood ratio."""

    def sample(trials: int, bits: SecureBits) -> Samples:
        return _ratios(counts, counts[0], law, trials, bits), _ratios(counts, counts[1], law, trials, bits)

    return AuditCase(name, EpsilonClaim(float(EPSILON)), sample)


def _ratios(
    counts: tuple[Integers, Integers], true: Integers, law: DiscreteLaplace, trials: int, bits: SecureBits
) -> Floats:
    noisy = true + law.sample(bits, trials * true.size).reshape(trials, -1)
    return np.asarray(log_weights(law, noisy - counts[0]) - log_weights(law, noisy - counts[1]))


def exact_case(name: str, counts: tuple[Integers, Integers], law: DiscreteLaplace) -> ExactCase:
    """Compare all outputs near the counts, with their exact probabilities."""
    reach = np.arange(-EXACT_REACH, EXACT_REACH + 1)
    outputs = np.stack(np.meshgrid(*(reach for _ in counts[0]), indexing="ij"), axis=-1).reshape(-1, counts[0].size)

    def log_probabilities() -> Samples:
        return log_weights(law, outputs - counts[0]), log_weights(law, outputs - counts[1])

    return ExactCase(f"{name}, exact", EpsilonClaim(float(EPSILON)), log_probabilities)


def purchases() -> dict[str, tuple[tuple[Integers, Integers], DiscreteLaplace]]:
    """Return the counts of worst-case neighbours, and the noise that is to hide the difference."""
    here, there = [[-1.0, -1.0]], [[1.0, 1.0]]
    nobody = np.empty((0, 2))
    return {
        "columns, 0 or 1 records": _bought("scott", "add-remove", here, nobody),
        "columns, a record or its opposite": _bought("scott", "replace", here, there),
        "pairs, 1 or 2 records": _bought(None, "add-remove", here + there, here),
        "pairs, 2 or 3 records": _bought(None, "add-remove", here + there + here, here + there),
        "pairs, a record or its opposite": _bought(None, "replace", here + there, here + here),
    }


def _bought(
    rule: str | None, neighbours: str, inside: Any, outside: Any
) -> tuple[tuple[Integers, Integers], DiscreteLaplace]:
    box, target = Box.from_bounds((-1, 1), 2), 0.02 if rule is None else None
    purchase = Purchase(box, 1, target, rule, "gaussian", EPSILON, neighbours)
    return differing_counts(purchase.first, inside, outside), purchase.law(purchase.first)


def _cases() -> list[Case]:
    cases: list[Case] = []
    for name, (counts, law) in purchases().items():
        cases.append(sampled_case(name, counts, law))
        if counts[0].size <= 2:
            cases.append(exact_case(name, counts, law))
    return cases


def data_sets() -> list[Floats]:
    """Few records at the corners of the box, outside it, and at its middle."""
    places = np.array([[-1.0, -1.0], [1.0, 1.0], [1.0, -1.0], [9.0, -9.0], [0.0, 0.0], [np.nan, 0.0]])
    return [places[list(chosen)] for size in range(4) for chosen in product(range(len(places)), repeat=size)]


SINGLE = data_sets()[1:7]


@cache
def worst_counts(statistic: Statistic, replaced: bool) -> Integers:
    """Return the largest change of a histogram's integers by a record more, or another one in its place."""
    worst = np.zeros(1, dtype=np.int64)
    for rows in data_sets():
        for other in SINGLE:
            if replaced and not len(rows):
                continue
            after = np.vstack([rows[:-1] if replaced else rows, other])
            counts = (statistic.count(Threads(1), open_source(each), SecureBits.seeded(0)) for each in (rows, after))
            change = np.subtract(*counts)
            worst = max(worst, change, key=lambda each: int(np.abs(each).sum()))
    return worst


def calibration(
    rule: str | None, kernel: str, target: float | None, neighbours: str, paid: Fraction
) -> CalibrationCase:
    """Check one choice of a bandwidth, whose noise was chosen for the epsilon `paid`."""
    box = Box.from_bounds((-1, 1), 2)
    purchase = Purchase(box, 1, target, rule, kernel, paid, neighbours)

    def reveal() -> tuple[Revealed, int]:
        parts = [purchase.first] if purchase.parts == 1 else [purchase.first, purchase.pairs(np.ones(2))]
        changes = [
            (purchase.law(part), worst_counts(part, neighbours == "replace"))  # type: ignore[arg-type]  # it is frozen
            for part in parts
        ]
        return sum((revealed(law, change) for law, change in changes), Revealed()), 6 * len(data_sets())

    bought = " and ".join([*([rule] if rule else []), *([f"density, {kernel}"] if target else [])])
    return CalibrationCase(f"pure, {neighbours}; {bought}", EpsilonClaim(float(EPSILON)), reveal)


CHOICES: list[tuple[str | None, str, float | None]] = [
    ("scott", "gaussian", None),
    ("silverman", "gaussian", None),
    ("scott", "gaussian", 0.02),
    (None, "gaussian", 0.02),
    (None, "laplacian", 0.02),
]


def calibrations(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Check every choice under both relations; noise for more than `EPSILON` is a broken twin."""
    return [calibration(*choice, neighbours, paid) for choice in CHOICES for neighbours in NEIGHBOURS]


register_audit(MECHANISM, _cases)
register_calibrations(MECHANISM, calibrations)
