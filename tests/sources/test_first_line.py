"""A first line is names or a row, by what stands in it alone."""

from __future__ import annotations

import pytest

from sfumato import InputError
from sfumato.sources.cells import NUMBER
from sfumato.sources.first_line import cells_of, check_separator, holds_values, is_data, split_head
from sfumato.sources.selection import MOST_NAMED_COLUMNS, Selection


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        (b"x,y\n1,2\n", (b"x,y", b"\n1,2\n")),
        (b"\r\n\nx\r1", (b"x", b"\r1")),
        (b"\xef\xbb\xbfx", (b"x", b"")),
        (b"\n\n", (b"", b"")),
    ],
)
def test_the_head_is_the_first_line_that_is_not_blank(lines: bytes, parts: tuple[bytes, bytes]) -> None:
    assert split_head(lines) == parts


def test_cells_are_cut_as_csv() -> None:
    assert cells_of(b' x ,"y, or z",', ",", "a.csv") == ["x", "y, or z", ""]
    for head, message in ((b"", "is empty"), (b"\xff", "not UTF-8"), (b"," * (MOST_NAMED_COLUMNS + 1), "names more")):
        with pytest.raises(InputError, match=message):
            cells_of(head, ",", "a.csv")


@pytest.mark.parametrize(
    ("cells", "data", "values"),
    [
        (["1", "-2.5e3"], True, True),
        (["1", ""], True, True),
        (["", "NA"], False, False),
        (["x", "y2"], False, False),
        (["x", "0", "1"], False, False),
        (["x", "1", "2"], False, False),
        (["x", "7"], False, True),
    ],
)
def test_rows_and_names_are_told_apart(cells: list[str], data: bool, values: bool) -> None:
    assert (is_data(cells, NUMBER), holds_values(cells, NUMBER)) == (data, values)


def test_one_name_that_looks_like_several_is_refused_unless_it_is_asked_for() -> None:
    with pytest.raises(InputError, match="looks like 2 separated by ';'"):
        check_separator(["a;b"], Selection(), ",", "a.csv")
    check_separator(["a;b"], Selection(columns=["a;b"]), ",", "a.csv")
    check_separator(["a;b", "c"], Selection(), ",", "a.csv")
