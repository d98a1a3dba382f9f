"""Cells of every kind that may stand in a list, alone or beside each other."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

NUMBERS: list[Any] = [
    *(0, 1, -3, 2**60, 2**60 + 1, 2**64, 0.0, -0.0, 0.1, 1.5, 1e308, float("inf"), True, False),
    *(np.float64(2.5), np.float32(0.1), np.float16(0.1), np.longdouble(0.1), np.int8(-1), np.uint64(2**64 - 1)),
    np.True_,
    *(Decimal("0.1"), Decimal("1e400"), Fraction(1, 3), "1", " 2.5\t", "+1e3", "-inf", "1e400", b"7", np.str_("4")),
    *(np.array(5.0), np.array(7)),
]
ODD: list[Any] = [
    *(None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.ma.masked, np.ma.array(5.0, mask=True)),
    *("", "x", "nan", "null", "1_0", "\u0661", "0x10", "1 2", "1\n", b"x", b"\xff", np.str_("a")),
    *(1j, np.complex64(1), 10**400, -(10**400), Fraction(10**400), Decimal("nan"), Decimal("snan")),
    *(np.datetime64("2024-01-01"), np.datetime64("NaT"), np.timedelta64(3, "D"), np.timedelta64("NaT", "s")),
    *(datetime.date(2024, 1, 1), datetime.timedelta(1), pd.Timestamp("2024-01-01"), uuid.UUID(int=5)),
    *([1.0], (1.0,), [], [1.0, 2.0], [[1.0]], {1.0}, {}, np.array([1.0]), np.array(["1"]), np.array([]), object()),
    np.array(3, "timedelta64[s]"),
]
CELLS = st.sampled_from(NUMBERS + ODD) | st.floats() | st.integers(-(2**70), 2**70) | st.text(max_size=3)


def rows_of_cells(width: int) -> st.SearchStrategy[list[list[Any]]]:
    """Lists of rows of one width."""
    return st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=8)


def objects(cells: list[Any]) -> np.ndarray:
    """An array of objects, each put there alone, so that NumPy infers nothing from them."""
    array = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        array[place] = cell
    return array


def table_of_objects(rows: list[list[Any]]) -> np.ndarray:
    """Rows as a two-dimensional array of objects."""
    return objects([cell for row in rows for cell in row]).reshape(len(rows), len(rows[0]) if rows else 2)
