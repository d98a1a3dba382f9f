"""Every mechanism for distances is audited, by bounds that come close, and its broken twins are caught.

Every method for distances, in every variant that it offers, gives away what it states: by its noise law alone.
"""

from __future__ import annotations

import pytest

from sfumato.audit import ATTACKS, ExactCase, audit, load_library
from sfumato.audit.cases.twins import TWINS, Twin
from sfumato.audit.cases.variants import SUBJECTS
from sfumato.kernels.unscaled import Distance
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from tests.audit.calibration_checks import check_audit, check_calibrations, check_complete, check_options, check_twins

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
        check_audit(case, TRIALS, f"{mechanism} {case.name}", CLOSE[mechanism][isinstance(case, ExactCase)])


@pytest.mark.exact
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


load_library()

# What cannot come close, and how close it comes.
CALIBRATED: dict[str, dict[str, float]] = {
    "moments": {"pure, replace": 0.84, "delta, replace": 0.84},  # no two records are opposite in their squares too
    "moments-gaussian": {"delta, replace": 0.65},
    "tree-published": {"pure, replace": 0.75, "delta, replace": 0.74},  # the root of a tree does not move
    "tree-consistent": {"pure, replace": 0.75, "delta, replace": 0.74},
    "huang-roth": {"pure, replace": 0.5, "delta, replace": 0.5},  # the noise covers two records
}


@pytest.mark.parametrize("method", DISTANCES)
def test_every_variant_that_is_offered_has_a_case(method: str) -> None:
    assert method in SUBJECTS, "say in sfumato.audit.cases.distances which requests to check"

    def refuses(request: Request) -> str | None:
        if request.delta and DISTANCES[method].pure:
            return "it leaves delta unspent, as under pure epsilon"
        return DISTANCES[method].reason(request)

    check_complete(method, refuses)
    check_options(method, DISTANCES[method].options)
    metrics = {subject.facts["kernel"].metric for subject in SUBJECTS[method]}
    assert metrics == set(DISTANCES[method].metrics)
    assert all(isinstance(subject.facts["kernel"], Distance) for subject in SUBJECTS[method])


@pytest.mark.once
@pytest.mark.parametrize("method", DISTANCES)
def test_calibrations_hold_and_come_close(method: str) -> None:
    check_calibrations(method, CALIBRATED.get(method, {}))


@pytest.mark.exact
@pytest.mark.parametrize("method", DISTANCES)
def test_mistaken_calibrations_are_caught(method: str) -> None:
    check_twins(method)
