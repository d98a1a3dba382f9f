"""The classifier and its projected moments leak no more than they claim, and their broken twins are caught."""

from __future__ import annotations

import pytest

from sfumato.audit import ATTACKS, ExactCase, audit, load_library
from sfumato.audit.cases.learn import CLASSIFIER, GAUSSIAN, LINEAR, PURE
from sfumato.audit.cases.twins import TWINS, Twin
from sfumato.privacy.bits import SecureBits
from tests.audit.calibration_checks import check_audit

load_library()

TRIALS = 40_000
# How much of the claim the bounds must show, sampled and exact.
CLOSE = {CLASSIFIER: (0.75, 1.0), PURE: (0.35, 0.5), GAUSSIAN: (0.6, 1.0), LINEAR: (0.9, 1.0)}


@pytest.mark.parametrize("mechanism", CLOSE)
def test_claims_hold_by_bounds_that_come_close(mechanism: str) -> None:
    for case in ATTACKS[mechanism]():
        check_audit(case, TRIALS, f"{mechanism} {case.name}", CLOSE[mechanism][isinstance(case, ExactCase)])


@pytest.mark.exact
@pytest.mark.parametrize(
    "twin", [twin for twin in TWINS if twin.mechanism in CLOSE], ids=lambda twin: f"{twin.mechanism}: {twin.mistake}"
)
def test_broken_twins_are_caught(twin: Twin) -> None:
    result = audit(twin.case(), TRIALS, bits=SecureBits.seeded(f"{twin.mechanism} {twin.mistake}"))
    assert not result.holds, result


def test_every_mechanism_has_a_twin() -> None:
    assert {twin.mechanism for twin in TWINS} >= set(CLOSE)
