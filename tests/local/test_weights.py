"""Weights of randomised response keep e^epsilon, whatever decimal context the caller has set."""

from __future__ import annotations

from decimal import (
    ROUND_CEILING,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
    Rounded,
    localcontext,
)
from fractions import Fraction

import pytest

from sfumato.local.weights import OTHER, check_weights, keeps_epsilon, same_weight

HOSTILE = (
    Context(prec=3, rounding=ROUND_CEILING),
    Context(prec=3, Emax=5, Emin=-5),
    Context(prec=100, traps=[Inexact, Rounded, InvalidOperation]),
)


@pytest.mark.parametrize("context", HOSTILE)
@pytest.mark.parametrize("other", [1000, OTHER, 10**60])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(24)])
def test_weights_do_not_depend_on_the_callers_decimals(context: Context, other: int, epsilon: Fraction) -> None:
    with localcontext(Context(prec=300)):
        limit = other * (Decimal(epsilon.numerator) / epsilon.denominator).exp()
        lowest = limit * (1 - Decimal(10) ** -39) - 1
    with localcontext(context):
        same = same_weight(epsilon, other)
        assert keeps_epsilon(same, other, epsilon)
        assert check_weights(same, other, epsilon) == (same, other)
        assert not keeps_epsilon(int(limit) + 1, other, epsilon)
    assert lowest <= same <= limit


@pytest.mark.parametrize(("same", "other"), [(1, 0), (1, 2), (0, 0), (-1, -1)])
def test_what_are_no_weights_is_refused(same: int, other: int) -> None:
    assert not keeps_epsilon(same, other, Fraction(1))
