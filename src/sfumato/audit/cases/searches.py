"""Audits of the bandwidth search: worst-case pairs, all records in one group, so that no coin hides what one does."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.audit import CalibrationCase, Case, EpsilonClaim, Revealed, register_audit, register_calibrations, revealed
from sfumato.audit.cases.purchases import EPSILON, differing_counts, sampled_case
from sfumato.bandwidth.private import Purchase
from sfumato.bandwidth.search import SEARCH, PairScores, law
from sfumato.bandwidth.statistics import ColumnSpreads
from sfumato.engines import Threads
from sfumato.kernels import Gaussian, Laplacian
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import NEIGHBOURS
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

BOX = Box.from_bounds((-1, 1), 2)
KERNELS = (Gaussian(0.01), Gaussian(0.2), Laplacian(0.3))
PLACES = np.array([[-1.0, -1.0], [1.0, 1.0], [0.3, 0.2], [9.0, -9.0], [np.nan, 0.0]])


def scores() -> PairScores:
    """All records in one group."""
    return PairScores(BOX, KERNELS, 1)


@cache
def worst_sums(replaced: bool) -> Integers:
    """Return the largest change of the sums by a record more, or another one in its place."""
    worst = np.zeros(1, dtype=np.int64)
    for size in range(4):
        for chosen in product(range(len(PLACES)), repeat=size):
            rows = PLACES[list(chosen)]
            for other in PLACES:
                if replaced and not size:
                    continue
                after = np.vstack([rows[:-1] if replaced else rows, other])
                change = _sums(after) - _sums(rows)
                worst = max(worst, change, key=lambda each: int(np.abs(each).sum()))
    return worst


def _sums(rows: Floats) -> Integers:
    return scores().count(Threads(1), open_source(rows.reshape(-1, 2)), SecureBits.seeded(0))


def calibration(neighbours: str, rules: bool, paid: Fraction) -> CalibrationCase:
    """Check one relation, with or without histograms for rules of thumb, for the epsilon `paid`."""

    def reveal() -> tuple[Revealed, int]:
        share = paid / 2 if rules else paid
        replaced = neighbours == "replace"
        found = revealed(law(scores(), share, neighbours), worst_sums(replaced))
        if rules:
            spreads = ColumnSpreads(BOX, "scott", 1)
            half = Purchase(BOX, 1, None, "scott", "gaussian", share, neighbours)
            first, second = (
                spreads.count(Threads(1), open_source(PLACES[[place]]), SecureBits.seeded(0)) for place in (0, 1)
            )
            found += revealed(half.law(spreads), first - second if replaced else first)
        return found, 5**4

    return CalibrationCase(
        f"pure, {neighbours}; {'with rules' if rules else 'bandwidths'}", EpsilonClaim(float(EPSILON)), reveal
    )


def calibrations(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Check both relations; noise for more than `EPSILON` is a broken twin."""
    return [calibration(neighbours, rules, paid) for neighbours in NEIGHBOURS for rules in (False, True)]


def _cases() -> list[Case]:
    here = PLACES[[0, 0]]
    summed: Any = scores()
    counts = differing_counts(summed, here, here[:1])
    return [
        sampled_case("pairs of three candidates, 1 or 2 equal records", counts, law(scores(), EPSILON, "add-remove"))
    ]


register_audit(SEARCH, _cases)
register_calibrations(SEARCH, calibrations)
