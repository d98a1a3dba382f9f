"""Categories: a cell becomes the place of its value in a public list, by a rule that looks at this cell alone.

Values are compared as ids are (`sfumato.sources.keys`): as text without blanks around it, or as numbers; the whole
number 7 is also the text "7". A cell that is no value (a null, an object of another kind) or whose value is not in the
list follows the category's declared policy: its code is NaN, so that its row is dropped, or that of "other". Nothing
here raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.deferred import is_instance
from sfumato.kernels.product import Overlap
from sfumato.sources.keys import canonical, distinct_of_arrow

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
