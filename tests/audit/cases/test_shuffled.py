"""Every bit sum and a whole collection are audited, by bounds that come close, and broken twins are caught."""

from __future__ import annotations

import pytest

from sfumato.audit import ATTACKS, ExactCase, audit, load_library
from sfumato.audit.cases.twins import TWINS, Twin
from sfumato.privacy.bits import SecureBits
from tests.audit.calibration_checks import SALTED, check_audit

load_library()

TRIALS = 60_000
# How much of the claim the bounds must show, sampled and exact.
CLOSE = {
    "rr": (0.6, 0.97),
    "poisson": (0.4, 1.0),
    "negative-binomial": (0.4, 1.0),
    "3nb": (0.0, 1.0),  # the number of +1 alone tells nothing
    "pure": (1.0, 0.98),
    "shuffled": (0.3, 1.0),
    "labels": (1.0, 0.999),
    "secure-aggregation": (0.4, 1.0),
}


@pytest.mark.parametrize("mechanism", CLOSE)
def test_claims_hold_by_bounds_that_come_close(mechanism: str) -> None:
    bounds = []
    for case in ATTACKS[mechanism]():
        share = CLOSE[mechanism][isinstance(case, ExactCase)]
        result = check_audit(case, TRIALS, f"{mechanism} {case.name}", share)
        bounds.append(result.lower_bound / result.claim.value)
    assert SALTED or max(bounds) > 0.3


@pytest.mark.exact
@pytest.mark.parametrize(
    "twin", [twin for twin in TWINS if twin.mechanism in CLOSE], ids=lambda twin: f"{twin.mechanism}: {twin.mistake}"
)
def test_broken_twins_are_caught(twin: Twin) -> None:
    result = audit(twin.case(), TRIALS, bits=SecureBits.seeded(f"{twin.mechanism} {twin.mistake}"))
    assert not result.holds, result


def test_every_mechanism_has_a_twin() -> None:
    assert {twin.mechanism for twin in TWINS} >= set(CLOSE)
