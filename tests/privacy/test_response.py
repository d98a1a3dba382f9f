"""Randomised response: weights keep e^epsilon in any decimal context, and every output has its exact probability."""

from __future__ import annotations

from collections import Counter
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

from sfumato.errors import InputError
from sfumato.privacy.response import OTHER, Response, check_weights, keeps_epsilon, same_weight

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


def _law(response: Response, start: int) -> list[Fraction]:
    """Exact probabilities of all outputs, by trying every coin."""
    counts = Counter(response.output(start, number) for number in range(response.total))
    return [Fraction(counts[output], response.total) for output in range(response.outcomes)]


@pytest.mark.parametrize(("outcomes", "width"), [(2, 1), (5, 1), (8, 3), (7, 6)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(3)])
def test_every_output_has_its_exact_probability_and_no_two_secrets_differ_by_more(
    outcomes: int, width: int, epsilon: Fraction
) -> None:
    response = Response(same_weight(epsilon, 50), 50, outcomes, width)
    laws = [_law(response, start) for start in range(outcomes)]
    for start, law in enumerate(laws):
        inside = {(start + step) % outcomes for step in range(width)}
        untruth = Fraction(response.other, response.total)
        assert law == [response.truth if output in inside else untruth for output in range(outcomes)]
    ratio = max(max(law[output] for law in laws) / min(law[output] for law in laws) for output in range(outcomes))
    assert ratio == Fraction(response.same, response.other)
    assert keeps_epsilon(ratio.numerator, ratio.denominator, epsilon)
    twin = Response(response.same + response.same // 10 + 1, 50, outcomes, width)  # a tenth too much is caught
    assert not keeps_epsilon(twin.same, twin.other, epsilon)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_variance_is_that_of_the_unbiased_estimate(share: float) -> None:
    response = Response(same_weight(Fraction(1), 50), 50, 4)
    true, untrue = float(response.truth), response.other / response.total
    chance = share * true + (1 - share) * untrue
    values = [((1 if hit else 0) - untrue) / (true - untrue) for hit in (True, False)]
    mean = chance * values[0] + (1 - chance) * values[1]
    assert mean == pytest.approx(share)
    square = chance * values[0] ** 2 + (1 - chance) * values[1] ** 2
    assert response.variance(share) == pytest.approx(square - mean**2)


def test_a_response_that_says_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="too small"):
        Response.of(Fraction(1, 10**7), 4)
    assert Response.of(Fraction(1), 4).same == same_weight(Fraction(1))
