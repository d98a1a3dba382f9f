"""Every central method, in every variant that it offers, gives away what it states: by its noise law alone."""

from __future__ import annotations

import pytest

from sfumato.audit import audit, load_library
from sfumato.audit.cases.twins_calibrations import SLIPS, CalibrationTwin, slips
from sfumato.audit.cases.variants import SUBJECTS
from sfumato.methods import projecting
from sfumato.methods.registry import METHODS
from sfumato.methods.request import GENERAL_OPTIONS, LIMIT, PROJECTION_OPTIONS, Request
from tests.audit.calibration_checks import check_calibrations, check_complete, check_options, check_twins

load_library()

# What cannot come close, and how close it comes.
CLOSE: dict[str, dict[str, float]] = {
    "hrw": {"delta, replace": 0.68},  # similarities are positive: two records are never opposite
    "landmarks": {"pure, replace": 0.7, "delta, replace": 0.68},  # likewise, and both kinds of noise cover the ball
    "even-trig": {"pure, replace": 0.7},
    "cells": {"delta, replace": 0.74},  # two records of different cells are at right angles, not opposite
    "pmw": {  # rho-zCDP is dearer than what it is turned into
        **{f"delta, add-remove{more}": 0.84 for more in ("", ", weights", ", users", ", users, weights")},
        "delta, replace": 0.83,
    },
}


def test_every_method_is_checked() -> None:
    assert not set(METHODS) - set(SUBJECTS), "say in sfumato.audit.cases.variants which requests to check"


@pytest.mark.parametrize("method", METHODS)
def test_every_variant_that_is_offered_has_a_case(method: str) -> None:
    def refuses(request: Request) -> str | None:
        if request.delta and METHODS[method].pure:
            return "it leaves delta unspent, as under pure epsilon"
        return METHODS[method].refuse(projecting.plain(request))

    check_complete(method, refuses)
    check_options(method, METHODS[method].options)


def test_general_options_are_used() -> None:
    used = {name for method in METHODS for subject in SUBJECTS[method] for name in subject.options}
    assert {*GENERAL_OPTIONS["central"], *PROJECTION_OPTIONS} - {LIMIT} <= used


@pytest.mark.once
@pytest.mark.parametrize("method", METHODS)
def test_calibrations_hold_and_come_close(method: str) -> None:
    check_calibrations(method, CLOSE.get(method, {}))


@pytest.mark.exact
@pytest.mark.parametrize("method", METHODS)
def test_mistaken_calibrations_are_caught(method: str) -> None:
    check_twins(method)


TWINS = list(slips())


@pytest.mark.exact
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.mechanism}: {twin.mistake}, {twin.variant}")
def test_mistakes_in_the_code_are_caught(twin: CalibrationTwin) -> None:
    assert any(not audit(case).holds for case in twin.cases)


def test_mistakes_in_the_code_were_made_and_undone() -> None:
    assert {(twin.mechanism, twin.mistake) for twin in TWINS} == set(SLIPS)
    assert all(audit(built.case()).holds for built in SUBJECTS["race"][0].offered())
