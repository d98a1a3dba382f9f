"""Arrays, lists of rows, sparse matrices, and NumPy's own files: `.npy` mapped, `.npz` streamed out of its archive.

An array's type is declared and decides for all of it. Lists and arrays of objects have none: there each cell alone
decides, see `sfumato.sources.cells`.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.sources.base import Block, Rows, Source, readable
from sfumato.sources.cells import numbers_of
from sfumato.sources.codes import codes_of
from sfumato.sources.compressed import LARGEST_AT_ONCE, LARGEST_RATIO
from sfumato.sources.keys import Keys, keys_of
from sfumato.sources.selection import Chosen, Selection, listing

AnyArray = npt.NDArray[Any]

LONGEST_HEADER = 10_000  # of a .npy file, as in NumPy


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


def open_npy(path: Path, selection: Selection) -> Source:
    """Source over a `.npy` file in row or column order, of which only the pages of one batch are mapped at a time."""
    origin = str(path)
    with readable(origin), path.open("rb") as stream:
        shape, fortran_order, dtype = _header(stream, origin)
        offset = stream.tell()
    order: Literal["C", "F"] = "F" if fortran_order else "C"

    def rows_between(start: int, stop: int) -> AnyArray:
        # A new map each time: one that lived on would count every page ever touched as ours.
        with readable(origin):
            return np.asarray(np.memmap(path, dtype, "r", offset, shape, order)[start:stop])

    rows_between(0, 0)  # mapping refuses a truncated file, here rather than in the middle of the rows
    return sliced_source(shape, rows_between, selection, origin)


def open_npz(path: Path, member: str | None, selection: Selection) -> Source:
    """Source over one array of a `.npz` archive, compressed or not.

    An array in row order is streamed. One in column order (`fortran_order`) has no row complete before its end, so
    it is loaded whole.
    """
    origin = str(path) if member is None else f"{path}:{member}"
    with readable(origin), zipfile.ZipFile(path) as archive:
        entry = _entry(archive, member, path)
        with archive.open(entry) as stream:
            shape, fortran_order, dtype = _header(stream, origin)
            size = math.prod(shape) * dtype.itemsize
            if size > archive.getinfo(entry).file_size - stream.tell():
                raise InputError(f"{origin} claims {shape[0]} rows of {shape[1]} numbers and does not hold them.")
    if fortran_order:
        most = max(LARGEST_AT_ONCE, LARGEST_RATIO * path.stat().st_size)
        if size > most:
            raise InputError(
                f"{origin} is in column order and takes {size} bytes of memory at once; {most} are allowed. "
                "Save it in row order (np.ascontiguousarray) or as .npy, which are read in parts."
            )
        with readable(origin), np.load(path) as arrays:
            return open_array(arrays[entry.removesuffix(".npy")], selection, origin)
    chosen = selection.choose(None, shape[1], origin)

    def read(rows: int) -> Iterator[Rows]:
        with readable(origin), zipfile.ZipFile(path) as archive, archive.open(entry) as stream:
            _header(stream, origin)
            for start in range(0, shape[0], rows):
                height = min(rows, shape[0] - start)
                part = np.frombuffer(stream.read(height * shape[1] * dtype.itemsize), dtype).reshape(height, shape[1])
                yield rows_of(part, chosen)

    return source_of(chosen, read, shape[0])


def _entry(archive: zipfile.ZipFile, member: str | None, path: Path) -> str:
    names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    present = listing(map(repr, names)) or "none"
    if member is not None and member not in names:
        raise InputError(f"{path} has no array {member!r}; its arrays are {present}.")
    if member is None and len(names) != 1:
        example = names[0] if names else "NAME"
        raise InputError(
            f"{path} must hold one array, or one must be named as in '{path.name}:{example}'; its arrays are {present}."
        )
    return f"{member or names[0]}.npy"


def _header(stream: IO[bytes], origin: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and type, none of which may cost more than the file has; refuse what is no table of numbers."""
    version = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:
        raise InputError("Arrays with named fields are not rows of numbers. Save a plain 2-d array instead.")
    size = stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(size, "little")
    if length > LONGEST_HEADER:
        raise InputError(f"{origin}: its header claims {length} bytes, and {LONGEST_HEADER} are read.")
    try:
        shape, fortran_order, dtype = reader(io.BytesIO(size + stream.read(length)))
    except (SyntaxError, TokenError) as problem:  # of a header that NumPy reads as if Python 2 had written it
        raise ValueError(f"its header does not parse ({problem})") from None
    check_shape(shape, origin)
    check_numeric(dtype, origin)
    return shape, fortran_order, dtype
