"""The container: what goes in comes out, and nothing but `ReleaseFileError` comes out of a bad file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.errors import InputError, ReleaseFileError
from sfumato.release.format import MAGIC, decode, encode

DOCUMENT = Path(__file__).parents[2] / "docs" / "format.md"
HEADER = {"kernel": "gaussian", "bandwidth": 0.5, "label": "größe", "list": [1, None, True, {"a": []}]}
ARRAYS = {
    "sums": np.arange(-3, 300).reshape(3, 101),
    "bounds": np.array([0.25, -1e300]),
    "empty": np.zeros((0, 4), int),
}
VALID = encode(HEADER, ARRAYS)

headers = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)  # fmt: skip
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
numbers = hnp.integer_dtypes(endianness="?") | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
arrays_of_numbers = hnp.arrays(numbers, shapes) | hnp.arrays(hnp.unsigned_integer_dtypes(sizes=(8, 16, 32)), shapes)


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def assembled(header: bytes | dict[str, Any], data: bytes = b"", version: int = 1) -> bytes:
    """A file with a right checksum around any header and data."""
    text = header if isinstance(header, bytes) else json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    opening = MAGIC + struct.pack("<IQ", version, len(text)) + text
    return sealed(opening + bytes(-len(opening) % 64) + data)


def entry(**changes: object) -> dict[str, Any]:
    return {"name": "a", "dtype": "<i1", "shape": [3], "offset": 0, "nbytes": 3} | changes


def listing(*entries: object, data: bytes = b"\1\2\3") -> bytes:
    return assembled({"arrays": list(entries), "content": {}}, data)


@settings(deadline=None, max_examples=100)
@given(headers, st.dictionaries(st.text(min_size=1), arrays_of_numbers, max_size=4))
def test_round_trip(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
    read_header, read_arrays = decode(encode(header, arrays))
    assert read_header == header
    assert read_arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read_arrays[name].dtype == (np.float64 if array.dtype.kind == "f" else np.int64)
        assert read_arrays[name].shape == array.shape
        np.testing.assert_array_equal(read_arrays[name], array)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_reads_every_kind_of_bytes(kind: Callable[[bytes], Any]) -> None:
    assert decode(kind(VALID))[0] == HEADER


@pytest.mark.parametrize("kind", [str, Path])
def test_reads_files(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    (tmp_path / "a.sfm").write_bytes(VALID)
    header, arrays = decode(kind(tmp_path / "a.sfm"))
    assert header == HEADER
    np.testing.assert_array_equal(arrays["sums"], ARRAYS["sums"])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([], "<i1"), ([-128, 127], "<i1"), ([128], "<i2"), ([-129], "<i2"), ([2**15 - 1, -(2**15)], "<i2"),
        ([2**15], "<i4"), ([-(2**15) - 1], "<i4"), ([-(2**31)], "<i4"), ([2**31], "<i8"), ([-(2**31) - 1], "<i8"),
        ([2**63 - 1, -(2**63)], "<i8"),
    ],
)  # fmt: skip
def test_integers_take_the_fewest_bytes(values: list[int], dtype: str) -> None:
    content = encode({}, {"a": np.array(values, dtype=np.int64)})
    (length,) = struct.unpack_from("<Q", content, 12)
    assert json.loads(content[20 : 20 + length])["arrays"][0]["dtype"] == dtype
    assert decode(content)[1]["a"].tolist() == values


def test_arrays_are_aligned_and_order_does_not_matter() -> None:
    (length,) = struct.unpack_from("<Q", VALID, 12)
    entries = json.loads(VALID[20 : 20 + length])["arrays"]
    assert [item["name"] for item in entries] == ["bounds", "empty", "sums"]
    assert all(item["offset"] % 64 == 0 for item in entries)
    start = 20 + length + -(20 + length) % 64
    assert struct.unpack_from("<2d", VALID, start) == (0.25, -1e300)
    assert encode(dict(reversed(HEADER.items())), dict(reversed(ARRAYS.items()))) == VALID


def test_strided_and_foreign_arrays_are_stored_in_row_order() -> None:
    array = np.arange(24).reshape(4, 6)
    for view in (array[::2, ::-1], array.T, np.asfortranarray(array), array.astype(">i8")):
        np.testing.assert_array_equal(decode(encode({}, {"a": view}))[1]["a"], view)


def test_version_1_keeps_its_bytes() -> None:
    content = encode({"b": 1e-6, "a": "é"}, {"x": np.array([1, -2]), "y": np.array([0.5])})
    assert hashlib.sha256(content).hexdigest() == "2032b81dad9363bf567f99813cf253b19b6cdcebec27409d671dcdc3ad6f01a1"


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"a": float("nan")}, {}),
        ({"a": float("inf")}, {}),
        ({"a": (1, 2)}, {}),
        ({1: "a"}, {}),
        ({"a": {1: "a"}}, {}),
        ({"a": {1: "a", "b": 2}}, {}),
        ({"a": np.int64(1)}, {}),
        ({"a": b"bytes"}, {}),
        ({"a": "\ud800"}, {}),
        ({"a": 10**5000}, {}),
        ({}, {"": np.zeros(1)}),
        ({}, {1: np.zeros(1)}),
        ({}, {"\ud800": np.zeros(1)}),
        ({}, {"a": np.array([True])}),
        ({}, {"a": np.array([2**63], dtype=np.uint64)}),
        ({}, {"a": np.array([2**70])}),
        ({}, {"a": np.array(["text"])}),
        ({}, {"a": np.array([1j])}),
        ({}, {"a": np.array([None])}),
        ({}, {"a": np.zeros(1, dtype=np.longdouble)}),
        ({}, {"a": np.zeros((0, 2**61), dtype=np.int8)}),
    ],
)
def test_refuses_to_store(header: Any, arrays: Any) -> None:
    with pytest.raises(InputError):
        encode(header, arrays)


def test_refuses_to_store_what_contains_itself() -> None:
    header: dict[str, Any] = {}
    header["self"] = header
    with pytest.raises(InputError, match="header cannot be stored"):
        encode(header, {})


def test_every_single_bit_and_every_length_is_checked() -> None:
    for position in range(len(VALID)):
        altered = bytearray(VALID)
        altered[position] ^= 1 << position % 8
        with pytest.raises(ReleaseFileError):
            decode(altered)
        with pytest.raises(ReleaseFileError):
            decode(VALID[:position])
    with pytest.raises(ReleaseFileError, match="checksum"):
        decode(VALID + b"\0")


edits = st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(1, 255)), min_size=1, max_size=5)


def edited(changes: list[tuple[int, int]], content: bytes) -> bytearray:
    altered = bytearray(content)
    for position, mask in changes:
        altered[position % len(altered)] ^= mask
    return altered


@settings(deadline=None, max_examples=300)
@given(edits, st.integers(0, len(VALID)))
def test_altered_files_are_refused(changes: list[tuple[int, int]], length: int) -> None:
    altered = edited(changes, VALID)[:length]
    if altered != VALID:
        with pytest.raises(ReleaseFileError):
            decode(altered)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300))
@example(b"")
@example(MAGIC)
@example(MAGIC + struct.pack("<IQ", 1, 0))
def test_random_bytes_are_refused(content: bytes) -> None:
    for candidate in (content, MAGIC + content, MAGIC + b"\1\0\0\0" + content, sealed(MAGIC + b"\1\0\0\0" + content)):
        with pytest.raises(ReleaseFileError):
            decode(candidate)


def decodes_or_refuses(content: bytes) -> None:
    """With a right checksum, content may be valid by chance; then writing it again must give the same values."""
    try:
        header, arrays = decode(content)
    except ReleaseFileError:
        return
    assert decode(encode(header, arrays))[0] == header


@settings(deadline=None, max_examples=300)
@given(edits, st.integers(0, len(VALID) - 32))
def test_altered_files_with_a_new_checksum_never_crash(changes: list[tuple[int, int]], length: int) -> None:
    body = VALID[:-32]
    decodes_or_refuses(sealed(bytes(edited(changes, body))))
    decodes_or_refuses(sealed(body[:length]))
    decodes_or_refuses(sealed(bytes(edited([(20 + position % 200, mask) for position, mask in changes], body))))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.sampled_from(["", "a", "<i1", "<f8", "|O"]),
    lambda values: st.lists(values, max_size=4),
    max_leaves=5,
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.builds(lambda changes: entry(**changes), st.dictionaries(st.sampled_from(list(entry())), json_values)),
        max_size=3,
    ),
    st.binary(max_size=200),
)
def test_lying_headers_never_crash(entries: list[dict[str, Any]], data: bytes) -> None:
    decodes_or_refuses(listing(*entries, data=data))


def test_the_honest_form_of_the_lies_is_valid() -> None:
    assert decode(listing(entry()))[1]["a"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\3\4", "not a release"),
        (MAGIC.replace(b"\r\n", b"\n"), "not a release"),
        (MAGIC + b"\1", "cut short"),
        (assembled({"arrays": [], "content": {}}, version=2), "newer version (format 2, this one reads 1); upgrade"),
        (assembled({"arrays": [], "content": {}}, version=0), "version 0"),
        (MAGIC + struct.pack("<IQ", 1, 2**63) + bytes(100), "cut short"),
        (VALID[:-1], "checksum"),
        (assembled(b"{"), "not JSON"),
        (assembled(b"\xff"), "not JSON"),
        (assembled(b"[" * 100_000), "not JSON"),
        (assembled(b'{"arrays":[],"content":{"a":NaN}}'), "not JSON"),
        (assembled(b'{"arrays":[],"content":{"a":1e999}}'), "not JSON"),
        (assembled(b'{"arrays":[],"content":{"a":' + b"1" * 5000 + b"}}"), "not JSON"),
        (assembled(b'{"arrays":[],"content":{"a":"\\ud800"}}'), "not JSON"),
        (assembled(b'{"arrays":[],"content":{"a":1,"a":1}}'), "a key twice"),
        (assembled(b'{"arrays": [],"content":{}}'), "canonical"),
        (assembled(b'{"content":{},"arrays":[]}'), "canonical"),
        (assembled(b"[]"), "exactly the entries"),
        (assembled({"arrays": []}), "exactly the entries"),
        (assembled({"arrays": [], "content": {}, "more": 1}), "exactly the entries"),
        (assembled({"arrays": {}, "content": {}}), "must be a list"),
        (assembled({"arrays": [], "content": []}), "must be a list"),
        (listing(3), "each array needs exactly"),
        (listing({"name": "a"}), "each array needs exactly"),
        (listing(entry(more=1)), "each array needs exactly"),
        (listing(entry(name="")), "without a name"),
        (listing(entry(name=3)), "without a name"),
        (listing(entry(), entry(offset=64), data=bytes(67)), "listed twice"),
        (listing(entry(name="b"), entry(offset=64), data=bytes(67)), "out of order"),
        (listing(entry(dtype="|O")), "type other than"),
        (listing(entry(dtype="<u1")), "type other than"),
        (listing(entry(dtype=["<i1"])), "type other than"),
        (listing(entry(shape=[-3])), "impossible shape"),
        (listing(entry(shape=[-1, -3])), "impossible shape"),
        (listing(entry(shape=[3.0])), "impossible shape"),
        (listing(entry(shape=[3, True])), "impossible shape"),
        (listing(entry(shape=3)), "impossible shape"),
        (listing(entry(shape=[2**62])), "impossible shape"),
        (listing(entry(shape=[0, 2**62], nbytes=0), data=b""), "impossible shape"),
        (listing(entry(shape=[3] + [1] * 32)), "impossible shape"),
        (listing(entry(shape=[4])), "contradicts its shape"),
        (listing(entry(nbytes=2)), "contradicts its shape"),
        (listing(entry(nbytes=3.0)), "contradicts its shape"),
        (listing(entry(shape=[1], nbytes=True), data=b"\1"), "contradicts its shape"),
        (listing(entry(offset=-3)), "contradicts its shape"),
        (listing(entry(offset=64), data=bytes(67)), "contradicts its shape"),
        (listing(entry(offset=False)), "contradicts its shape"),
        (listing(entry(), entry(name="b")), "contradicts its shape"),
        (listing(entry(), entry(name="b", offset=2**70)), "contradicts its shape"),
        (listing(entry(shape=[2**50], nbytes=2**50)), "need 1125899906842624 bytes and the file has 3"),
        (listing(entry(), data=b"\1\2\3\4"), "need 3 bytes and the file has 4"),
        (listing(data=b"extra"), "need 0 bytes and the file has 5"),
        (listing(entry(), entry(name="b", offset=64), data=b"\1\2\3" + b"!".ljust(61) + b"\4\5\6"), "must be zero"),
        (sealed(MAGIC + struct.pack("<IQ", 1, 26) + b'{"arrays":[],"content":{}}'.ljust(44)), "and arrays must be"),
        (sealed(MAGIC + struct.pack("<IQ", 1, 2) + b"{}"), "exactly the entries"),
        (sealed(MAGIC + struct.pack("<IQ", 1, 26) + b'{"arrays":[],"content":{}}'), "need 0 bytes"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(content: bytes, problem: str) -> None:
    with pytest.raises(ReleaseFileError, match=re.escape(problem)):
        decode(content)


@pytest.mark.parametrize("shape", [[2**50], [2**20, 2**20], [0, 2**59]])
def test_declared_sizes_are_not_allocated(shape: list[int]) -> None:
    content = listing(entry(shape=shape, nbytes=int(np.prod(shape))))
    tracemalloc.start()
    try:
        with pytest.raises(ReleaseFileError):
            decode(content)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_problems_of_files_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.sfm"
    path.write_bytes(VALID[:-5])
    with pytest.raises(ReleaseFileError, match=re.escape(f"{str(path)!r} is damaged: its checksum")):
        decode(path)
    path.write_bytes(assembled({"arrays": [], "content": {}}, version=7))
    with pytest.raises(ReleaseFileError, match=re.escape(f"{str(path)!r} is written by a newer version")):
        decode(path)


def test_a_large_file_of_another_kind_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ReleaseFileError, match="not a release"):
        decode(tmp_path / "large")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ReleaseFileError, match="not a release: it is a folder or a device"):
            decode(path)
    for name in (str(tmp_path / "missing"), "zero\0byte", ""):
        with pytest.raises(InputError, match="there is no file"):
            decode(name)


def test_the_reader_in_the_documentation_works(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 16
    assert re.findall(r"import (.*)", code) == ["hashlib, json, struct"]
    scope: dict[str, Any] = {}
    exec(code, scope)
    (tmp_path / "a.sfm").write_bytes(VALID)
    content, arrays = scope["read_release"](tmp_path / "a.sfm")
    assert content == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, (shape, values) in arrays.items():
        np.testing.assert_array_equal(np.reshape(values, shape), ARRAYS[name])
    (tmp_path / "a.sfm").write_bytes(VALID[:-40] + VALID[-39:])
    with pytest.raises(ValueError, match="intact"):
        scope["read_release"](tmp_path / "a.sfm")
