"""JSON with one form: what is hashed, signed or compared must not depend on who wrote it.

Values are integers, texts, booleans, null, lists and objects. A real number is written ``{"decimal": "0.25"}``, the
shortest decimal that reads back as the same binary64 number, which every language parses to the same bits. The
canonical form is UTF-8 JSON with sorted keys, no spaces and no escapes beyond those that JSON demands.

`parse` is the one reader of JSON from outside: whatever the bytes are, it returns a value whose size, depth and numbers
are bounded, or raises `InputError`.

The standard library only: devices use it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from sfumato.errors import InputError
from sfumato.public.codec import brief

LARGEST_TEXT = 1 << 26  # bytes; values take at most about 32 times as much memory
MOST_DEPTH = 32
TOO_MANY_DIGITS = "a number has too many digits"
MOST_BITS = 1023  # of a whole number, so that it fits a double too


def parse(content: bytes | str, what: str = "the document", largest: int = LARGEST_TEXT) -> Any:
    """Read JSON from anywhere, within bounds.

    Parameters
    ----------
    content : bytes or str
        UTF-8 in bytes.
    what : str
        Names it in messages.
    largest : int
        Bytes that it may have.

    Raises
    ------
    InputError
        For anything but JSON of bounded size and depth, with finite numbers, whole texts and no key twice.

    Examples
    --------
    >>> parse('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse('{"a": 1, "a": 2}', "the protocol")
    Traceback (most recent call last):
    sfumato.errors.InputError: the protocol is not JSON as it is read here: the key 'a' occurs twice
    """
    if len(content) > largest:
        raise InputError(f"{what} has {len(content)} bytes, more than the {largest} that are read")
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_without_repeats)
        _check_parsed(value)
    except RecursionError:
        raise InputError(f"{what} is nested too deeply") from None
    except ValueError as problem:
        # Python's own advice, to allow more digits, is nothing that a reader of files can follow.
        told = TOO_MANY_DIGITS if "integer string conversion" in str(problem) else ascii(str(problem))[1:-1]
        raise InputError(f"{what} is not JSON as it is read here: {told:.200}") from None
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {key[:40]!r} occurs twice")
        made[key] = value
    return made


def _check_parsed(value: Any) -> None:
    """Walk a value level by level, without recursion."""
    level = [value]
    for _ in range(MOST_DEPTH):
        inside: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inside.extend(part.keys())
                inside.extend(part.values())
            elif isinstance(part, list):
                inside.extend(part)
            elif isinstance(part, str):
                part.encode()  # refuses half of a surrogate pair, by a ValueError
            elif isinstance(part, float) and not math.isfinite(part):
                raise ValueError(f"{part} is no finite number")
            elif isinstance(part, int) and part.bit_length() > MOST_BITS:
                raise ValueError(TOO_MANY_DIGITS)
        if not inside:
            return
        level = inside
    raise ValueError("nested too deeply")


def exact(value: Any) -> Any:
    """Replace every float in a JSON value by ``{"decimal": text}``.

    Examples
    --------
    >>> exact({"kernel": "gaussian", "bandwidth": [0.5, 2.0]})
    {'kernel': 'gaussian', 'bandwidth': [{'decimal': '0.5'}, {'decimal': '2.0'}]}
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"a protocol holds finite numbers only, got {value}")
        return {"decimal": repr(value + 0.0)}  # -0.0 becomes 0.0
    if isinstance(value, Mapping):
        return {key: exact(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [exact(part) for part in value]
    return value


def plain(value: Any) -> Any:
    """Undo `exact`.

    Examples
    --------
    >>> plain({"bandwidth": {"decimal": "0.5"}})
    {'bandwidth': 0.5}
    """
    if isinstance(value, Mapping):
        if set(value) == {"decimal"}:
            return number_from_text(value["decimal"])
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def number_from_text(text: object) -> float:
    """Read a finite number from the text that `exact` writes, and from no other."""
    try:
        number = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or repr(number) != text:
        raise InputError(f"{str(text)[:40]!r} is not a number as protocols write it")
    return number


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the one form of a document that is hashed.

    Examples
    --------
    >>> canonical({"b": [1, True], "a": None})
    b'{"a":null,"b":[1,true]}'
    """
    _check_values(document, 0)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError("a protocol's document holds a text that is no Unicode: half of a surrogate pair") from None


def fingerprint(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical form, 64 hexadecimal digits.

    Examples
    --------
    >>> fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(canonical(document)).hexdigest()


def _check_values(value: Any, depth: int) -> None:
    if depth > 16:
        raise InputError("a protocol's document is nested too deeply")
    if isinstance(value, Mapping):
        for key, part in value.items():
            if not isinstance(key, str):
                raise InputError(f"keys of a protocol's document are texts, got {brief(key)}")
            _check_values(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check_values(part, depth + 1)
    elif isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise InputError(f"whole numbers of a protocol's document have at most {MOST_BITS} bits")
    elif value is not None and not isinstance(value, str):
        raise InputError(f"a protocol's document holds no {type(value).__name__}: pass it through exact()")
