"""Every published mechanism keeps its claim exactly, and its broken twins are caught.

The audits over hash functions call a right sketch broken with probability 1e-6 by their confidence, under every salt.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfumato.audit import AUDITS, Case, audit, load_library
from sfumato.audit.cases import local_published as audits
from sfumato.audit.cases import metric_rows
from sfumato.audit.cases.twins_collected import LOCAL_PUBLISHED_TWINS
from sfumato.local.device import mechanisms
from sfumato.privacy.bits import SecureBits

EXACT = [
    *audits.mldp_cases()[:3],
    *audits.fkm_lr_cases(),
    *audits.fkm_ll_cases(),
    *audits.gi_cases(),
    *audits.dm_cases(),
    *audits.pm_cases(),
    *audits.sw_cases(),
    *audits.metric_phases_cases(),
    *audits.vector_cases(),
    *(case for case in metric_rows.metric_rows_cases() if "3/2" not in case.name),
]


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_claims_hold_exactly_and_closely(case: Case) -> None:
    result = audit(case)
    assert result.exact and result.holds, result
    assert result.lower_bound > 0.85 * result.claim.value


@pytest.mark.parametrize("case", audits.mldp_cases()[3:], ids=lambda case: case.name)
def test_hash_functions_are_unlucky_as_seldom_as_promised(case: Case) -> None:
    result = audit(case, 8000, bits=SecureBits.seeded(1))
    assert result.holds, result


@pytest.mark.exact
@pytest.mark.parametrize("twin", [*LOCAL_PUBLISHED_TWINS, *metric_rows.TWINS], ids=lambda twin: f"{twin[0]}: {twin[1]}")
def test_broken_twins_are_caught(twin: tuple[str, str, Callable[[], Case]]) -> None:
    result = audit(twin[2](), 8000, bits=SecureBits.seeded(2))
    assert not result.holds, result


def test_every_private_mechanism_has_an_audit() -> None:
    load_library()
    assert set(mechanisms()) - {"race"} <= set(AUDITS)
