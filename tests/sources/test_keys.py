"""Users and weights beside the rows: equal ids have equal keys in every form, and each row keeps its own."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.sources import Source, attach, delimited, open_source
from sfumato.sources.delimited import LineParser, TextFormat
from sfumato.sources.keys import canonical, keys_of
from tests.sources.writers import EVERY, NAMED, NAMES, ONE_PASS

NAN = float("nan")


def read(source: Source, rows: int = 65536) -> tuple[np.ndarray, np.ndarray]:
    blocks, keys = zip(*source.keyed_batches(rows), strict=True)
    assert all(key.dtype == np.uint64 and key.shape == (len(block), 2) for block, key in zip(blocks, keys, strict=True))
    return np.concatenate(blocks), np.concatenate(keys)


def assert_keys_are(keys: np.ndarray, ids: Any) -> None:
    """Equal ids have equal keys, different ids different ones, and None has the null key."""
    users: dict[Any, set[bytes]] = {}
    for key, value in zip(keys, ids, strict=True):
        users.setdefault(value, set()).add(key.tobytes())
    assert all(len(found) == 1 for found in users.values())
    assert len(set.union(*users.values())) == len(users)
    assert users.pop(None, {bytes(16)}) == {bytes(16)}
    assert {bytes(16)} not in users.values()


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    random = np.random.default_rng(1)
    return np.column_stack([random.standard_normal((1000, 2)), random.integers(0, 40, 1000)])


@pytest.mark.parametrize("height", [1, 333, 5000])
@pytest.mark.parametrize("form", EVERY)
def test_every_form_gives_the_same_users(form: str, height: int, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows), key="z" if form in NAMED else 2)
    assert (source.keyed, source.dimension) == (True, 2)
    assert source.column_names == (NAMES[:2] if form in NAMED else None)
    block, keys = read(source, height)
    np.testing.assert_array_equal(block, rows[:, :2])
    assert_keys_are(keys, rows[:, 2].tolist())


@pytest.mark.parametrize("form", EVERY)
def test_every_form_gives_the_same_weights(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    names: list[Any] = list(NAMES) if form in NAMED else [0, 1, 2]
    source = open_source(EVERY[form](tmp_path, rows), [names[1]], key=names[2], weight=names[0])
    pieces = list(source.pieces(300))
    assert (source.weighted, source.dimension) == (True, 1)
    np.testing.assert_array_equal(np.concatenate([piece.weights for piece in pieces]), rows[:, 0])
    np.testing.assert_array_equal(np.concatenate([piece.block for piece in pieces]), rows[:, 1:2])
    assert_keys_are(np.concatenate([piece.users for piece in pieces]), rows[:, 2].tolist())
    assert all(piece.block.flags.c_contiguous for piece in pieces)


@pytest.mark.parametrize("form", sorted(EVERY.keys() - ONE_PASS))
def test_users_are_the_same_when_read_again(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows), key="z" if form in NAMED else 2)
    np.testing.assert_array_equal(read(source, 100)[1], read(source)[1])


@pytest.mark.parametrize(
    "same",
    [
        [7, 7.0, np.int8(7), np.float32(7), Decimal("7.00"), "7", " 7\t", True * 7],
        ["ada", " ada", np.str_("ada")],
        [2**70, float(2**70), Decimal(2**70), str(2**70)],
        [0, 0.0, -0.0, False, Decimal("-0.0")],
        [0.5, Decimal("0.50"), "0.5"],
        [uuid.UUID(int=5), str(uuid.UUID(int=5))],
        [b"ada", "ada"],
        [float("inf"), "inf"],
    ],
    ids=lambda values: repr(values[0]),
)
def test_equal_ids_are_one_user(same: list[Any]) -> None:
    assert len({canonical(value) for value in same}) == 1
    assert canonical(same[0]) is not None


def test_different_ids_are_different_users() -> None:
    ids = [7, 8, -7, 7.5, "7.0", "ada", "Ada", "ad a", 10**5000, 2**64, 2**64 + 1, 1e300, "\udc80", "\ud800", "\u00e9"]
    ids += [Decimal("1E+999999"), Decimal("2E+999999"), Decimal("1E-999999"), b"\xff", uuid.UUID(int=1)]
    assert_keys_are(keys_of(ids), ids)


@pytest.mark.parametrize(
    "nobody", [None, NAN, "", "  ", b"", pd.NA, pd.NaT, np.float16("nan"), Decimal("nan"), [1], object(), Fraction(1)]
)
def test_what_is_no_id_belongs_to_nobody(nobody: Any) -> None:
    assert canonical(nobody) is None
    assert not keys_of([nobody, "ada"])[0].any()


IDS = ["b", None, "a", "b", "\u00e9", None, "a", "c"]
NUMBERS = [3, None, 1, 3, 2**62 + 1, None, 2**62, 1]
COLUMNS: dict[str, tuple[pa.Array, list[Any]]] = {
    "string": (pa.array(IDS), IDS),
    "large string": (pa.array(IDS, pa.large_string()), IDS),
    "string view": (pa.array(IDS, pa.string_view()), IDS),
    "dictionary": (pa.array(IDS).dictionary_encode(), IDS),
    "dictionary with a null": (
        pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, 1]), pa.array([None, "a", "a"])),
        ["a", None, "a", "a"],
    ),
    "no UTF-8": (
        pa.Array.from_buffers(pa.string(), 3, pa.array([b"\xff", b"\xfe", b"\xff"]).buffers()),
        [b"\xff", b"\xfe", b"\xff"],
    ),
    "binary": (pa.array([b"\xff", None, b" \xff"], pa.binary()), [b"\xff", None, b" \xff"]),
    "uuid": (pa.array([bytes(15) + b"a", bytes(16)], pa.uuid()), ["a", "0"]),
    "int64": (pa.array(NUMBERS, pa.int64()), NUMBERS),
    "uint64": (pa.array(NUMBERS, pa.uint64()), NUMBERS),
    "float": (pa.array([1.5, NAN, None, -0.0, 0.0, 1.5]), [1.5, None, None, 0.0, 0.0, 1.5]),
    "half": (pa.array(np.array([1, 2, 1], np.float16)), [1, 2, 1]),
    "decimal": (pa.array([Decimal("1.50"), None, Decimal("1.50")]), [1.5, None, 1.5]),
    "boolean": (pa.array([True, None, False, True]), [1, None, 0, 1]),
    "nulls": (pa.nulls(3), [None] * 3),
}


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "rows.parquet": pa.parquet.write_table,
    "rows.arrow": lambda table, path: pa.feather.write_feather(table, str(path), compression="uncompressed"),
}
NOT_IN_PARQUET = {"dictionary with a null", "no UTF-8"}


@pytest.mark.parametrize(
    ("kind", "file"),
    [(kind, None) for kind in COLUMNS]
    + [(kind, "rows.arrow") for kind in COLUMNS]
    + [(kind, "rows.parquet") for kind in COLUMNS if kind not in NOT_IN_PARQUET],
)
@pytest.mark.parametrize("start", [0, 1])
def test_columns_of_every_type_name_users(kind: str, start: int, file: str | None, tmp_path: Path) -> None:
    column, ids = COLUMNS[kind]
    data: Any = pa.table({"id": column, "x": np.arange(len(column), dtype=float)}).slice(start)
    if file is not None:
        WRITERS[file](data, tmp_path / file)
        data = tmp_path / file
    block, keys = read(open_source(data, key="id"), rows=3)
    assert block[:, 0].tolist() == list(range(start, len(column)))
    assert_keys_are(keys, ids[start:])


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series(["a", 1, None, 1.0, "1", b"a", NAN, pd.NA], dtype=object),
        pd.Series(["a", "b", None, "a"], dtype="category"),
        pd.Series(["a", 1, "a", None], dtype=object).astype("category"),
        pd.Series([2**62, 2**62 + 1, None, 2**62], dtype="Int64"),
        pd.Series([1.0, NAN, 2.0]),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", None, "a"], dtype="string[pyarrow]"),
        pd.Series([1, None, 1], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series([3, 1, 3], index=[5, 5, 0]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_pandas_columns_name_users(ids: pd.Series) -> None:
    expected = [None if pd.isna(value) else canonical(value) for value in ids]
    frame = pd.DataFrame({"x": np.arange(float(len(ids))), "id": ids.to_numpy() if ids.index[0] == 5 else ids})
    assert_keys_are(read(open_source(frame, key="id"))[1], expected)
    assert_keys_are(read(attach(open_source(frame[["x"]]), users=ids))[1], expected)


@pytest.mark.parametrize(
    ("users", "ids"),
    [
        (np.array(["b", "a", "b"]), ["b", "a", "b"]),
        (np.array([b"b", b"a", b"b"]), ["b", "a", "b"]),
        (np.array([1, "a", None], dtype=object), [1, "a", None]),
        (np.ma.masked_array([1, 2, 1], mask=[False, True, False]), [1, None, 1]),
        (np.array([True, False, True]), [1, 0, 1]),
        (np.array([1.5, NAN, 1.5]), [1.5, None, 1.5]),
        (np.array([2, 1, 2], dtype=">i4"), [2, 1, 2]),
        ([2**64, 2**64 + 1, "a"], [2**64, 2**64 + 1, "a"]),
        ((1, 1.0, "1"), [1, 1, 1]),
        (pa.array(["a", None, "a"]), ["a", None, "a"]),
        (pa.chunked_array([["a"], ["b", "a"]]), ["a", "b", "a"]),
    ],
    ids=str,
)
def test_users_may_be_an_array_of_any_type(users: Any, ids: list[Any]) -> None:
    for rows in (1, 2, 10):
        block, keys = read(attach(open_source(np.eye(3)), users), rows)
        np.testing.assert_array_equal(block, np.eye(3))
        assert_keys_are(keys, ids)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.array([0, 1, 2]), [0, 1, 2]),
        (np.array([0.5, NAN, np.inf], np.float32), [0.5, NAN, np.inf]),
        ([0.5, None, "many"], [0.5, NAN, NAN]),
        (np.ma.masked_array([1, 2, 3], mask=[False, True, False]), [1, NAN, 3]),
        (pd.Series([0.5, None, 1.0], dtype="Float64"), [0.5, NAN, 1.0]),
        (pa.array([0.5, None, 1.0]), [0.5, NAN, 1.0]),
    ],
    ids=str,
)
def test_weights_may_be_an_array_of_numbers(weights: Any, expected: list[float]) -> None:
    pieces = list(attach(open_source(np.eye(3)), weights=weights).pieces(2))
    found = np.concatenate([piece.weights for piece in pieces])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


def test_one_pass_rows_can_be_given_users_and_weights() -> None:
    source = attach(open_source(iter([np.eye(2), np.eye(2)])), users=list("abca"), weights=[1, 2, 3, 4])
    assert not source.repeatable
    pieces = list(source.pieces(3))
    assert_keys_are(np.concatenate([piece.users for piece in pieces]), list("abca"))
    assert np.concatenate([piece.weights for piece in pieces]).tolist() == [1, 2, 3, 4]


def test_users_of_different_batches_and_files_are_the_same(tmp_path: Path) -> None:
    batches = [[["a", 1.0], ["b", 2.0]], [[None, 3.0]], [], [["a", 4.0]]]
    assert_keys_are(read(open_source(iter(batches), key=0))[1], ["a", "b", None, "a"])
    for name, ids in {"a": pa.array([1, 2]), "b": pa.array([2.0, 3.5]), "c": pa.array(["1", "x"])}.items():
        pa.parquet.write_table(pa.table({"x": [0.0, 0.0], "id": ids}), tmp_path / f"{name}.parquet")
    assert_keys_are(read(open_source(tmp_path, key="id"))[1], [1, 2, 2, 3.5, 1, "x"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    ("lines", "expected", "ids"),
    [
        ("a,1\nb,2\na,3\n", [1, 2, 3], ["a", "b", "a"]),
        (' a ,1\n"a",2\na,x\n', [1, 2, NAN], ["a", "a", "a"]),
        ("a,1\n,2\nn/a,3\nNULL,4\n", [1, 2, 3, 4], ["a", None, None, None]),
        ("a,1\na\na,2,3\na,4\n", [1, NAN, NAN, 4], ["a", None, None, "a"]),
        ('a,1\n"a,2\na,3\n', [1, NAN, 3], ["a", None, "a"]),
        ('"a,b",1\n"a,b",x\n"a ""b""",3\n', [1, NAN, 3], ["a,b", "a,b", 'a "b"']),
        ("7,1\n7.0,2\n07,3\n", [1, 2, 3], ["7", "7.0", "07"]),
        ("\u00e9,1\n\u00e9,x\ne,3\n", [1, NAN, 3], ["\u00e9", "\u00e9", "e"]),
    ],
)
def test_lines_keep_their_users(path: Path, lines: str, expected: list[float], ids: list[str | None]) -> None:
    path.write_text("id,x\n" + lines, encoding="utf-8")
    block, keys = read(open_source(path, key="id"))
    np.testing.assert_array_equal(block[:, 0], expected)
    assert_keys_are(keys, ids)


def test_bytes_that_are_no_text_name_users_too(path: Path) -> None:
    path.write_bytes(b"id,x\n\xff,1\n\xfe,2\n\xff,x\n")
    assert_keys_are(read(open_source(path, key="id"))[1], ["ff", "fe", "ff"])


def test_users_stay_with_their_lines_far_into_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1000)
    ids: list[str | None] = [f"u{i % 7}" for i in range(3000)]
    lines = [f"{user},{i}" for i, user in enumerate(ids)]
    for odd, line in {1500: "u3,abc", 1501: "u3", 2200: '"u1,2', 2999: "u4,2,3"}.items():
        lines[odd] = line
        ids[odd] = "u3" if odd == 1500 else None
    path.write_text("id,x\n" + "\n".join(lines))
    block, keys = read(open_source(path, key="id"), rows=128)
    assert_keys_are(keys, ids)
    numbers = [float(i) for i in range(3000) if i not in (1500, 1501, 2200, 2999)]
    assert block[~np.isnan(block[:, 0]), 0].tolist() == numbers


CELLS = st.sampled_from([b"1", b"a", b"", b"n/a", b'"', b'"3"', b'"a,b"', b'a"b', b" a", b"\xff", b"\xc3\xa9", b"+1"])
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=4).map(b",".join).filter(bool), max_size=8)


@settings(deadline=None)
@given(lines=LINES, key=st.integers(0, 2))
def test_each_line_alone_decides_its_user_and_weight(lines: list[bytes], key: int) -> None:
    first, second = [position for position in range(3) if position != key]
    parser = LineParser(TextFormat(), 3, (first,), key=key, weight=second)
    alone = [parser.rows(line) for line in lines]
    together = parser.rows(b"\n".join(lines))
    assert [len(row) for row in alone] == [1] * len(lines)
    assert len(together) == len(lines)
    for row, found in enumerate(alone):
        np.testing.assert_array_equal(together.block[row], found.block[0])
        np.testing.assert_array_equal(together.users[row], found.users[0])
        np.testing.assert_array_equal(together[row : row + 1].weights, found.weights)


PEOPLE = pa.table(
    {
        "name": ["a", "b"],
        "x": [1.0, 2.0],
        "born": [datetime.date(2000, 1, 1)] * 2,
        "e": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2)),
    }
)


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (PEOPLE, {"key": "id"}, "no column 'id'.*Pass key= with these"),
        (PEOPLE, {"key": 9}, "no column at position 9"),
        (PEOPLE, {"key": True}, "key= holds True. Pass a name or a position among"),
        (PEOPLE, {"columns": ["x"], "key": "born"}, r"'born' \(date32.*cannot name users.*text or numbers"),
        (PEOPLE, {"columns": ["x"], "key": "e"}, "cannot name users"),
        (PEOPLE, {"columns": ["x", "name"], "key": "name"}, "columns= holds the column of key="),
        (PEOPLE, {"columns": ["x"], "weight": "x"}, "columns= holds the column of key= or weight="),
        (PEOPLE, {"columns": ["x"], "weight": "name"}, "not numeric: 'name'"),
        (PEOPLE, {"columns": ["x"], "weight": "e"}, "a weight is one number"),
        (PEOPLE, {"columns": ["e"], "key": "x", "weight": "x"}, "are one column"),
        (PEOPLE.select(["name"]), {"key": "name"}, "no column beside its key and weight"),
        (PEOPLE.to_pandas(), {"columns": ["x"], "key": "id"}, "no column 'id'"),
        (pd.DataFrame({"x": [1.0], "id": [1j]}), {"key": "id"}, "complex128, which cannot name users"),
        (np.eye(2), {"key": "id"}, "no column names, so 'id' selects nothing"),
        (np.eye(2), {"key": 2}, "no column at position 2"),
        (open_source(np.eye(2)), {"key": 0}, "key= is for data that is not opened yet"),
        (open_source(np.eye(2)), {"weight": 0}, "weight= is for data that is not opened yet"),
    ],
)
def test_wrong_columns_are_refused_at_opening(data: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(data, **arguments)


def test_a_weight_of_text_in_a_file_is_refused(path: Path) -> None:
    path.write_text("id,w,x\na,much,1\n")
    with pytest.raises(InputError, match="column 'w' holds no numbers"):
        open_source(path, key="id", weight="w")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": ["a"]}, "users= must hold one value for each row"),
        ({"users": np.eye(3)}, "users= has 2 dimensions"),
        ({"users": np.zeros(3, "datetime64[s]")}, "cannot name users"),
        ({"users": pa.array([datetime.date(2000, 1, 1)] * 3)}, "cannot name users"),
        ({"weights": [1.0, 0.5, 0.5, 0.5]}, "weights= must hold one value for each row"),
        ({"weights": np.ones((3, 1))}, "weights= has 2 dimensions"),
        ({"weights": np.array(["a", "b", "c"])}, "not real numbers"),
        ({"weights": 1.0}, "weights= has 0 dimensions"),
    ],
)
def test_wrong_arrays_are_refused_before_reading(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attach(open_source(np.eye(3)), **arguments)


@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_a_length_that_shows_only_while_reading_is_refused(count: int) -> None:
    source = attach(open_source(iter([np.eye(2), np.eye(2)])), users=range(count))
    with pytest.raises(InputError, match="one value for each row"):
        list(source.batches(3))


def test_users_and_weights_are_given_once() -> None:
    keyed = open_source(np.eye(3), key=0)
    with pytest.raises(InputError, match="users already"):
        attach(keyed, users=[1, 2, 3])
    with pytest.raises(InputError, match="weights already"):
        attach(open_source(np.eye(3), weight=0), weights=[1, 2, 3])
    assert attach(keyed, weights=[1, 2, 3]).keyed


def test_rows_without_users_say_so() -> None:
    with pytest.raises(InputError, match="without users. Pass key="):
        open_source(np.eye(3)).keyed_batches()


def test_no_rows_have_no_users() -> None:
    table = pa.table({"id": pa.array([], pa.string()), "x": pa.array([], pa.float64())})
    assert list(open_source(table, key="id").keyed_batches()) == []
    assert list(attach(open_source(np.empty((0, 2))), users=[], weights=[]).pieces()) == []


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="this pyarrow has no short decimals")
def test_short_decimals_name_users_and_categories() -> None:
    values = [Decimal("7.0"), Decimal("1.5"), None]
    for kind in (pa.decimal32(5, 1), pa.decimal64(15, 1)):
        column = pa.array(values, kind)
        for form in (column, pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), column)):
            np.testing.assert_array_equal(keys_of(form), keys_of([7, 1.5, None]))
        table = pa.table({"x": [1.0, 2.0, 3.0], "c": column})
        codes = open_source(table, categories={"c": ["1.5", "7"]}).whole()[:, 1]
        np.testing.assert_array_equal(codes, [1, 0, np.nan])
