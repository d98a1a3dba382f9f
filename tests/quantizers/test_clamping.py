"""Clamps that no number, and nothing that is none, passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.published.hermite import add_orders
from sfumato.quantizers.clamping import held, round_into_ball, whole_within

ANY = st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None)  # the first call compiles
@given(ANY, st.integers(-(2**40), 0), st.integers(0, 2**40))
def test_one_number_is_held(value: float, low: int, high: int) -> None:
    expected = low if np.isnan(value) else int(min(max(value, low), high))
    assert held(value, low, high) == expected == whole_within(np.array([value]), low, high)[0]


@settings(deadline=None)  # the first call compiles
@given(st.lists(ANY, min_size=1, max_size=8), st.integers(1, 2**20), st.floats(1e-300, 1e300))
def test_a_ball_holds_anything(values: list[float], scale: int, unit: float) -> None:
    encoded = np.empty(len(values), dtype=np.int64)
    length = round_into_ball(np.array(values), unit, scale, encoded)
    assert length == sum(int(value) ** 2 for value in encoded) <= scale**2


def test_no_number_is_zero_in_a_ball() -> None:
    encoded = np.empty(2, dtype=np.int64)
    round_into_ball(np.array([np.nan, 1.0]), 100.0, 1000, encoded)
    assert encoded.tolist() == [0, 100]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_orders_of_a_cell_hold_anything(value: float) -> None:
    out = np.zeros((1, 12), dtype=np.int64)
    with np.errstate(all="ignore"):
        add_orders(np.array([[value]]), np.zeros(1), np.array([1e-10]), np.array([4]), 3, 2.0**20, out)
    assert sorted(np.abs(out[0]).tolist())[-3:] == [2**18, 2**19, 2**20]
    assert np.count_nonzero(out) == 3
