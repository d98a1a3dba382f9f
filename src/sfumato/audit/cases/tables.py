"""Audits of `cells`: a record shows in one cell of a table, and a cell without records has noise as all others have.

The table has one category of two values and no numbers, so that a record is all of a cell: the inner methods have
audits of their own, and calibration checks (`subjects`) look at them in cells. Importing this module registers the
cases.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.audit.attacks import CentralCase
from sfumato.audit.cases.central import one_more, opposites, register_central
from sfumato.audit.cases.variants import Subject, register_subjects
from sfumato.central import cells
from sfumato.kernels import Gaussian, Overlap, Product
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request

# Whoever takes codes for values, as checks of calibrations do with places in a box, falls into the same cells.
KINDS = Overlap([0.3, 1], mismatch=0.25)
TABLE: dict[str, Any] = {"kernel": Product(None, {0: KINDS}), "dimension": 1}
MIXED: dict[str, Any] = {"kernel": Product(Gaussian(1.0), {1: KINDS}), "dimension": 2, "bounds": (-1, 1)}


def small_table(epsilon: int, neighbours: str = "add-remove") -> Mechanism:
    """Build a table of two cells."""
    request = Request(epsilon=Fraction(epsilon), n=100, feature_seed=7, neighbours=neighbours, **TABLE)
    return METHODS.build(cells.NAME, request)


@cache
def table_cases() -> dict[str, CentralCase]:
    """Cases of `cells`."""
    return {
        "one more": one_more(small_table(1)),
        "second": one_more(small_table(2), already=1),
        "opposites": opposites(small_table(1, "replace")),
    }


def _asked(name: str, facts: dict[str, Any], **options: Any) -> Subject:
    return Subject(cells.NAME, name, facts, options, METHODS.build)


register_central(cells.NAME, table_cases)
register_subjects(
    _asked("a table", TABLE, inner="table"),
    _asked("1 feature", MIXED, inner="fourier", n_features=1),
    _asked("4 features in groups of 2", MIXED, inner="fourier", n_features=4, per_group=2),
    _asked("steps", MIXED, inner="grid", degree=0, spacing=0.8),
    _asked("cubes in buckets", MIXED, inner="grid", degree=3, spacing=0.8, buckets=16),
    _asked("2 features, Gaussian", MIXED, inner="fourier-gaussian", n_features=2),
    _asked("default", MIXED),
)
