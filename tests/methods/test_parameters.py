"""What a caller types becomes the facts of a request, or an error in the caller's own words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato import InputError
from sfumato.kernels import Gaussian, Product
from sfumato.methods.parameters import Parameters, bounds_in_order
from sfumato.public.ranges import MOST_RECORDS

TYPED: dict[str, Any] = {"epsilon": 0.1, "bandwidth": 2.0, "n_hint": 500}


def test_settings_that_decide_nothing_are_left_behind() -> None:
    made = Parameters.of({**TYPED, "ledger": "spent.jsonl", "engine": None})
    assert made == Parameters(**TYPED)


def test_a_decimal_epsilon_is_exact_and_the_kernel_has_its_bandwidth() -> None:
    request = Parameters(**TYPED).request(3)
    assert (request.epsilon, request.n, request.kernel) == (Fraction(1, 10), 500, Gaussian(2.0))
    assert request.private and not Parameters(**TYPED, random_state=1).request(3).private


def test_a_count_that_is_bought_stands_at_its_largest() -> None:
    request = Parameters(**{**TYPED, "n_hint": "paid"}).request(3)
    assert request.n == MOST_RECORDS and request.count_epsilon == Fraction(1, 200)


def test_categories_get_the_last_columns_until_they_are_known() -> None:
    request = Parameters(**TYPED, categories={"colour": ["red", "blue"]}).request(3)
    assert isinstance(request.kernel, Product) and request.kernel.places == (2,)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": None}, "epsilon is missing"),
        ({"n_hint": None}, "n_hint is missing"),
        ({"n_hint": 2.5}, "n_hint must be a whole number"),
        ({"bandwidth": None}, "bandwidth is missing"),
        ({"bandwidth_metres": 100.0}, "two ways to say one thing"),
        ({"neighbours": "swap"}, "neighbours must be"),
        ({"neighbours": "replace", "n_hint": "paid"}, "n is public"),
        ({"bounds": {"x": (0, 1)}}, "names the column 'x'"),
    ],
)
def test_what_is_missing_or_wrong_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Parameters(**{**TYPED, **changed}).request(2)


def test_bounds_by_name_and_position_go_into_the_columns_order() -> None:
    assert bounds_in_order({1: (5, 6), "a": (0, 1)}, ["a", "b"], 2) == [(0, 1), (5, 6)]
    with pytest.raises(InputError, match="leaves out the column 'b'"):
        bounds_in_order({"a": (0, 1)}, ["a", "b"], 2)
