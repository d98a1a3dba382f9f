"""`rows` and `phases` are audited exactly, by bounds that come close, and their broken twins are caught."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from sfumato.audit import AUDITS, Case, audit, load_library
from sfumato.audit.cases.local import phases_cases, rows_cases
from sfumato.audit.cases.twins_collected import LOCAL_TWINS
from sfumato.privacy.response import LARGEST_EPSILON, OTHER, keeps_epsilon, same_weight

load_library()


@pytest.mark.parametrize("case", [*rows_cases(), *phases_cases()], ids=lambda case: case.name)
def test_claims_hold_exactly_and_closely(case: Case) -> None:
    result = audit(case)
    assert result.exact and result.holds, result
    assert result.lower_bound > 0.99 * result.claim.value


@pytest.mark.parametrize("twin", LOCAL_TWINS, ids=lambda twin: f"{twin[0]}: {twin[1]}")
def test_broken_twins_are_caught(twin: tuple[str, str, object]) -> None:
    result = audit(twin[2]())  # type: ignore[operator]
    assert not result.holds, result


def test_they_are_registered() -> None:
    assert {"rows", "phases"} <= set(AUDITS)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(5), LARGEST_EPSILON])
def test_weights_are_the_largest_that_keep_epsilon(epsilon: Fraction) -> None:
    same = same_weight(epsilon)
    assert keeps_epsilon(same, OTHER, epsilon)
    assert not keeps_epsilon(same + 1, OTHER, epsilon)
    assert math.log(same / OTHER) == pytest.approx(float(epsilon), rel=2e-3)
    assert same_weight(LARGEST_EPSILON + 100) == same_weight(LARGEST_EPSILON) < 2**56
