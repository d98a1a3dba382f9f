"""One cell becomes a number, or is odd and becomes NaN, by a rule that looks at this cell and at nothing else.

A cell is a number if it is a real number of any kind (of Python, NumPy, `decimal` or `fractions`; True is 1), or text
that reads as one, by the syntax that files are read with. All else is odd: nulls, masked cells, other text, complex
numbers, dates and spans of time, lists and arrays, be it of one element, and whole numbers beyond binary64.

Where a column has a declared type (an array's, an Arrow column's), the type decides before any value is read. Where it
has none (lists, columns of objects) a type that is read off all cells together would let one record decide what the
others are, so each cell is taken alone. The quick way is taken only where all cells are of plain types, for which
NumPy does cell by cell what the rule does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

# What pyarrow's CSV reader takes for a float, in syntax common to Python's and Arrow's regular expressions.
NUMBER = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf(?:inity)?))"

_NUMBER = re.compile(NUMBER)
_NAN = float("nan")
_PLAIN = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_})


def number(cell: object) -> float:
    """Return the number that a cell is, or NaN for an odd one. Never raises.

    Examples
    --------
    >>> from fractions import Fraction
    >>> number(7), number(" 1e3"), number(Fraction(1, 4)), number(np.True_)
    (7.0, 1000.0, 0.25, 1.0)
    >>> number(None), number("7 m"), number([7.0]), number(np.timedelta64(7, "s"))
    (nan, nan, nan, nan)
    """
    scalar = scalar_of(cell)
    if isinstance(scalar, bytes):
        scalar = scalar.decode("latin-1")
    if isinstance(scalar, str):
        text = scalar.strip(" \t")
        return float(text) if _NUMBER.fullmatch(text) else _NAN
    if not is_real(scalar):
        return _NAN
    try:
        return float(scalar)  # type: ignore[arg-type]
    except (TypeError, ValueError, ArithmeticError):
        return _NAN


def scalar_of(cell: object) -> object:
    """Take a cell out of an array without dimensions; others are returned as they are."""
    return cell[()] if isinstance(cell, np.ndarray) and cell.ndim == 0 else cell


def is_real(scalar: object) -> bool:
    """Tell whether a scalar is a real number; to NumPy, a span of time is a whole number."""
    return isinstance(scalar, Real | Decimal | np.bool_) and not isinstance(scalar, np.timedelta64)


def lists_of(cells: Iterable[Any], length: int) -> npt.NDArray[np.float64]:
    """Return the numbers of cells that are lists of a declared length, a row each; NaN for all other cells.

    Examples
    --------
    >>> lists_of([[1, 2], np.array([3.0, 4.0]), [5], None], 2)
    array([[ 1.,  2.],
           [ 3.,  4.],
           [nan, nan],
           [nan, nan]])
    """
    listed = list(cells)
    rows = np.full((len(listed), length), _NAN)
    for place, cell in enumerate(listed):
        flat = isinstance(cell, list | tuple) or (isinstance(cell, np.ndarray) and cell.ndim == 1)
        if flat and len(cell) == length:
            rows[place] = numbers_of(cell)
    return rows


def numbers_of(cells: Iterable[Any]) -> npt.NDArray[np.float64]:
    """Return the `number` of every cell.

    Parameters
    ----------
    cells : iterable, or one-dimensional array of any type

    Examples
    --------
    >>> numbers_of([1, "2.5", None])
    array([1. , 2.5, nan])
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            numbers = cells.astype(np.float64)
        return np.asarray(np.ma.filled(numbers, np.nan))
    listed = list(cells)
    if _PLAIN.issuperset(map(type, listed)):
        try:
            return np.array(listed, dtype=np.float64)
        except OverflowError:
            pass  # a whole number beyond binary64, which is odd
    return np.array([cell if type(cell) is float else number(cell) for cell in listed], dtype=np.float64)
