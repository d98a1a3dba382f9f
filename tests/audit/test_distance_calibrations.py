"""Every method for distances, in every variant that it offers, gives away what it states: by its noise law alone."""

from __future__ import annotations

import pytest

from sfumato.audit import load_library
from sfumato.audit.cases.variants import SUBJECTS
from sfumato.kernels.distance import Distance
from sfumato.methods.registry import DISTANCES
from tests.audit.calibration_checks import check_calibrations, check_complete, check_options, check_twins

load_library()

# What cannot come close, and how close it comes.
CLOSE: dict[str, dict[str, float]] = {
    "moments": {"pure, replace": 0.84, "delta, replace": 0.84},  # no two records are opposite in their squares too
    "moments-gaussian": {"delta, replace": 0.65},
    "tree-published": {"pure, replace": 0.75, "delta, replace": 0.74},  # the root of a tree does not move
    "tree-consistent": {"pure, replace": 0.75, "delta, replace": 0.74},
    "huang-roth": {"pure, replace": 0.5, "delta, replace": 0.5},  # the noise covers two records
}


@pytest.mark.parametrize("method", DISTANCES)
def test_every_variant_that_is_offered_has_a_case(method: str) -> None:
    assert method in SUBJECTS, "say in sfumato.audit.cases.distance_subjects which requests to check"
    check_complete(method, DISTANCES[method].reason)
    check_options(method, DISTANCES[method].options)
    metrics = {subject.facts["kernel"].metric for subject in SUBJECTS[method]}
    assert metrics == set(DISTANCES[method].metrics)
    assert all(isinstance(subject.facts["kernel"], Distance) for subject in SUBJECTS[method])


@pytest.mark.parametrize("method", DISTANCES)
def test_calibrations_hold_and_come_close(method: str) -> None:
    check_calibrations(method, CLOSE.get(method, {}))


@pytest.mark.parametrize("method", DISTANCES)
def test_mistaken_calibrations_are_caught(method: str) -> None:
    check_twins(method)
