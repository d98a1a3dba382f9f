"""One door for every kind of input, and what it makes of arrays, lists of rows and sparse matrices.

An array's type is declared and decides for all of it. Lists and arrays of objects have none: there each cell alone
decides, see `sfumato.sources.cells`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.deferred import is_instance, require
from sfumato.errors import InputError
from sfumato.kernels.product import Overlap
from sfumato.sources.base import Block, Rows, Source, block_type, open_iterator, readable
from sfumato.sources.cells import codes_of, lists_of, numbers_of
from sfumato.sources.keys import Keys, keys_of
from sfumato.sources.selection import Chosen, Column, Columns, Selection, warn_of_no_numbers
from sfumato.sources.tables import (
    is_geographic_frame,
    open_dataset,
    open_pandas,
    open_points,
    open_relation,
    open_spark,
    open_stream,
)

AnyArray = npt.NDArray[Any]

HEAD_ROWS = 1024


def open_source(
    data: Any,
    columns: Columns | None = None,
    key: Column | None = None,
    weight: Column | None = None,
    categories: Mapping[Any, Any] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Source:
    """Open data of any supported kind for reading in batches.

    Parameters
    ----------
    data
        One of: a 2-d array, a list of rows, a scipy sparse matrix; a pandas or polars frame, a pyarrow table, record
        batch, reader or data set, a DuckDB relation, a GeoDataFrame of points, or anything with `__arrow_c_stream__`
        or `__dataframe__`; the path of a `.csv`, `.tsv` (also `.gz`), `.parquet`, `.npy`, `.npz` (`file.npz:NAME` where
        it holds several arrays), `.arrow` or `.feather` file, a folder of such files, a pattern of their names, or a
        list of paths; a Spark DataFrame; an iterator of 2-d batches. An opened source is returned as it is. The first
        line of `.csv` and `.tsv` is a header unless all of it is numbers.
    columns
        Names, or positions from 0, of the columns that make up a point, in that order. All columns but `key` and
        `weight` if not given; they must then all be numeric. A fixed-size list column (an embedding) counts as its
        many coordinates; a list of any length, or a column of arrays, is named with its public length, as in
        ``"embedding[384]"``, and a row with another one is dropped.
    key
        Name or position of the column that names the user a row belongs to, in text or numbers: needed for a release
        that protects users. A row without one belongs to nobody, and such a release drops it.
    weight
        Name or position of the column of weights, numbers in [0, 1].
    categories
        Columns, by name or position, that are categories, with their public values: a list or a `kernels.Overlap`. They
        are read as codes, see `sfumato.sources.cells`.
    separator, decimal
        What stands between the fields of text, and within its numbers: comma (in `.tsv` tab) and point by default. They
        are never guessed from the rows.

    Returns
    -------
    Source
        Its `batches` are rows of floats in which a null or an unparsable cell is NaN; `keyed_batches` adds the users.

    Raises
    ------
    InputError
        If the file, the columns, their types or the shape are wrong; the text says what is there and what to do.

    Examples
    --------
    >>> from sfumato.sources import open_source
    >>> source = open_source([[1, 2, 3], [4, None, 6]], columns=[2, 1])
    >>> next(source.batches())
    array([[ 3.,  2.],
           [ 6., nan]])
    """
    kinds = None if not categories else {column: Overlap.of(values) for column, values in categories.items()}
    selection = Selection(columns, key, weight, kinds)
    if isinstance(data, Source):
        text = {"separator": separator, "decimal": decimal}
        given = [name for name, value in (vars(selection) | text).items() if value is not None]
        if given:
            raise InputError(f"{given[0]}= is for data that is not opened yet. Pass it where the source is opened.")
        return data
    if isinstance(data, str | os.PathLike):
        from sfumato.sources.files import open_path  # Arrow's readers of files take a while to load

        return open_path(Path(data), selection, separator, decimal)
    if is_list_of_paths(data):
        from sfumato.sources.files import open_paths

        return open_paths([Path(path) for path in data], selection, separator, decimal)
    if separator is not None or decimal is not None:
        raise InputError("separator= and decimal= are for files of text. Leave them out.")
    source = _open_batch(data, selection)
    if source is not None:
        if isinstance(data, list | tuple | np.ndarray) or is_instance(data, "pandas", "DataFrame"):
            _warn_of_columns(source, selection, f"the {type(data).__name__}")
        return source
    if isinstance(data, Iterable):
        return open_iterator(data, partial(_open_known_batch, selection=selection))
    raise _unknown(data)


def paths_of(data: Any) -> tuple[str, ...]:
    """Paths that data is read from; none of what is in memory.

    Examples
    --------
    >>> paths_of("trips.csv"), paths_of(["a.csv", "b.csv"]), paths_of([[1.0, 2.0]])
    (('trips.csv',), ('a.csv', 'b.csv'), ())
    """
    if isinstance(data, str | os.PathLike):
        return (os.fspath(data),)
    if is_list_of_paths(data):
        return tuple(map(os.fspath, data))
    return data.paths if isinstance(data, Source) else ()


def is_list_of_paths(data: Any) -> bool:
    """Tell whether data is a list of the paths of files."""
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(path, str | os.PathLike) for path in data)


def _open_table(data: Any, selection: Selection) -> Source | None:
    """Open anything that is a table in memory, or an Arrow reader or data set; None if `data` is none of these."""
    if isinstance(data, np.ndarray):
        if lists := _open_lists(data, selection):
            return lists
        check_shape(data.shape, "the ndarray")
        return open_array(data, selection)
    if is_instance(data, "pyspark.sql", "DataFrame"):
        return open_spark(data, selection)
    if getattr(data, "ndim", None) == 1 and (lists := _open_lists(np.asarray(data), selection)):
        return lists
    if is_instance(data, "polars", "LazyFrame"):
        return open_stream(data.collect(), selection)
    if is_instance(data, "duckdb", "DuckDBPyRelation"):
        return open_relation(data, selection)
    if hasattr(data, "shape"):
        check_shape(data.shape, f"the {type(data).__name__}")
    if hasattr(data, "tocsr"):
        return open_sparse(data, selection)
    if is_instance(data, "pandas", "DataFrame"):
        return (open_points if is_geographic_frame(data) else open_pandas)(data, selection)
    if is_instance(data, "pyarrow.dataset", "Dataset"):
        return open_dataset(data, selection)
    if hasattr(data, "__arrow_c_stream__") or is_instance(data, "pyarrow", "RecordBatch"):
        return open_stream(data, selection)
    if hasattr(data, "__dataframe__"):
        require("curator")
        from pyarrow.interchange import from_dataframe

        with readable(f"the {type(data).__name__}"):
            return open_stream(from_dataframe(data), selection)
    if hasattr(data, "__array__"):
        return open_array(np.asarray(data), selection)
    return None


def _open_lists(column: AnyArray, selection: Selection) -> Source | None:
    """Open one column of lists whose public length is declared; None where it is none."""
    if column.ndim != 1 or column.dtype.kind != "O":
        return None
    lengths = selection.lengths(None)
    return open_array(lists_of(column, lengths[0]), Selection()) if list(lengths) == [0] else None


def _open_batch(batch: Any, selection: Selection) -> Source | None:
    return open_rows(batch, selection) if isinstance(batch, list | tuple) else _open_table(batch, selection)


def _open_known_batch(batch: Any, selection: Selection) -> Source:
    source = _open_batch(batch, selection)
    if source is None:
        raise _unknown(batch)
    return source


def _warn_of_columns(source: Source, selection: Selection, origin: str) -> None:
    """Tell the curator of columns without a single number in the first rows; to raise would tell it to everybody."""
    head = next(source.pieces(HEAD_ROWS), None)
    if head is None:
        return
    beside = {selection.key, selection.weight} - {None}
    places = range(source.dimension + len(beside))
    chosen = source.column_names or selection.columns or [place for place in places if place not in beside]
    columns = [*head.block.T, *([] if head.weights is None else [head.weights])]
    names = [str(name) for name in (*chosen, selection.weight)][: len(columns)]
    without = [
        name
        for place, (name, column) in enumerate(zip(names, columns, strict=True))
        if place not in source.categories and np.isnan(column).all()
    ]
    if without:
        warn_of_no_numbers(names, without, origin)


def _unknown(data: Any) -> InputError:
    return InputError(
        f"Data of type {type(data).__name__} cannot be read. Pass a 2-d array, a list of rows, a data frame, "
        "an Arrow table, the path of a file, or an iterator of 2-d batches."
    )


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
    if min(shape) < 0:
        raise InputError(f"{origin} claims the shape {tuple(shape)}: it is damaged.")


def check_numeric(dtype: np.dtype[Any], origin: str) -> None:
    """Refuse arrays whose declared type is not a real number."""
    if dtype.kind not in "biuf":
        raise InputError(
            f"{origin} has type {dtype}, not real numbers. Convert it first, for example with astype(float)"
            + (". Complex data not supported: pass two columns, real and imag." if dtype.kind == "c" else ".")
        )


def sliced_source(
    shape: tuple[int, ...], rows_between: Callable[[int, int], AnyArray], selection: Selection, origin: str
) -> Source:
    """Source over anything of known shape that can be cut by rows."""
    check_shape(shape, origin)
    chosen = selection.choose(None, shape[1], origin)
    chosen.check_no_lists(origin)

    def read(rows: int) -> Iterator[Rows]:
        for start in range(0, shape[0], rows):
            yield rows_of(rows_between(start, min(start + rows, shape[0])), chosen)

    return source_of(chosen, read, shape[0])


def source_of(chosen: Chosen, read: Callable[[int], Iterator[Rows]], expected_rows: int) -> Source:
    """Source over columns without names."""
    return Source(
        dimension=len(chosen.coordinates),
        column_names=None,
        read=read,
        expected_rows=expected_rows,
        keyed=chosen.key is not None,
        weighted=chosen.weight is not None,
        categories=chosen.categories,
    )


def rows_of(part: AnyArray, chosen: Chosen, keys: Keys | None = None) -> Rows:
    """Take the selected columns of some rows; `keys` where the users have been read already."""
    every = chosen.coordinates == tuple(range(part.shape[1]))
    if keys is None and chosen.key is not None:
        keys = keys_of(part[:, chosen.key])
    block = as_block(part if every else part[:, list(chosen.coordinates)])
    if chosen.coded:
        block = block.copy()  # it may be the caller's own memory
        for place, category in chosen.categories.items():
            block[:, place] = codes_of(part[:, chosen.coordinates[place]], category)
    return Rows(
        block,
        keys,
        None if chosen.weight is None else as_block(part[:, chosen.weight]).astype(np.float64),
    )


def as_block(part: AnyArray) -> Block:
    """Contiguous floats of the right width; masked entries are nulls, hence NaN."""
    if part.dtype.kind == "O":
        return numbers_of(part.reshape(-1)).reshape(part.shape)
    dtype = block_type(part.dtype)
    with np.errstate(over="ignore"):
        if isinstance(part, np.ma.MaskedArray):
            part = np.ma.filled(part.astype(dtype), np.nan)
        return np.ascontiguousarray(part, dtype=dtype)


def open_array(array: AnyArray, selection: Selection, origin: str = "the array") -> Source:
    """Source over an array in memory, uncopied where its type and order allow."""
    array = array if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    if array.dtype.kind in "US" and selection.categories:
        array = array.astype(object)  # text, of which each cell alone decides whether it is a number
    if array.dtype.kind != "O":
        check_numeric(array.dtype, origin)
    return sliced_source(array.shape, lambda start, stop: array[start:stop], selection, origin)


def open_sparse(matrix: Any, selection: Selection) -> Source:
    """Source over a scipy sparse matrix, made dense one batch at a time."""
    origin = "the sparse matrix"
    check_shape(matrix.shape, origin)
    by_row = matrix.tocsr()
    check_numeric(by_row.dtype, origin)
    return sliced_source(by_row.shape, lambda start, stop: by_row[start:stop].toarray(), selection, origin)


def open_rows(rows: Sequence[Any], selection: Selection) -> Source:
    """Source over a list of rows; users are read off the list, where they may be text."""
    array = array_of_rows(rows)
    chosen = selection.choose(None, array.shape[1], "the list of rows")
    keys = None if chosen.key is None else keys_of([row[chosen.key] for row in rows])
    for place, category in chosen.coded.items():
        array[:, place] = codes_of([row[place] for row in rows], category)
    plain = replace(chosen, coded={})

    def read(height: int) -> Iterator[Rows]:
        for start in range(0, len(rows), height):
            part = slice(start, start + height)
            yield rows_of(array[part], plain, None if keys is None else keys[part])

    return source_of(chosen, read, len(rows))


def array_of_rows(rows: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Float64 array of a list of rows, each cell read alone; one that is no number becomes NaN."""
    if not rows:
        raise InputError("The list of rows is empty, so its dimension is unknown. Pass np.empty((0, dimension)).")
    for number, row in enumerate(rows):
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
    if any(isinstance(row, np.ndarray) for row in rows):
        return np.stack([numbers_of(row) for row in rows])
    return numbers_of(chain.from_iterable(rows)).reshape(len(rows), len(rows[0]))


def _kind(item: object) -> str:
    return f"a {item.ndim}-d array" if isinstance(item, np.ndarray) else f"of type {type(item).__name__}"
