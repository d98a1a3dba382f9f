"""One door for every kind of input; and users and weights that the caller holds apart, put beside their rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.deferred import is_instance, require
from sfumato.deferred import pyarrow as pa
from sfumato.errors import InputError
from sfumato.kernels.product import Overlap
from sfumato.sources.arrays import check_shape, open_array, open_rows, open_sparse
from sfumato.sources.base import Rows, Source, Weights, open_iterator, readable
from sfumato.sources.cells import lists_of, numbers_of
from sfumato.sources.geometry import is_geographic_frame, open_points
from sfumato.sources.keys import Keys, check_key_dtype, check_key_type, keys_of
from sfumato.sources.selection import Column, Columns, Selection, warn_of_no_numbers
from sfumato.sources.tables import ids_of, open_dataset, open_pandas, open_relation, open_spark, open_stream

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
        are read as codes, see `sfumato.sources.codes`.
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
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | os.PathLike) for path in data):
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


def _open_table(data: Any, selection: Selection) -> Source | None:
    """Open anything that is a table in memory, or an Arrow reader or data set; None if `data` is none of these."""
    if is_instance(data, "pyspark.sql", "DataFrame"):
        return open_spark(data, selection)
    lengths = selection.lengths(None)
    if lengths == {0: lengths.get(0)} and getattr(data, "ndim", None) == 1 and np.asarray(data).dtype.kind == "O":
        return open_array(lists_of(np.asarray(data), lengths[0]), Selection())
    if is_instance(data, "polars", "LazyFrame"):
        return open_stream(data.collect(), selection)
    if is_instance(data, "duckdb", "DuckDBPyRelation"):
        return open_relation(data, selection)
    if hasattr(data, "shape"):
        check_shape(data.shape, f"the {type(data).__name__}")
    if isinstance(data, np.ndarray):
        return open_array(data, selection)
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


def attach(source: Source, users: Any = None, weights: Any = None) -> Source:
    """Return the same rows with the users, the weights or both of an array.

    Parameters
    ----------
    source
        The rows.
    users
        One id for each row: a one-dimensional array of any type, a list, a pandas or pyarrow column.
    weights
        One number for each row, likewise.

    Returns
    -------
    Source

    Raises
    ------
    InputError
        If there are more or fewer of them than rows (told while reading where the length is not known before), if their
        type is wrong, or if the source has users or weights of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.sources import open_source
    >>> [(block, keys)] = attach(open_source(np.eye(3)), users=["ada", "bob", "ada"]).keyed_batches()
    >>> bool((keys[0] == keys[2]).all())
    True
    """
    keys = None if users is None else _keys(users, source)
    numbers = None if weights is None else _numbers(weights, source)
    beside = {name: values for name, values in (("users", keys), ("weights", numbers)) if values is not None}
    if source.expected_rows is not None:
        _check_length(beside, source.expected_rows, finished=True)

    def read(rows: int) -> Iterator[Rows]:
        start = 0
        for piece in source.pieces(rows):
            here = slice(start, start + len(piece))
            start += len(piece)
            _check_length(beside, start, finished=False)
            yield replace(
                piece,
                keys=piece.keys if keys is None else keys[here],
                weights=piece.weights if numbers is None else numbers[here],
            )
        _check_length(beside, start, finished=True)

    return replace(
        source, read=read, keyed=source.keyed or keys is not None, weighted=source.weighted or numbers is not None
    )


def _keys(users: Any, source: Source) -> Keys:
    if source.keyed:
        raise InputError("The rows were opened with key= and come with users already. Pass users= or key=, not both.")
    if is_untyped(users):
        return keys_of(list(users))
    if hasattr(users, "iloc"):
        _check_flat(users, "users")
        check_key_dtype(users.dtype, "users=")
        users = ids_of(users)
    elif hasattr(users, "__arrow_c_stream__"):
        users = pa.chunked_array(users)
    if is_instance(users, "pyarrow", "ChunkedArray"):
        users = users.combine_chunks()
    if is_instance(users, "pyarrow", "Array"):
        check_key_type(users.type, "users", "users=")
        return keys_of(users)
    ids = np.ma.asanyarray(users)
    _check_flat(ids, "users")
    check_key_dtype(ids.dtype, "users=")
    return keys_of(ids)


def _numbers(weights: Any, source: Source) -> Weights:
    """Read weights as the one column of a source, so that they are read like all other numbers."""
    if source.weighted:
        raise InputError("The rows were opened with weight= and come with weights already. Pass weights once.")
    if is_untyped(weights):
        return numbers_of(weights)
    if hasattr(weights, "iloc"):
        _check_flat(weights, "weights")
        column = open_pandas(weights.to_frame("weights"), Selection())
    elif hasattr(weights, "__arrow_c_stream__") or is_instance(weights, "pyarrow", "Array"):
        chunks = weights if is_instance(weights, "pyarrow", "Array") else pa.chunked_array(weights)
        column = open_stream(pa.table({"weights": chunks}), Selection())
    else:
        numbers = np.ma.asanyarray(weights)
        _check_flat(numbers, "weights")
        column = open_array(numbers[:, None], Selection(), "weights=")
    return column.whole()[:, 0]


def is_untyped(values: Any) -> bool:
    """Tell whether values have no declared type, as in lists: then each decides alone."""
    typed = any(hasattr(values, name) for name in ("dtype", "__array__", "__arrow_c_stream__"))
    return isinstance(values, Iterable) and not isinstance(values, str | bytes) and not typed


def _check_flat(values: Any, name: str) -> None:
    if len(values.shape) != 1:
        raise InputError(f"{name}= has {len(values.shape)} dimensions. Pass one value for each row, in one dimension.")


def _check_length(beside: dict[str, Keys | Weights], rows: int, finished: bool) -> None:
    """Refuse values of which there are too few so far or, when all rows are read, too many."""
    for name, values in beside.items():
        if len(values) < rows or (finished and len(values) > rows):
            raise _wrong_length(name)


def _wrong_length(name: str) -> InputError:
    return InputError(f"{name}= must hold one value for each row, and its length is not the number of rows.")
