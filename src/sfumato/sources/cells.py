"""One cell becomes a number, or is odd and becomes NaN, by a rule that looks at this cell and at nothing else.

A cell is a number if it is a real number of any kind (of Python, NumPy, `decimal` or `fractions`; True is 1), or text
that reads as one, by the syntax that files are read with. All else is odd: nulls, masked cells, other text, complex
numbers, dates and spans of time, lists and arrays, be it of one element, and whole numbers beyond binary64.

Where a column has a declared type (an array's, an Arrow column's), the type decides before any value is read. Where it
has none (lists, columns of objects) a type that is read off all cells together would let one record decide what the
others are, so each cell is taken alone. The quick way is taken only where all cells are of plain types, for which
NumPy does cell by cell what the rule does.

A category's cell becomes the place of its value in a public list, by a rule that looks at this cell alone too. Values
are compared as ids are (`sfumato.sources.keys`): as text without blanks around it, or as numbers; the whole number 7 is
also the text "7". A cell that is no value (a null, an object of another kind) or whose value is not in the list follows
the category's declared policy: its code is NaN, so that its row is dropped, or that of "other". Nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.deferred import is_instance
from sfumato.kernels.product import Overlap
from sfumato.sources.keys import canonical, distinct_of_arrow

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


Codes = npt.NDArray[np.float64]


def codes_of(cells: Any, category: Overlap) -> Codes:
    """Codes of a column.

    Parameters
    ----------
    cells : ndarray, pyarrow.Array or sequence
        A one-dimensional array of numbers or text, an Arrow array, or any objects.
    category : Overlap
        The public values, and what happens to others.

    Examples
    --------
    >>> codes_of(["b", " a", None, 7], Overlap(["a", "b", "7"]))
    array([ 1.,  0., nan,  2.])
    >>> codes_of(np.array([3, 9]), Overlap([3, 4], unseen="other"))
    array([0., 2.])
    """
    if is_instance(cells, "pyarrow", "Array"):
        return codes_of_distinct(*distinct_of_arrow(cells), category)
    if isinstance(cells, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(cells), _unseen(category), codes_of(cells.data, category))
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        distinct, places = np.unique(cells, return_inverse=True)
        return codes_of_distinct(distinct.tolist(), places, category)
    table, unseen = _table(category), _unseen(category)
    return np.array([_code(cell, table, unseen) for cell in cells], dtype=np.float64)


def codes_of_distinct(distinct: Sequence[object], places: npt.NDArray[np.integer[Any]], category: Overlap) -> Codes:
    """Codes of values given as places in a list of distinct ones; a negative place is a null."""
    table, unseen = _table(category), _unseen(category)
    codes = np.array([*(_code(value, table, unseen) for value in distinct), unseen])
    return codes[np.where(places < 0, len(distinct), places)]


def _table(category: Overlap) -> dict[bytes | None, float]:
    return {canonical(value): float(code) for code, value in enumerate(category.values)}


def _unseen(category: Overlap) -> float:
    return float(len(category.values)) if category.unseen == "other" else float("nan")


def _code(value: object, table: dict[bytes | None, float], unseen: float) -> float:
    scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    text = canonical(scalar)
    return unseen if text is None else table.get(text, unseen)
