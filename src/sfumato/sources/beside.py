"""Users and weights that the caller holds apart, put beside their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.deferred import is_instance
from sfumato.deferred import pyarrow as pa
from sfumato.errors import InputError
from sfumato.sources.base import Rows, Source, Weights
from sfumato.sources.cells import numbers_of
from sfumato.sources.keys import Keys, check_key_dtype, check_key_type, keys_of
from sfumato.sources.opening import open_array
from sfumato.sources.selection import Selection
from sfumato.sources.tables import ids_of, open_pandas, open_stream


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
