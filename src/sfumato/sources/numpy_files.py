"""NumPy's own files: `.npy` mapped, `.npz` streamed out of its archive."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Literal

import numpy as np

from sfumato.errors import InputError
from sfumato.sources.base import Rows, Source, readable
from sfumato.sources.compressed import LARGEST_AT_ONCE, LARGEST_RATIO
from sfumato.sources.opening import AnyArray, check_numeric, check_shape, open_array, rows_of, sliced_source, source_of
from sfumato.sources.selection import Selection, listing

LONGEST_HEADER = 10_000  # of a .npy file, as in NumPy
# Those that NumPy writes. Of others Python decompresses a part of the file at once, however large it becomes.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


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
        # By np.load a member named without the ending would be read in place of the one that was checked.
        with readable(origin), zipfile.ZipFile(path) as archive, archive.open(entry) as stream:
            return open_array(np.lib.format.read_array(stream, allow_pickle=False), selection, origin)
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
    name = names[0] if member is None else member
    if names.count(name) > 1:
        raise InputError(
            f"{path} holds {names.count(name)} arrays of the name {name!r}. Save it with one of each name."
        )
    entry = f"{name}.npy"
    if archive.getinfo(entry).compress_type not in METHODS:
        raise InputError(
            f"{path}: the array {name!r} is compressed by a method that NumPy does not write. "
            "Save it with np.savez or np.savez_compressed."
        )
    return entry


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
