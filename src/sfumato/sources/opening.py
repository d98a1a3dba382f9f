"""One door for every kind of input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import InputError
from sfumato.sources.arrays import check_shape, open_array, open_rows, open_sparse
from sfumato.sources.arrow_files import open_ipc, open_parquet
from sfumato.sources.base import Source
from sfumato.sources.delimited import open_delimited
from sfumato.sources.iterators import open_iterator
from sfumato.sources.numpy_files import open_npy, open_npz
from sfumato.sources.selection import Column, Columns, Selection, warn_of_no_numbers
from sfumato.sources.tables import open_dataset, open_pandas, open_stream

HEAD_ROWS = 1024

FILE_KINDS: dict[str, Callable[[Path, Selection], Source]] = {
    ".csv": partial(open_delimited, delimiter=","),
    ".csv.gz": partial(open_delimited, delimiter=","),
    ".tsv": partial(open_delimited, delimiter="\t"),
    ".tsv.gz": partial(open_delimited, delimiter="\t"),
    ".parquet": open_parquet,
    ".npy": open_npy,
    ".arrow": open_ipc,
    ".feather": open_ipc,
}


def open_source(
    data: Any, columns: Columns | None = None, key: Column | None = None, weight: Column | None = None
) -> Source:
    """Open data of any supported kind for reading in batches.

    Parameters
    ----------
    data
        One of: a 2-d array, a list of rows, a scipy sparse matrix; a pandas or polars frame, a pyarrow table, record
        batch, reader or data set, or anything with `__arrow_c_stream__`; the path of a `.csv`, `.tsv` (also `.gz`),
        `.parquet` (file or folder), `.npy`, `.npz` (`file.npz:NAME` where it holds several arrays), `.arrow` or
        `.feather` file; an iterator of 2-d batches. An opened source is returned as it is. The first line of `.csv`
        and `.tsv` is a header unless all of it is numbers.
    columns
        Names, or positions from 0, of the columns that make up a point, in that order. All columns but `key` and
        `weight` if not given; they must then all be numeric. A fixed-size list column (an embedding) counts as its
        many coordinates.
    key
        Name or position of the column that names the user a row belongs to, in text or numbers: needed for a release
        that protects users. A row without one belongs to nobody, and such a release drops it.
    weight
        Name or position of the column of weights, numbers in [0, 1].

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
    selection = Selection(columns, key, weight)
    if isinstance(data, Source):
        given = [name for name, value in vars(selection).items() if value is not None]
        if given:
            raise InputError(f"{given[0]}= is for data that is not opened yet. Pass it where the source is opened.")
        return data
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data), selection)
    source = _open_batch(data, selection)
    if source is not None:
        if isinstance(data, list | tuple | np.ndarray) or _is_instance(data, "pandas", "DataFrame"):
            _warn_of_columns(source, selection, f"the {type(data).__name__}")
        return source
    if isinstance(data, Iterable):
        return open_iterator(data, partial(_open_known_batch, selection=selection))
    raise _unknown(data)


def _open_path(path: Path, selection: Selection) -> Source:
    archive, marker, member = str(path).partition(".npz:")
    if marker:
        return open_npz(Path(f"{archive}.npz"), member, selection)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder. Check the path.")
    name = path.name.lower()
    if name.endswith(".npz"):
        return open_npz(path, None, selection)
    if path.is_dir():
        return open_parquet(path, selection)
    for suffix, open_file in FILE_KINDS.items():
        if name.endswith(suffix):
            return open_file(path, selection)
    raise InputError(
        f"{path}: unknown kind of file. Known are {', '.join(FILE_KINDS)}, .npz and folders of .parquet; "
        "rename or convert the file."
    )


def _open_table(data: Any, selection: Selection) -> Source | None:
    """Open anything that is a table in memory, or an Arrow reader or data set; None if `data` is none of these."""
    if hasattr(data, "shape"):
        check_shape(data.shape, f"the {type(data).__name__}")
    if isinstance(data, np.ndarray):
        return open_array(data, selection)
    if hasattr(data, "tocsr"):
        return open_sparse(data, selection)
    if _is_instance(data, "pandas", "DataFrame"):
        return open_pandas(data, selection)
    if _is_instance(data, "pyarrow.dataset", "Dataset"):
        return open_dataset(data, selection)
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.RecordBatch):
        return open_stream(data, selection)
    if hasattr(data, "__array__"):
        return open_array(np.asarray(data), selection)
    return None


def _is_instance(data: Any, module: str, name: str) -> bool:
    # Data of a class shows that its module is loaded; loading it just to ask would slow every start.
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, getattr(loaded, name))


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
    without = [name for name, column in zip(names, columns, strict=True) if np.isnan(column).all()]
    if without:
        warn_of_no_numbers(names, without, origin)


def _unknown(data: Any) -> InputError:
    return InputError(
        f"Data of type {type(data).__name__} cannot be read. Pass a 2-d array, a list of rows, a data frame, "
        "an Arrow table, the path of a file, or an iterator of 2-d batches."
    )
