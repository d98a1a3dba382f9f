"""Calibrations of what is no mechanism of a request: sketches, sessions, bandwidths, devices, bit sums, aggregation."""

from __future__ import annotations

import pytest

from sfumato.audit import ATTACKS, AUDITS, CALIBRATIONS, audit, load_library
from sfumato.audit.cases.shuffled_calibrations import AGGREGATED, COLLECTIONS
from sfumato.audit.cases.twins_calibrations import GENEROUS, LOW_NOISE, MADE, made_twins
from sfumato.audit.cases.variants import SUBJECTS
from sfumato.bandwidth.private import MECHANISM as BANDWIDTH
from sfumato.bandwidth.search import SEARCH
from sfumato.local.device import mechanisms
from sfumato.methods.registry import SHUFFLED
from sfumato.shuffled.bitsum import NAMES
from sfumato.shuffled.secure_aggregation import NOISES
from tests.audit.calibration_checks import SALTED, check_close

load_library()

# Attacks on parts whose calibrations are checked in every mechanism that has them; labels are listed in full.
PARTS = {"count", "users", "projection", "labels", "classifier-linear"}
# How much of the claim is given away; what is not named comes within 2 % of it.
CLOSE = {
    ("rr-published", "1 instance"): 0.005,
    ("3nb-published", "1 instance"): 0.1,
    ("fkm-lr", "epsilon 6; angular"): 0.6,
    ("reference", "pure, replace; 1 columns"): 0.75,  # squares and residuals of two records do not point apart
    ("reference", "delta, replace; 1 columns"): 0.65,
    ("reference", "pure, replace; a table"): 0.94,  # but records of two cells do, in what moves either cell
    ("reference", "delta, replace; a table"): 0.66,
    ("hrw-online", "delta, replace; asked"): 0.68,
    ("secure-aggregation", "discrete-gaussian, fourier, 1-d"): 0.93,
    ("secure-aggregation", "discrete-gaussian, landmarks, 1-d"): 0.65,
    ("secure-aggregation", "skellam, inner-product, 1-d"): 0.75,
}


def test_every_mechanism_of_every_room_is_checked_and_has_twins() -> None:
    assert set(CALIBRATIONS) == {*MADE, *SUBJECTS}
    assert set(ATTACKS) - set(CALIBRATIONS) == PARTS
    assert set(AUDITS) == {*ATTACKS, *CALIBRATIONS}
    assert {*mechanisms()} - {"race"} <= set(MADE)
    assert {*NAMES} <= set(MADE)
    assert set(COLLECTIONS) == set(SHUFFLED)
    assert set(AGGREGATED) == set(NOISES)


# All records are in one group there, and no coin, feature or noise is drawn that decides anything.
COINLESS = (BANDWIDTH, SEARCH)


@pytest.mark.once
@pytest.mark.parametrize(
    "mechanism", [pytest.param(name, marks=pytest.mark.exact) if name in COINLESS else name for name in MADE]
)
def test_calibrations_hold_come_close_and_catch_their_twins(mechanism: str) -> None:
    checked = list(made_twins(mechanism))
    assert [right.name for right, _ in checked] == [case.name for case in CALIBRATIONS[mechanism]()]
    for right, wrong in checked:
        result = audit(right)
        assert result.exact
        check_close(result, CLOSE.get((mechanism, right.name), 0.98))
        if SALTED:
            continue
        caught = {mistake: not audit(case).holds for mistake, case in wrong.items()}
        assert caught == {mistake: (mechanism, right.name, mistake) not in GENEROUS for mistake in wrong}
        assert any(caught.values()) and LOW_NOISE in caught


def test_what_is_generous_is_there() -> None:
    names = {(mechanism, right.name) for mechanism in ("rr-published", "fkm-lr") for right, _ in made_twins(mechanism)}
    assert {(mechanism, name) for mechanism, name, _ in GENEROUS if mechanism in ("rr-published", "fkm-lr")} <= names
