from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.guarantee import exact_epsilon, exact_positive


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (1, Fraction(1)),
        (1000, Fraction(1000)),
        (0.1, Fraction(1, 10)),
        (0.3, Fraction(3, 10)),
        (1e-9, Fraction(1, 10**9)),
        (1.23456789e-9, Fraction(123456, 10**14)),
        (0.9999999, Fraction(999999, 10**6)),
        (2.9999999, Fraction(299999, 10**5)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        ("2e-3", Fraction(1, 500)),
        (Decimal("0.7"), Fraction(7, 10)),
        (Fraction(2, 3), Fraction(2, 3)),
        (Fraction(1, 10**6), Fraction(1, 10**6)),
        (Fraction(1, 3 * 10**6), Fraction(333333, 10**12)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int32(2), Fraction(2)),
    ],
)
def test_known_values(value: float, exact: Fraction) -> None:
    assert exact_epsilon(value) == exact


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 0.0, -0.5, 1001, 1000.0000001, float("nan"), float("inf"), True, False, np.True_, None, [1], 1j),
        *("", "one", "nan", "-inf", "1/0", "0", "1e999999999", Decimal("sNaN"), Decimal("-1"), Fraction(-1, 2)),
    ],
)
def test_what_is_not_an_epsilon_is_refused_with_the_fix(value: float) -> None:
    with pytest.raises(InputError, match=r"epsilon must be a finite number above 0 and at most 1000, such as 1, 0\.5"):
        exact_epsilon(value)


def test_a_text_with_a_vast_exponent_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="too small"):
        exact_epsilon("1e-999999999")


@given(st.floats(min_value=0, max_value=1000, exclude_min=True))
def test_floats_are_rounded_down_a_little(value: float) -> None:
    decimal = Fraction(repr(value))
    exact = exact_epsilon(value)
    assert 0 < exact <= decimal
    assert decimal - exact <= decimal / 10**5


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=1000))
def test_fractions_are_rounded_down_a_little_and_once(value: Fraction) -> None:
    exact = exact_epsilon(value)
    assert 0 < exact <= value
    assert value - exact <= value / 10**5
    assert exact_epsilon(exact) == exact
    if value.denominator <= 10**6:
        assert exact == value
    else:
        # Six significant digits: times some power of ten it is an integer of six digits or fewer.
        assert any((exact * 10**power).denominator == 1 and exact * 10**power < 10**6 for power in range(40))


def test_other_parameters_share_the_rule_under_their_own_name() -> None:
    assert exact_positive(1e-6, "delta", 1) == Fraction(1, 10**6)
    with pytest.raises(InputError, match="delta must be a finite number above 0 and at most 1,"):
        exact_positive(1.5, "delta", 1)
