"""Audits of `reference`: moments on worst-case neighbours, and all that it buys together. Importing registers them.

The landmarks that noisy moments describe do not matter for what is given away: whatever they are, the sums that follow
keep their own part of the promise, so that one draw of them stands for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit import CalibrationCase, EpsilonClaim, Revealed, register_calibrations, revealed
from sfumato.audit.cases.features import KINDS
from sfumato.audit.cases.prices import worst_change
from sfumato.audit.cases.purchases import EPSILON
from sfumato.audit.cases.variants import RECORDS, VARIANTS, Variant, contributed, reveal
from sfumato.central.reference import NAME, Purchase
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Product
from sfumato.methods.request import Request

KERNEL = Gaussian(1.0)
FACTS: dict[str, Any] = {"n": RECORDS, "feature_seed": 7, "bounds": (-2, 2)}
ONE: dict[str, Any] = {"kernel": KERNEL, "dimension": 1}
FIVE: dict[str, Any] = {"kernel": KERNEL, "dimension": 5}
TABLE: dict[str, Any] = {"kernel": Product(KERNEL, {1: KINDS}), "dimension": 2}
SIZES = {"n_features": 1, "check_features": 2}


def purchase(facts: dict[str, Any], variant: Variant, paid: Fraction) -> Purchase:
    """Return what is bought in one variant, with noise for the epsilon `paid`."""
    return Purchase.of(Request(epsilon=paid, **FACTS, **facts, **variant.facts(SIZES)))


def moments_revealed(bought: Purchase, records: int) -> tuple[Revealed, int]:
    """Return what the moments alone give away about a unit of so many records."""
    change, looked = worst_change(bought.encoder, bought.noise, bought.request.neighbours == "replace")
    return revealed(bought.noise, records * change), looked


def calibration(name: str, facts: dict[str, Any], variant: Variant, paid: Fraction) -> CalibrationCase:
    """Check the moments, the count and the sums that follow, together."""
    bought = purchase(facts, variant, paid)

    def checked() -> tuple[Revealed, int]:
        records = contributed(bought.request)
        first, looked = moments_revealed(bought, records)
        sums, more = reveal(bought.mechanism(np.zeros(bought.moments.size, dtype=np.int64), 1.0), records)
        return first + sums, looked + more

    return CalibrationCase(f"{variant}; {name}", EpsilonClaim(float(EPSILON), bought.request.delta), checked)


def _variants() -> Iterator[Variant]:
    """Give the variants that a request can have."""
    for variant in VARIANTS:
        try:
            purchase(ONE, variant, EPSILON)
        except InputError:
            continue
        yield variant


def calibrations(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Check every variant; noise for more than `EPSILON` is a broken twin."""
    return [
        *(calibration("1 columns", ONE, variant, paid) for variant in _variants()),
        *(calibration("a table", TABLE, variant, paid) for variant in _variants()),
        calibration("5 columns", FIVE, VARIANTS[0], paid),
    ]


register_calibrations(NAME, calibrations)
