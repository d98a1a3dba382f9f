"""Who a row belongs to: ids of any type become 128-bit keys, equal for equal ids.

Two ids are the same user if they are equal as text without blanks around it, or as numbers; the whole number 7 is also
the text "7". Whatever is no id (a null, NaN, an empty text, an object of another kind) has the null key.

A key is a keyed hash (BLAKE2b) of the id's canonical text. Its width matters for privacy. Users whose keys collide
share one limit on their records, so that removing one of them makes room for records of the other, and the sums change
by up to twice what the noise is made for. With 128 bits and a secret that is drawn anew in every process nobody can
aim at a collision, and chance makes one with probability 2^-128 for a pair, less than what the secure bits promise.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from sfumato.deferred import is_instance
from sfumato.deferred import pyarrow as pa
from sfumato.errors import InputError

# One row of two words for each row of the data; the null key is two zeros.
Keys: TypeAlias = npt.NDArray[np.uint64]

KEY_WORDS = 2
# The same for all sources of a process: the batches of an iterator are opened one by one and must agree.
_KEYED_HASH = hashlib.blake2b(digest_size=8 * KEY_WORDS, key=os.urandom(32))
_WHOLE_NUMBERS = (int, np.integer, np.bool_)
_REAL_NUMBERS = (float, np.floating)
_NO_ROUNDING = Context(prec=1000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LONGEST_DECIMAL_BITS = 4096  # longer whole numbers are written in base 16: Python refuses to write them in base 10


def share_secret(secret: bytes) -> None:
    """Take the secret of another process, so that the same ids have the same keys here as there.

    For workers, which read parts of one source; they do so before they read anything.
    """
    global _KEYED_HASH
    _KEYED_HASH = hashlib.blake2b(digest_size=8 * KEY_WORDS, key=secret)


def keys_of(ids: Any) -> Keys:
    """Keys of a column of ids.

    Parameters
    ----------
    ids : ndarray, pyarrow.Array or sequence
        A one-dimensional array of numbers or text, an Arrow array, or any objects.

    Returns
    -------
    ndarray of uint64, shape (len(ids), 2)

    Examples
    --------
    >>> keys = keys_of(["ada", 7, " ada ", 7.0, None])
    >>> bool((keys[0] == keys[2]).all() and (keys[1] == keys[3]).all()), keys[4].tolist()
    (True, [0, 0])
    """
    if is_instance(ids, "pyarrow", "Array"):
        return _keys_of_arrow(ids)
    if isinstance(ids, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(ids)[:, None], np.uint64(0), keys_of(ids.data))
    if isinstance(ids, np.ndarray) and ids.dtype.kind != "O":
        distinct, codes = np.unique(ids, return_inverse=True)
        return keys_of_codes(distinct.tolist(), codes)
    texts = [canonical(value) for value in ids]
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return keys_of_codes(list(places), np.array([places[text] for text in texts], dtype=np.int64))


def keys_of_codes(distinct: Sequence[object], codes: npt.NDArray[np.integer[Any]]) -> Keys:
    """Keys of ids given as positions in a list of distinct ones; a negative position is a null."""
    digests = b"".join(map(_digest, distinct))
    table = np.frombuffer(digests + bytes(8 * KEY_WORDS), dtype=np.uint64).reshape(-1, KEY_WORDS)
    return np.asarray(table[np.where(codes < 0, len(distinct), codes)])


def _digest(value: object) -> bytes:
    text = canonical(value)
    if text is None:
        return bytes(8 * KEY_WORDS)
    keyed = _KEYED_HASH.copy()
    keyed.update(text)
    return keyed.digest()


def canonical(value: object) -> bytes | None:
    """Text that is the same for equal ids; None for what is no id. Never raises.

    Examples
    --------
    >>> canonical(" ada "), canonical(7.0), canonical(Decimal("7.50")), canonical(float("nan"))
    (b'ada', b'7', b'7.5', None)
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").strip() or None
    if isinstance(value, bytes):
        return value or None
    if isinstance(value, np.timedelta64):
        return None  # a whole number to NumPy
    if isinstance(value, _WHOLE_NUMBERS):
        return _whole(int(value))
    if isinstance(value, _REAL_NUMBERS):
        number = float(value)
        if math.isnan(number):
            return None
        return _whole(int(number)) if number.is_integer() else repr(number).encode()
    if isinstance(value, Decimal):
        return _decimal(value)
    return str(value).encode() if isinstance(value, UUID) else None


def _whole(number: int) -> bytes:
    return (str(number) if number.bit_length() <= _LONGEST_DECIMAL_BITS else hex(number)).encode()


def _decimal(number: Decimal) -> bytes | None:
    if number.is_nan():
        return None
    short = number.is_finite() and abs(number.adjusted()) < _NO_ROUNDING.prec
    if short and number == number.to_integral_value():
        return _whole(int(number))
    return str(number.normalize(_NO_ROUNDING)).lower().encode()


def check_key_type(kind: pa.DataType, column: str, origin: str, purpose: str = "name users") -> None:
    """Refuse a column of which the declared type cannot name people, or values of a category."""
    plain = _plain_type(kind)
    kinds = pa.types
    usable = (
        kinds.is_null(plain)
        or kinds.is_boolean(plain)
        or kinds.is_integer(plain)
        or kinds.is_floating(plain)
        or kinds.is_decimal(plain)
        or kinds.is_fixed_size_binary(plain)
        or _is_text(plain)
        or str(plain) in ("binary", "large_binary", "binary_view")
    )
    if not usable:
        raise InputError(
            f"{origin}: column {column!r} ({kind}) cannot {purpose}. Pass a column of text or numbers, or convert it "
            "to text first."
        )


def check_key_dtype(dtype: Any, origin: str) -> None:
    """Refuse an array, or a column of a data frame, of which the type cannot name people."""
    if dtype.kind not in "biufOSU":
        raise InputError(f"{origin} has type {dtype}, which cannot name users. Pass text or numbers.")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    return _plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _keys_of_arrow(column: pa.Array) -> Keys:
    return keys_of_codes(*distinct_of_arrow(column))


def distinct_of_arrow(column: pa.Array) -> tuple[list[object], npt.NDArray[np.integer[Any]]]:
    """Distinct values of an Arrow column, and every row's place among them, -1 for a null."""
    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.DictionaryArray):
        return _distinct_of_dictionary(column)
    if pa.types.is_decimal(column.type) and column.type.bit_width < 128:  # Arrow lists no distinct values of these
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    textual = _is_text(column.type)
    # As bytes: text in a file need not be proper UTF-8, and Arrow finds out only when it hands it to Python.
    encoded = (column.cast(pa.large_binary()) if textual else column).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if textual:
        distinct = [None if text is None else decoded(text) for text in distinct]
    return distinct, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _distinct_of_dictionary(column: pa.DictionaryArray) -> tuple[list[object], npt.NDArray[np.integer[Any]]]:
    """Look only at what these rows name: a dictionary may list all users there are, and one text in it be long."""
    wanted = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    named = column.indices.is_valid().to_numpy(zero_copy_only=False) & (wanted >= 0)
    named &= wanted < len(column.dictionary)  # a damaged file may point anywhere: to nobody
    places, rows = np.unique(np.where(named, wanted, -1), return_inverse=True)
    present = places[places >= 0]
    distinct, codes = distinct_of_arrow(column.dictionary.take(pa.array(present)))
    absent = np.full(len(places) - len(present), -1)
    return distinct, np.concatenate([absent, codes])[rows]


def decoded(text: bytes) -> str:
    """Text of bytes that may be no UTF-8; different bytes give different texts."""
    return text.decode("utf-8", "surrogateescape")
