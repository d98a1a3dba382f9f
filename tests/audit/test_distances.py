"""Every mechanism for distances is audited, by bounds that come close, and its broken twins are caught."""

from __future__ import annotations

import pytest

from sfumato.audit import ATTACKS, ExactCase, audit, load_library
from sfumato.audit.cases.twins import TWINS, Twin
from sfumato.methods.registry import DISTANCES
from sfumato.privacy.bits import SecureBits

load_library()

TRIALS = 40_000
# How much of the claim the bounds must show, sampled and exact.
CLOSE = {
    "hat": (0.7, 0.98),
    "hat-gaussian": (0.7, 1.0),
    "moments": (0.4, 0.6),
    "moments-gaussian": (0.7, 1.0),
    "tree-published": (0.8, 0.999),
    "tree-consistent": (0.8, 0.999),
    "sqeuclidean-published": (1.0, 0.98),
    "huang-roth": (0.0, 1.0),
}


@pytest.mark.parametrize("mechanism", DISTANCES)
def test_claims_hold_by_bounds_that_come_close(mechanism: str) -> None:
    for case in ATTACKS[mechanism]():
        result = audit(case, TRIALS, bits=SecureBits.seeded(f"{mechanism} {case.name}"))
        assert result.holds, result
        assert result.lower_bound >= CLOSE[mechanism][isinstance(case, ExactCase)] * result.claim.value, result


@pytest.mark.parametrize(
    "twin",
    [twin for twin in TWINS if twin.mechanism in DISTANCES],
    ids=lambda twin: f"{twin.mechanism}: {twin.mistake}",
)
def test_broken_twins_are_caught(twin: Twin) -> None:
    result = audit(twin.case(), TRIALS, bits=SecureBits.seeded(f"{twin.mechanism} {twin.mistake}"))
    assert not result.holds, result


def test_every_method_has_a_twin() -> None:
    assert {twin.mechanism for twin in TWINS} >= set(DISTANCES)
