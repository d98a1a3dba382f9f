"""The codec of documents: what is written is read back, and anything else is refused by its path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.public.codec import Documented, Flag, Many, Nested, Optional, Ratio, Real, Schema, Text, Whole


@dataclass(frozen=True)
class Part(Documented):
    """A nested value."""

    rate: Fraction
    schema: ClassVar[Schema] = Schema({"law": "part"}, rate=Ratio(2**20, positive=True))


@dataclass(frozen=True)
class Value(Documented):
    """One field of each kind."""

    size: int
    width: float
    outside: str
    note: str
    counted: bool
    depth: int | None
    parts: tuple[Part, ...]
    schema: ClassVar[Schema] = Schema(
        size=Whole(1, 10),
        width=Real(0.0, 5.0),
        outside=Text("clip", "drop"),
        note=Text(longest=5),
        counted=Flag(),
        depth=Optional(Whole(0, 3)),
        parts=Many(Nested(Part.from_document), most=2, least=1),
    )


VALUE = Value(3, 2.5, "clip", "hi", True, None, (Part(Fraction(1, 3)), Part(Fraction(2))))

values = st.builds(
    Value,
    st.integers(1, 10),
    st.floats(0, 5),
    st.sampled_from(["clip", "drop"]),
    st.text("abc \N{GREEK SMALL LETTER PI}", max_size=5),
    st.booleans(),
    st.none() | st.integers(0, 3),
    st.lists(st.fractions(Fraction(1, 99), 99, max_denominator=99).map(Part), min_size=1, max_size=2).map(tuple),
)


@given(values)
def test_what_is_written_is_read_back(value: Value) -> None:
    assert Value.from_document(value.to_document()) == value


CASES: list[tuple[str, Any, str]] = [
    ("size", 0, "size must be a whole number from 1 to 10, got 0"),
    ("size", True, "size must"),
    ("size", 3.0, "size must"),
    ("width", math.nan, "width must be a number from 0 to 5, got nan"),
    ("width", math.inf, "width must"),
    ("width", True, "width must"),
    ("width", 10**400, "width must"),
    ("outside", "keep", "outside must be one of 'clip', 'drop'"),
    ("outside", ["clip"], "outside must"),
    ("note", "\x1b[2J", "note must be one line of printable text"),
    ("note", "toolong", "note must"),
    ("counted", 1, "counted must be true or false"),
    ("depth", 4, "depth must be a whole number from 0 to 3"),
    ("parts", [], "parts must be a list of 1 to 2 values, got 0"),
    ("parts", {"a": 1}, "parts must"),
    ("parts", [{"law": "part"}], r"parts\[0\] lacks the field 'rate'"),
    ("parts", [{"law": "part", "rate": "1/3", "x": 1}], r"parts\[0\] has a field 'x'"),
    ("parts", [{"law": "other", "rate": "1/3"}], r"parts\[0\].law must be 'part', got 'other'"),
    ("parts", [3], r"parts\[0\] must be an object, got 3"),
    *(
        ("parts", [{"law": "part", "rate": rate}], r"parts\[0\].rate must")
        for rate in ("2/6", "1/0", "1/00", "0", "01", "-1", 1)
    ),
    ("parts", [{"law": "part", "rate": f"1/{2**21}"}], r"parts\[0\].rate must be a fraction with terms up to"),
    ("parts", [{"law": "part", "rate": "9" * 5000}], r"parts\[0\].rate must"),
]


@pytest.mark.parametrize(("name", "value", "message"), CASES)
def test_a_wrong_field_is_refused_by_its_path(name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}") as caught:
        Value.from_document({**VALUE.to_document(), name: value})
    assert len(str(caught.value)) < 200 and str(caught.value).isprintable()


def test_numbers_that_python_does_not_write_are_refused_too() -> None:
    for value, shown in ((10**5000, "an int"), ([10**5000], "a list with a number")):
        with pytest.raises(InputError, match=f"^size must be .*, got {shown} of too many digits"):
            Value.from_document({**VALUE.to_document(), "size": value})


def test_missing_and_unknown_fields_are_refused() -> None:
    document = VALUE.to_document()
    with pytest.raises(InputError, match="^noise lacks the field 'size'"):
        Value.from_document({name: document[name] for name in document if name != "size"}, "noise")
    with pytest.raises(InputError, match="has a field '.x1b' that is not known"):
        Value.from_document({**document, "\x1b": 1})


def test_a_schema_can_be_extended() -> None:
    more = Part.schema.extended({"law": "more"}, size=Whole(0, 1))
    assert more.read({"law": "more", "rate": "1", "size": 0}) == {"rate": Fraction(1), "size": 0}
    assert Part.schema.fixed == {"law": "part"}
