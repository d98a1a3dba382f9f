"""One cell becomes a number, or NaN, by a rule that looks at nothing else."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.sources.cells import number, numbers_of
from sfumato.sources.delimited import LineParser, TextFormat
from tests.sources.odd_cells import CELLS, NUMBERS, ODD


@pytest.mark.parametrize("cell", NUMBERS, ids=repr)
def test_real_numbers_of_every_kind_are_numbers(cell: Any) -> None:
    assert number(cell) == float(cell)


@pytest.mark.parametrize("cell", ODD, ids=lambda cell: type(cell).__name__)
def test_all_else_is_odd_and_nothing_is_said(cell: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(number(cell))


PLAIN = st.floats() | st.integers(-(2**70), 2**70) | st.booleans() | st.just(10**400)
WRAPPED = st.sampled_from([np.float64(0.1), np.float32(0.1), np.int64(2**60 + 1), np.int32(-1), np.False_])


@settings(deadline=None)
@given(cells=st.lists(PLAIN | WRAPPED, max_size=9) | st.lists(CELLS, max_size=9))
def test_many_cells_are_read_as_each_alone(cells: list[Any]) -> None:
    expected = np.array([number(cell) for cell in cells])
    np.testing.assert_array_equal(numbers_of(cells).view(np.uint64), expected.view(np.uint64))


@pytest.mark.parametrize("kind", ["bool", "int8", "uint64", "int64", "float16", "float32", "float64", "longdouble"])
def test_arrays_with_a_type_are_read_as_their_cells(kind: str) -> None:
    cells = np.array([0, 1, 2**60 + 1, 2**63, 0.1, 1e300, float("nan")]).astype(kind, casting="unsafe")
    np.testing.assert_array_equal(numbers_of(cells), [number(cell) for cell in cells])
    masked = np.ma.array(cells, mask=[False, True] * 3 + [False])
    np.testing.assert_array_equal(numbers_of(masked), [number(cell) for cell in masked])


@pytest.mark.parametrize("kind", ["datetime64[s]", "datetime64[ns]", "timedelta64[ns]", "complex128", "U5", "S5"])
def test_arrays_of_other_types_are_read_as_their_cells(kind: str) -> None:
    cells = np.array([0, 1, 7]).astype(kind)
    np.testing.assert_array_equal(numbers_of(cells), [number(cell) for cell in cells])


@settings(deadline=None)
@given(text=st.text("+-.019eEinfaNTY \tx_", max_size=8))
def test_text_is_read_as_in_a_file(text: str) -> None:
    [[found, _]] = LineParser(TextFormat(), 2, (0, 1)).parse(f"{text},7".encode())
    np.testing.assert_array_equal(number(text), found)
    np.testing.assert_array_equal(number(text.encode()), found)
