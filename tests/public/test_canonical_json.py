"""One bounded reader for every JSON that comes from outside: a value within bounds, or InputError."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sfumato
from sfumato.errors import InputError
from sfumato.public.canonical_json import MOST_DEPTH, canonical, parse

HOSTILE = {
    "empty": b"",
    "no JSON": b"{",
    "deep list": b"[" * 200_000,
    "deep closed list": b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1),
    "deep object": b'{"a":' * 100_000,
    "long number": b"1" * 5000,
    "number beyond doubles": b"1" + b"0" * 400,
    "not a number": b"[NaN]",
    "infinite": b"[-Infinity]",
    "infinite by its exponent": b"[1e999]",
    "key twice": b'{"a": 1, "a": 1}',
    "half a surrogate": b'["\\ud800"]',
    "half a surrogate as a key": b'{"\\udfff": 1}',
    "not UTF-8": b'"\xff"',
    "another encoding": '{"a": 1}'.encode("utf-16"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_is_refused_by_an_input_error(name: str) -> None:
    with pytest.raises(InputError, match="the protocol"):
        parse(HOSTILE[name], "the protocol")


def test_a_text_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match="has 11 bytes, more than the 10"):
        parse(b"[1,2,3,4,5]", largest=10)


def test_what_json_writes_is_read_back() -> None:
    value = {"a": [1, -2.5, None, True, "\U0001f600"], "b": {"c": 10**300}}
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


def test_depth_up_to_the_limit_is_read() -> None:
    parse("[" * MOST_DEPTH + "]" * MOST_DEPTH)


def test_numbers_beyond_the_limit_have_no_canonical_form() -> None:
    assert canonical({"a": 2**1023 - 1}) == f'{{"a":{2**1023 - 1}}}'.encode()
    for number in (2**1023, 10**5000, -(10**5000)):
        with pytest.raises(InputError, match="at most 1023 bits"):
            canonical({"a": [number]})


def test_nobody_else_reads_json_and_nobody_unpickles() -> None:
    """What comes from outside has one reader, in the services' own storage too."""
    root = Path(sfumato.__file__).parent
    found = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    reading = re.compile(r"\b(json|pickle|marshal|shelve)\.(loads?|open)\b|\bJSONDecoder\b|\ballow_pickle=True")
    assert [name for name, text in found.items() if reading.search(text)] == ["public/canonical_json.py"]


def test_pythons_advice_is_not_repeated() -> None:
    """A reader of files cannot follow it."""
    with pytest.raises(InputError, match="a number has too many digits$"):
        parse(b"[" + b"1" * 5000 + b"]")
