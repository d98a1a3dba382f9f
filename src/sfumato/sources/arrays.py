"""Arrays, lists of rows and sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.sources.base import Block, Source
from sfumato.sources.selection import Columns, choose, no_numbers

AnyArray = npt.NDArray[Any]


def block_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Smallest of float32 and float64 that holds every value of a real type (64-bit integers are rounded)."""
    return np.dtype(np.float32) if np.result_type(np.float32, dtype) == np.float32 else np.dtype(np.float64)


def check_shape(shape: Sequence[int], origin: str) -> None:
    """Refuse what is not a table of rows and columns."""
    if len(shape) == 1:
        raise InputError(
            f"{origin} is 1-dimensional and rows need 2 dimensions. "
            "Use reshape(-1, 1) if it is one column of many rows, reshape(1, -1) if it is a single row."
        )
    if len(shape) != 2:
        raise InputError(
            f"{origin} is {len(shape)}-dimensional and rows need 2 dimensions. "
            "Reshape to (rows, columns); a list of 2-d batches is passed as iter(batches)."
        )


def check_numeric(dtype: np.dtype[Any], origin: str) -> None:
    """Refuse arrays whose declared type is not a real number."""
    if dtype.kind not in "biuf":
        raise InputError(
            f"{origin} has type {dtype}, not real numbers. Convert it first, for example with astype(float)"
            + (". Complex data not supported: pass two columns, real and imag." if dtype.kind == "c" else ".")
        )


def sliced_source(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    rows_between: Callable[[int, int], AnyArray],
    columns: Columns | None,
    origin: str,
) -> Source:
    """Source over anything of known shape and type that can be cut by rows."""
    check_shape(shape, origin)
    check_numeric(dtype, origin)
    chosen = choose(columns, None, shape[1], origin)

    def read(rows: int) -> Iterator[Block]:
        for start in range(0, shape[0], rows):
            part = rows_between(start, min(start + rows, shape[0]))
            if columns is not None:
                part = part[:, chosen]
            yield as_block(part)

    return Source(dimension=len(chosen), column_names=None, read=read, expected_rows=shape[0])


def as_block(part: AnyArray) -> Block:
    """Contiguous floats of the right width; masked entries are nulls, hence NaN."""
    dtype = block_type(part.dtype)
    if isinstance(part, np.ma.MaskedArray):
        part = np.ma.filled(part.astype(dtype), np.nan)
    return np.ascontiguousarray(part, dtype=dtype)


def open_array(array: AnyArray, columns: Columns | None, origin: str = "the array") -> Source:
    """Source over an array in memory, uncopied where its type and order allow."""
    return sliced_source(array.shape, array.dtype, lambda start, stop: array[start:stop], columns, origin)


def open_sparse(matrix: Any, columns: Columns | None) -> Source:
    """Source over a scipy sparse matrix, made dense one batch at a time."""
    check_shape(matrix.shape, "the sparse matrix")
    by_row = matrix.tocsr()
    return sliced_source(
        by_row.shape, by_row.dtype, lambda start, stop: by_row[start:stop].toarray(), columns, "the sparse matrix"
    )


def open_rows(rows: Sequence[Any], columns: Columns | None) -> Source:
    """Source over a list of rows; a selected column that is nothing but text is refused."""
    array = array_of_rows(rows)
    chosen = choose(columns, None, array.shape[1], "the list of rows")
    textual = [
        str(position)
        for position in chosen
        if np.isnan(array[:, position]).all() and all(isinstance(row[position], str) for row in rows)
    ]
    if textual:
        raise no_numbers([str(position) for position in chosen], textual, "the list of rows")
    return open_array(array, columns, "the list of rows")


def array_of_rows(rows: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Float64 array of a list of rows; a cell that is no number (None, text) becomes NaN."""
    if not rows:
        raise InputError("The list of rows is empty, so its dimension is unknown. Pass np.empty((0, dimension)).")
    for number, row in enumerate(rows):
        if isinstance(row, np.ndarray):
            check_numeric(row.dtype, f"The list's row {number}")
        if np.ndim(row) != 1 if isinstance(row, np.ndarray) else not isinstance(row, list | tuple):
            raise InputError(
                f"The list's item {number} is {_kind(row)} and not a row of numbers. Pass a list of equally long "
                "lists; a list of 2-d batches is passed as iter(batches)."
            )
        if len(row) != len(rows[0]):
            raise InputError(
                f"The list is ragged: row 0 has {len(rows[0])} values and row {number} has {len(row)}. "
                "Make every row equally long; a missing value is None."
            )
    try:
        return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(rows[0]))
    except (TypeError, ValueError, OverflowError):
        return np.array([[_number(cell) for cell in row] for row in rows], dtype=np.float64)


def _kind(item: object) -> str:
    return f"a {item.ndim}-d array" if isinstance(item, np.ndarray) else f"of type {type(item).__name__}"


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
