"""Thrift's compact protocol: wanted fields are read, and what Arrow might read otherwise is refused."""

from __future__ import annotations

import pytest

from sfumato.sources import thrift
from sfumato.sources.parquet_headers import FOOTER, PAGE
from sfumato.sources.thrift import BINARY, I32, I64, Made, Thrift


def test_wanted_fields_are_read_and_others_are_stepped_over() -> None:
    # Field 1: the number 3; field 2: the text "ab"; field 4: the number -1; end.
    content = bytes([0x15, 6, 0x18, 2, *b"ab", 0x25, 1, 0])
    assert Thrift(content).structure({1: I32, 4: I32}) == {1: 3, 4: -1}
    assert Thrift(content).structure({2: BINARY}) == {2: b"ab"}
    with pytest.raises(IndexError):
        Thrift(content[:-2]).structure({4: I32})


def test_of_a_structure_something_else_may_be_kept() -> None:
    # Field 1: a list of two structures, whose field 1 is a number.
    content = bytes([0x19, 0x2C, 0x16, 4, 0, 0x16, 6, 0, 0])
    assert Thrift(content).structure({1: [Made({1: I64}, lambda found: found[1])]}) == {1: [2, 3]}
    assert Thrift(content).structure({1: [{}]}) == {1: []}


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        pytest.param(b"\x15\x06\x00", {1: I64}, id="another width"),
        pytest.param(b"\x16\x06\x06\x02\x00\x00", {1: I64}, id="a field twice"),
        pytest.param(b"\x16\x06\x05\x02\x00\x00", {1: I64}, id="a field twice, of another width"),
        pytest.param(b"\x06\x82\x80\x08\x00\x00", {1: I64}, id="the number of a field beyond 16 bits"),
        pytest.param(b"\x15\x80\x80\x80\x80\x10\x00", {1: I32}, id="a number beyond 32 bits"),
        pytest.param(b"\x16" + b"\xff" * 9 + b"\x7f\x00", {1: I64}, id="a number beyond 64 bits"),
        pytest.param(b"\x19\x28\x00\x00\x00", {1: [I32]}, id="a list of texts for one of numbers"),
        pytest.param(b"\x10\x00", {}, id="an end that has a number"),
        pytest.param(b"\x89\x1c\x00\x00", PAGE, id="a page whose eighth field is a list"),
        pytest.param(b"\x4c\x00\x00", FOOTER, id="row groups that are one structure"),
        pytest.param(b"\x59\x25\x00\x00\x00", FOOTER, id="properties that are numbers"),
    ],
)
def test_what_arrow_reads_otherwise_is_refused(content: bytes, wanted: dict[int, object]) -> None:
    with pytest.raises(ValueError, match="description"):
        Thrift(content).structure(wanted)


def test_an_empty_list_may_be_of_any_type() -> None:
    assert Thrift(b"\x19\x00\x00").structure({1: [{}]}) == {1: []}


def test_entries_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of three structures, of which nothing is there."""
    content = b"\x19\x3c"
    monkeypatch.setattr(thrift, "LARGEST_DESCRIBED", 3 * thrift.ENTRY_BYTES)
    with pytest.raises(IndexError):
        Thrift(content).structure({1: [{}]})
    with pytest.raises(ValueError, match="row groups"):
        Thrift(content).structure({1: [{1: I32}]})
