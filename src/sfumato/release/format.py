"""The container of a release file: a JSON header and named arrays, checked before anything is believed.

It knows nothing of kernels or privacy. docs/format.md describes the bytes so that other languages can read them.
There is no pickle and no code in a file; a damaged or hostile file can only give a `ReleaseFileError`. The checksum
finds accidents, not forgers: whoever alters a file can recompute it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError, ReleaseFileError
from sfumato.public.canonical_json import parse
from sfumato.public.codec import brief
from sfumato.storage import Bytes, storage_errors

MAGIC = b"\x89SFM\r\n\x1a\n"  # not text, and altered by every transfer that treats files as text
VERSION = 1

_START = struct.Struct("<8sIQ")  # magic, version, length of the header
_CHECKSUM_SIZE = 32
_ALIGNMENT = 64
_MOST_DIMENSIONS = 32  # of any array that numpy 1 can hold
_INTEGERS: dict[str, np.dtype[Any]] = {
    "<i1": np.dtype("<i1"),
    "<i2": np.dtype("<i2"),
    "<i4": np.dtype("<i4"),
    "<i8": np.dtype("<i8"),
}
_DTYPES: dict[str, np.dtype[Any]] = _INTEGERS | {"<f8": np.dtype("<f8")}
_ENTRY_FIELDS = {"name", "dtype", "shape", "offset", "nbytes"}

Array = npt.NDArray[Any]


def encode(header: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    """Lay out a release file.

    Parameters
    ----------
    header : mapping
        Made of dict with text keys, list, str, int, float, bool and None; no NaN and no infinity.
    arrays : mapping of str to array
        Integers within 64 bits, stored in the fewest bytes that hold them, or floats, stored in 64 bits.

    Returns
    -------
    bytes
        The whole content of the file.

    Raises
    ------
    InputError
        If the header or an array cannot be stored.

    Examples
    --------
    >>> content = encode({"kernel": "gaussian"}, {"sums": np.arange(5)})
    >>> header, arrays = decode(content)
    >>> header, arrays["sums"]
    ({'kernel': 'gaussian'}, array([0, 1, 2, 3, 4]))
    """
    if not all(isinstance(name, str) and name for name in arrays):
        raise InputError("each array needs a name that is text and not empty")
    stored = [_stored(name, np.asarray(arrays[name])) for name in sorted(arrays)]
    entries, _ = _layout((name, dtype, array.shape) for name, dtype, array in stored)
    content = bytearray(_opening(header, entries))
    start = len(content)
    for entry, (_, _, array) in zip(entries, stored, strict=True):
        content.extend(bytes(start + entry["offset"] - len(content)))
        content.extend(array.tobytes())
    content.extend(hashlib.sha256(content).digest())
    return bytes(content)


def decode(source: str | Path | Bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    r"""Read a release file, or its bytes, and check everything on the way.

    Parameters
    ----------
    source : str, Path or bytes-like
        A file's path, or its content.

    Returns
    -------
    header : dict
    arrays : dict of str to ndarray
        Integers as int64, floats as float64.

    Raises
    ------
    ReleaseFileError
        If the content is not exactly what `encode` writes. The text says what is wrong.
    InputError
        If there is no such file.
    StorageError
        If the file cannot be read.

    Examples
    --------
    >>> decode(b"a,b\n1,2\n")
    Traceback (most recent call last):
    sfumato.errors.ReleaseFileError: not a release: it does not begin like a .sfm file
    """
    if isinstance(source, str | os.PathLike):
        try:
            return _decode(_read(source))
        except ReleaseFileError as error:
            raise ReleaseFileError(f"{str(source)!r} is {error}") from None
    try:
        content = bytes(memoryview(source))  # of mmap, Arrow and NumPy too
    except (TypeError, ValueError, BufferError, NotImplementedError):
        raise InputError(f"a release is read from a path or from bytes, got {brief(source)}") from None
    return _decode(content)


@contextmanager
def read_as(what: str) -> Iterator[None]:
    """Turn whatever a header that makes no sense raises into a `ReleaseFileError` that says what it should describe."""
    try:
        yield
    except ReleaseFileError:
        raise
    except (InputError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as problem:
        raise ReleaseFileError(f"the header does not describe {what}: {problem!s:.300}") from problem


def _read(path: str | Path) -> bytes:
    with storage_errors("read", path):
        try:
            status = os.stat(path)
        except (FileNotFoundError, ValueError):
            raise InputError(f"there is no file {str(path)!r}; check the path") from None
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait, and a device may never end
            raise ReleaseFileError("not a release: it is a folder or a device, not a file")
        with open(path, "rb") as file:
            start = file.read(_START.size)
            _header_length(start, status.st_size)  # a large file of another kind is not read further
            return start + file.read()


def _decode(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    header_end = _START.size + _header_length(data, len(data))
    body_end = len(data) - _CHECKSUM_SIZE
    if hashlib.sha256(memoryview(data)[:body_end]).digest() != data[body_end:]:
        raise ReleaseFileError("damaged: its checksum does not match, so it was cut short or altered; fetch it again")
    document = _parse(data[_START.size : header_end])
    if not isinstance(document, dict) or set(document) != {"arrays", "content"}:
        raise ReleaseFileError("damaged: its header must have exactly the entries 'arrays' and 'content'")
    entries, content = document["arrays"], document["content"]
    if not isinstance(entries, list) or not isinstance(content, dict):
        raise ReleaseFileError("damaged: in its header, 'arrays' must be a list and 'content' an object")
    start = _aligned(header_end)
    _check_entries(entries, available=body_end - start)
    if any(data[header_end:start]):
        raise ReleaseFileError("damaged: the bytes between header and arrays must be zero")
    arrays, position = {}, start
    for entry in entries:
        first = start + entry["offset"]
        if any(data[position:first]):
            raise ReleaseFileError(f"damaged: the bytes before array {entry['name']!r} must be zero")
        arrays[entry["name"]] = _loaded(entry, data, first)
        position = first + entry["nbytes"]
    return content, arrays


def _header_length(start: bytes, size: int) -> int:
    """Check magic, version and room; `start` holds at least the first bytes of a file of `size` bytes."""
    if start[: len(MAGIC)] != MAGIC:
        raise ReleaseFileError("not a release: it does not begin like a .sfm file")
    if len(start) < _START.size:
        raise ReleaseFileError("cut short: its first bytes are missing; fetch it again")
    _, version, length = _START.unpack_from(start)
    if version > VERSION:
        raise ReleaseFileError(f"written by a newer version (format {version}, this one reads {VERSION}); upgrade")
    if version < 1:
        raise ReleaseFileError("damaged: format version 0 does not exist")
    if length > size - _START.size - _CHECKSUM_SIZE:
        raise ReleaseFileError("cut short: its header is longer than the file; fetch it again")
    return int(length)


def _parse(text: bytes) -> Any:
    """Read JSON that is written in the one canonical way, which also rules out NaN and repeated keys."""
    try:
        document = parse(text)
        canonical = _canonical(document)
    except (ValueError, RecursionError):
        raise ReleaseFileError(
            "damaged: its header is not JSON, or has numbers that are not finite, or a key twice"
        ) from None
    if canonical != text:
        raise ReleaseFileError("damaged: its header is not in canonical form (sorted keys, each once, no spaces)")
    return document


def _canonical(document: Any) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def _check_entries(entries: list[Any], available: int) -> None:
    """Compare the list of arrays with the only layout that its names, types and shapes allow; nothing is allocated."""
    previous = ""
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != _ENTRY_FIELDS:
            raise ReleaseFileError("damaged: each array needs exactly a name, dtype, shape, offset and nbytes")
        name = entry["name"]
        if not isinstance(name, str) or name <= previous:
            raise ReleaseFileError(f"damaged: array {name!r} is listed twice, out of order, or without a name")
        if entry["dtype"] not in list(_DTYPES):
            raise ReleaseFileError(f"damaged: array {name!r} has a type other than {', '.join(_DTYPES)}")
        if not _possible_shape(entry["shape"]):
            raise ReleaseFileError(f"damaged: array {name!r} has an impossible shape")
        previous = name
    expected, size = _layout((entry["name"], entry["dtype"], entry["shape"]) for entry in entries)
    for entry, right in zip(entries, expected, strict=True):
        # JSON's true and 1.0 equal 1 in Python, so types are compared too.
        if any(type(entry[key]) is not int or entry[key] != right[key] for key in ("offset", "nbytes")):
            raise ReleaseFileError(f"damaged: array {entry['name']!r} has a place or size that contradicts its shape")
    if size != available:
        raise ReleaseFileError(f"damaged: its arrays need {size} bytes and the file has {max(available, 0)} for them")


def _possible_shape(shape: Any) -> bool:
    """Whether numpy can make an array of int64 of this shape, given the memory."""
    return (
        isinstance(shape, (list, tuple))
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(length) is int and length >= 0 for length in shape)
        and math.prod(max(length, 1) for length in shape) < 2**60
    )


def _layout(arrays: Iterable[tuple[str, str, Sequence[int]]]) -> tuple[list[dict[str, Any]], int]:
    """Place arrays one after the other, aligned; offsets count from the first aligned byte after the header."""
    entries: list[dict[str, Any]] = []
    end = 0
    for name, dtype, shape in arrays:
        offset, nbytes = _aligned(end), _DTYPES[dtype].itemsize * math.prod(shape)
        entries.append({"name": name, "dtype": dtype, "shape": list(shape), "offset": offset, "nbytes": nbytes})
        end = offset + nbytes
    return entries, end


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _opening(header: Mapping[str, Any], entries: list[dict[str, Any]]) -> bytes:
    """Return everything before the first array."""
    content = dict(header)
    try:
        text = _canonical({"arrays": entries, "content": content})
        unchanged = parse(text)["content"] == content
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the header cannot be stored: {error}") from error
    if not unchanged:
        raise InputError("the header must be made of dict with text keys, list, str, int, float, bool and None")
    opening = _START.pack(MAGIC, VERSION, len(text)) + text
    return opening.ljust(_aligned(len(opening)), b"\0")


def _stored(name: str, array: Array) -> tuple[str, str, Array]:
    """Return the array in the form that goes to the file, with its name and type."""
    if not _possible_shape(array.shape):
        raise InputError(f"array {name!r} has too many dimensions or entries: {array.shape}")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return name, "<f8", np.asarray(array, dtype="<f8", order="C")
    if array.dtype.kind in "iu":
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        for code, dtype in _INTEGERS.items():
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return name, code, np.asarray(array, dtype=dtype, order="C")
    raise InputError(f"array {name!r} must hold floats, or integers that fit 64 bits with sign; got {array.dtype}")


def _loaded(entry: Mapping[str, Any], data: bytes, first: int) -> Array:
    values = np.frombuffer(data, dtype=_DTYPES[entry["dtype"]], count=math.prod(entry["shape"]), offset=first)
    return values.astype(np.int64 if entry["dtype"] in _INTEGERS else np.float64).reshape(entry["shape"])
