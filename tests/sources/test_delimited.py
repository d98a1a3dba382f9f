from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.sources import delimited, open_source
from sfumato.sources.delimited import LineParser, TextFormat

NAN = float("nan")


def read(path: Path, text: str | bytes, columns: list[str | int] | None = None, rows: int = 65536) -> np.ndarray:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    source = open_source(path, columns)
    return np.concatenate([np.empty((0, source.dimension)), *source.batches(rows)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("n/a,2\n3,4\n", [[NAN, 2], [3, 4]]),
        ("1,2\nabc,4\n", [[1, 2], [NAN, 4]]),
        ("1,\n,4\n", [[1, NAN], [NAN, 4]]),
        ("1,2\n3\n4,5\n", [[1, 2], [NAN, NAN], [4, 5]]),
        ("1,2\n3,4,5\n6,7\n8,9,\n", [[1, 2], [NAN, NAN], [6, 7], [NAN, NAN]]),
        ("1,2\n\n\n3,4", [[1, 2], [3, 4]]),
        (" 1 ,\t2\nx,+.5e1\n", [[1, 2], [NAN, 5]]),
        ("1,2\r3,4\r\n5,6\n", [[1, 2], [3, 4], [5, 6]]),
        ('"1",2\n"x,y",4\n', [[1, 2], [NAN, 4]]),
        ('1,2\n"3,4\n5,6\n', [[1, 2], [NAN, NAN], [5, 6]]),
        ('1,2\n"3\n4",5\n6,7\n', [[1, 2], [NAN, NAN], [NAN, 5], [6, 7]]),
        ("1,2\n1e999,-1e999\ninf,x\n", [[1, 2], [np.inf, -np.inf], [np.inf, NAN]]),
        ("1,2\n0x10,1_0\n1.2.3,--4\n", [[1, 2], [NAN, NAN], [NAN, NAN]]),
        ("1,2\n\u00e4,\u0661\n", [[1, 2], [NAN, NAN]]),
    ],
)
def test_odd_values_become_nan_and_no_row_is_lost(path: Path, lines: str, expected: list[list[float]]) -> None:
    np.testing.assert_array_equal(read(path, "x,y\n" + lines), expected)


def test_bytes_that_are_no_text_become_nan(path: Path) -> None:
    rows = read(path, b"x,y\n1,2\n\xff,3\n\xfe\n4,\x00\n")
    np.testing.assert_array_equal(rows, [[1, 2], [NAN, 3], [NAN, NAN], [4, NAN]])


def test_unselected_text_with_commas_and_quotes_is_no_obstacle(path: Path) -> None:
    text = 'name,x\n"Smith, John",1\n"the ""old"" one",2\n5" pipe,3\n\xe9,4\n,5\n'
    rows = read(path, text.encode("utf-8").replace(b"\xc3\xa9", b"\xe9"), columns=["x"])
    assert rows[:, 0].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("1,2\n3,4\n", ("0", "1"), [[1, 2], [3, 4]]),
        ("1,2", ("0", "1"), [[1, 2]]),
        ("1,\n3,4\n", ("0", "1"), [[1, NAN], [3, 4]]),
        ("\n\n1,2\n", ("0", "1"), [[1, 2]]),
        (",x\n0,1\n", ("", "x"), [[0, 1]]),
        ('"x","y, or z"\n3,4\n', ("x", "y, or z"), [[3, 4]]),
        ("\ufeffx,y\r\n3,4\r\n", ("x", "y"), [[3, 4]]),
        ("x,y", ("x", "y"), np.empty((0, 2))),
    ],
)
def test_the_first_line_is_a_header_unless_it_is_all_numbers(
    path: Path, text: str, names: tuple[str, ...], expected: object
) -> None:
    np.testing.assert_array_equal(read(path, text), expected)
    assert open_source(path).column_names == names


@pytest.mark.parametrize("columns", [[1], ["1"]])
def test_columns_without_a_header(path: Path, columns: list[str | int]) -> None:
    assert read(path, "1,2\n3,4\n", columns)[:, 0].tolist() == [2.0, 4.0]


def test_a_column_of_nulls_is_not_a_column_of_text(path: Path) -> None:
    np.testing.assert_array_equal(read(path, "x,y\n1,\n2,n/a\n"), [[1, NAN], [2, NAN]])


def test_an_odd_cell_far_into_the_file_repeats_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1000)
    expected = np.random.default_rng(2).standard_normal((3000, 2))
    lines = [f"{x!r},{y!r}" for x, y in expected.tolist()]
    for odd, line in {1500: "abc,1", 1501: "1", 2200: '"1,2', 2999: "1,2,3"}.items():
        lines[odd] = line
        expected[odd] = [NAN, 1.0] if odd == 1500 else NAN
    np.testing.assert_array_equal(read(path, "x,y\n" + "\n".join(lines), rows=128), expected)


def test_a_line_longer_than_a_block_is_one_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 16)
    rows = read(path, "name,x\n" + "a" * 100 + ",1\r\n" + "b" * 15 + ",2\r\n", columns=["x"])
    assert rows[:, 0].tolist() == [1.0, 2.0]


CELLS = st.sampled_from(
    [b"1", b"-2.5", b"", b"n/a", b"x", b'"', b'"3"', b'"a,b"', b'a"b', b" 4", b"\xff", b"\xef\xbb\xbf5"]
)
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=4).map(b",".join).filter(bool), max_size=8)


@settings(deadline=None)
@given(lines=LINES, width=st.integers(1, 3))
def test_each_line_alone_decides_its_row(lines: list[bytes], width: int) -> None:
    parser = LineParser(TextFormat(), width, tuple(reversed(range(width))))
    alone = [parser.parse(line) for line in lines]
    assert all(row.shape == (1, width) for row in alone)
    np.testing.assert_array_equal(parser.parse(b"\n".join(lines)), np.concatenate([np.empty((0, width)), *alone]))


def test_both_ways_read_the_same_numbers() -> None:
    parser = LineParser(TextFormat(), 1, (0,))
    cells = ["".join(letters) for k in range(1, 5) for letters in itertools.product("+-.1e", repeat=k)]
    for cell in [
        *cells,
        "inf",
        "-Inf",
        "+INFINITY",
        "infinit",
        "nan",
        "-NaN",
        "1e400",
        "1f",
        " 1 ",
        "\t-1\t",
        "1 1",
        "1\x00",
    ]:
        try:
            expected = float(cell)
        except ValueError:
            expected = NAN
        np.testing.assert_array_equal(parser.parse(cell.encode()), [[expected]], err_msg=repr(cell))
        # A neighbour that is no number has the block read as text.
        np.testing.assert_array_equal(parser.parse(f"{cell}\nabc".encode()), [[expected], [NAN]], err_msg=repr(cell))


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("", None, "is empty: it has not even a header"),
        ("\n\n", None, "is empty"),
        ("name,x\na,1\nb,2\n", None, r"column 'name' holds no numbers.*Pass columns=.*for example columns=\['x'\]"),
        ("a;b\n1;2\n", None, "'a;b', and looks like 2 separated by ';'. Pass separator=';'"),
        ("x,y,x\n1,2,3\n", None, "'x' appears more than once"),
        ("x,y\n1,2\n", ["w"], "no column 'w'; its columns are 'x', 'y'"),
        ("x,y\n1,2\n", [2], "no column at position 2; there are 2: 'x', 'y'"),
        (b"\xff\xfe\n1\n", None, "not UTF-8"),
    ],
)
def test_schema_problems_raise_at_opening(
    path: Path, text: str | bytes, columns: list[str | int] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(path, text, columns)


@pytest.mark.parametrize("first", ["alice,51.50740,-0.12780", "51.5,-0.1,?", "alice,1,2.5", "alice,3,4", "bob,7,NA"])
def test_a_first_line_that_may_be_a_record_is_refused(first: str, tmp_path: Path) -> None:
    """Column names are published: nobody's record may become one."""
    path = tmp_path / "headless.csv"
    path.write_text(f"{first}\nbob,1.5,2.5\n")
    with pytest.raises(InputError, match="line of column names"):
        open_source(path, columns=[1, 2] if not first.startswith("51") else [0, 1])


@pytest.mark.parametrize("header", ["label,0,1", "label,1,2", ",x,y", "id,x,y2"])
def test_names_that_count_columns_are_names(header: str, tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text(f"{header}\n7,1.5,2.5\n")
    assert open_source(path, columns=[1, 2]).column_names == tuple(header.split(",")[1:])
