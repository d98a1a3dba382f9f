"""The public box of a collection: whatever a device holds becomes a point of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.public.domain import Domain

BOX = Domain((0.0, -5.0), (1.0, 5.0))


@given(st.lists(st.one_of(st.floats(), st.integers(-(10**400), 10**400)), min_size=2, max_size=2))
def test_every_point_lands_in_the_box_and_stays_there(point: list[float]) -> None:
    clipped = BOX.clip(point)
    assert all(low <= value <= high for low, value, high in zip(BOX.lower, clipped, BOX.upper, strict=True))
    assert BOX.clip(clipped) == clipped


def test_odd_numbers_count_as_the_middle_and_far_ones_as_the_edge() -> None:
    assert BOX.middle == (0.5, 0.0)
    assert BOX.clip([math.nan, math.inf]) == [0.5, 0.0]
    assert BOX.clip([-3, 10**400]) == [0.0, 5.0]


@pytest.mark.parametrize("point", [[1.0], [1.0, 2.0, 3.0], ["a", 1.0], None, [None, 1.0]])
def test_a_point_is_a_list_of_numbers(point: Any) -> None:
    with pytest.raises(InputError, match="a point must"):
        BOX.clip(point)


@pytest.mark.parametrize(("lower", "upper"), [((), ()), ((0.0,), ()), ((1.0,), (1.0,)), ((0.0,), (math.inf,))])
def test_bounds_are_finite_and_in_order(lower: tuple[float, ...], upper: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="bound"):
        Domain(lower, upper)


def test_documents_are_read_back_and_nothing_else_is() -> None:
    document = BOX.to_document()
    assert Domain.from_document(document) == BOX
    for change in (
        {"outside": "drop"},
        {"more": 1},
        {"declared": "yes"},
        {"declared": 1},
        {"lower": "0"},
        {"lower": [0, 0]},
    ):
        with pytest.raises(InputError):
            Domain.from_document(document | change)
    with pytest.raises(InputError, match="damaged"):
        Domain.from_document({"lower": [0.0]})


def test_a_default_box_may_be_wider_than_a_declared_one() -> None:
    wide = ((-1e55,), (1e55,))
    Domain(*wide, declared=False).check_limits()
    with pytest.raises(InputError, match="must lie within"):
        Domain(*wide).check_limits()
