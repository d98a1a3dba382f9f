"""What Parquet files claim: small limits stand for large files, and Arrow still reads the files that are changed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from sfumato.errors import InputError
from sfumato.sources import compressed, open_source, parquet_headers, thrift
from sfumato.sources.parquet_headers import DESCRIBED, FOOTER, Leaf, Made, Thrift, _places, read_footer

ROWS = 4096


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a few rows are allowed, and a page of all rows is not."""
    monkeypatch.setattr(compressed, "LARGEST_AT_ONCE", ROWS)
    monkeypatch.setattr(compressed, "LARGEST_RATIO", 0)


def with_footer(path: Path, change: Callable[[bytes], bytes]) -> Path:
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = change(content[start:-8])
    path.write_bytes(content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.fixture
def one_page(tmp_path: Path) -> Path:
    path = tmp_path / "page.parquet"
    plain = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    pa.parquet.write_table(pa.table({"aaaaaaaa": np.zeros(ROWS)}), path, compression="zstd", **plain)
    return path


def renamed(footer: bytes) -> bytes:
    """Give the column chunk another name than the schema gives the column."""
    schema = footer.index(b"aaaaaaaa") + 8
    return footer[:schema] + footer[schema:].replace(b"aaaaaaaa", b"bbbbbbbb")


def repeated(footer: bytes) -> bytes:
    """Say once more that a column chunk has no bytes, in a number of another width, which Arrow steps over."""
    ends: list[int] = []

    class Noting(Thrift):
        def structure(self, wanted: object, depth: int = 0) -> dict[int, object]:
            found = super().structure(wanted, depth)  # type: ignore[arg-type]
            if wanted is DESCRIBED:
                ends.append(self.place - 1)
            return found

    Noting(footer).structure(FOOTER)
    for end in reversed(ends):
        footer = footer[:end] + b"\x05\x0e\x00" + footer[end:]
    return footer


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("change", [bytes, renamed, repeated])
def test_a_large_page_is_found_whatever_the_footer_says_of_it(one_page: Path, change: Callable[[bytes], bytes]) -> None:
    with_footer(one_page, change)
    assert pa.parquet.ParquetFile(one_page).read().num_rows == ROWS
    with pytest.raises(InputError, match="memory at once|a field twice"):
        open_source(one_page)


def test_a_chunk_belongs_to_the_column_of_its_place(one_page: Path) -> None:
    assert len(open_source(with_footer(one_page, renamed)).whole()) == ROWS


def test_every_row_group_has_the_columns_of_the_schema(one_page: Path) -> None:
    groups = read_footer(one_page)
    leaves = [Leaf("aaaaaaaa", False), Leaf("b", False)]
    with pytest.raises(ValueError, match="1 columns, and the schema has 2"):
        parquet_headers.check_pages(one_page, groups, leaves, ["b"])


def one_long_list(path: Path, claimed: pa.DataType | None = None) -> Path:
    """Write a file whose only row is a list of many zeros, and may claim another type."""
    column = pa.ListArray.from_arrays(pa.array([0, ROWS], pa.int32()), pa.array(np.zeros(ROWS)))
    table = pa.table({"e": column})
    with pa.parquet.ParquetWriter(path, table.schema, store_schema=False, write_statistics=False) as writer:
        writer.write_table(table)
        if claimed is not None:
            schema = base64.b64encode(pa.schema([("e", claimed)]).serialize().to_pybytes())
            writer.add_key_value_metadata({b"ARROW:schema": schema})
    return path


def test_a_row_of_very_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = one_long_list(tmp_path / "declared.parquet")
    claimed = one_long_list(tmp_path / "claimed.parquet", pa.list_(pa.float64(), 3))
    assert np.isnan(open_source(declared, columns=["e[3]"]).whole()).all()
    monkeypatch.setattr(parquet_headers, "MOST_LISTED", ROWS - 1)
    monkeypatch.setattr(parquet_headers, "LARGEST_RATIO", 0)
    for path, columns in ((declared, ["e[3]"]), (claimed, None)):
        with pytest.raises(InputError, match=f"hold {ROWS} values.*row_group_size"):
            open_source(path, columns=columns)


def test_values_of_plain_columns_are_not_counted(one_page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_headers, "MOST_LISTED", 0)
    monkeypatch.setattr(parquet_headers, "LARGEST_RATIO", 0)
    assert len(open_source(one_page).whole()) == ROWS


def natural(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + natural(number >> 7)


def with_groups(footer: bytes, extra: bytes, count: int) -> bytes:
    """Add row groups to a footer that has one."""
    places: list[tuple[int, int]] = []

    class Noting(Thrift):
        def _list(self, part: object, depth: int) -> list[object]:
            start = self.place
            found = super()._list(part, depth)
            if isinstance(part, Made) and 1 in part.fields:
                places.append((start, self.place))
            return found

    Noting(footer).structure(FOOTER)
    [(start, end)] = places
    own = footer[start + 1 : end]
    return footer[:start] + b"\xfc" + natural(count + 1) + own + (extra or own) * count + footer[end:]


def test_columns_of_row_groups_without_a_description_are_refused_at_once(one_page: Path) -> None:
    """Three bytes each, for which Arrow takes hundreds."""
    chunks = 60_000
    group = b"\x19\xfc" + natural(chunks) + b"\x26\x00\x00" * chunks + b"\x16\x00\x16\x00\x00"
    with_footer(one_page, lambda footer: with_groups(footer, group, 10))
    with pytest.raises(InputError, match="footer is damaged"):
        open_source(one_page)


def test_very_many_row_groups_are_refused(one_page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_footer(one_page, lambda footer: with_groups(footer, b"", 99))
    assert len(read_footer(one_page)) == 100
    monkeypatch.setattr(thrift, "LARGEST_DESCRIBED", 100 * thrift.WANTED_BYTES)
    with pytest.raises(InputError, match="fewer, larger row groups"):
        open_source(one_page)


def test_half_a_million_columns_of_row_groups_fit() -> None:
    lists = 3 * thrift.ENTRY_BYTES + 5 * thrift.NUMBER_BYTES  # as Arrow writes them
    assert 50_000 * (thrift.WANTED_BYTES + 10 * (thrift.WANTED_BYTES + lists)) <= thrift.LARGEST_DESCRIBED


def test_names_that_every_column_repeats_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow keeps the whole path of each column: a quarter of a megabyte became two gigabytes."""
    path, inner = tmp_path / "names.parquet", pa.struct([(f"c{place}", pa.int8()) for place in range(50)])
    pa.parquet.write_table(pa.table({"x": [1.0], "g" * 200: pa.array([None], inner)}), path)
    assert open_source(path, columns=["x"]).whole().tolist() == [[1.0]]
    monkeypatch.setattr(parquet_headers, "LONGEST_PATHS", 50 * 200)
    with pytest.raises(InputError, match="short names"):
        open_source(path, columns=["x"])
    monkeypatch.setattr(parquet_headers, "LONGEST_PATHS", 50 * 300)
    assert len(read_footer(path)) == 1
    monkeypatch.setattr(parquet_headers, "DEEPEST_SCHEMA", 2)
    with pytest.raises(InputError, match="deep"):
        open_source(path, columns=["x"])


def test_a_name_stands_for_all_paths_that_begin_with_it() -> None:
    paths = ["a", "ab", "a.list.element", "c.d", "c.d.e", "c", "." * 100]
    leaves = [Leaf(path, False) for path in paths]
    assert [paths[place] for place in _places(leaves, ["a"])] == ["a", "a.list.element", "." * 100]
    assert [paths[place] for place in _places(leaves, ["c.d"])] == ["c.d", "c.d.e", "." * 100]


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "PLAIN"])
def test_texts_of_every_encoding_name_users(encoding: str, tmp_path: Path) -> None:
    """Of some Arrow makes no dictionary."""
    names = [f"user {place}" for place in range(50)]
    table = pa.table({"name": names, "x": np.arange(50.0)})
    pa.parquet.write_table(
        table, tmp_path / "x.parquet", use_dictionary=False, column_encoding={"name": encoding, "x": "PLAIN"}
    )
    ((block, keys),) = open_source(tmp_path / "x.parquet", key="name").keyed_batches()
    assert len(block) == 50 and len(np.unique(keys, axis=0)) == 50


def test_what_is_too_large_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_headers, "MOST_LISTED", 100)
    monkeypatch.setattr(parquet_headers, "LARGEST_RATIO", 0)
    lists = pa.array([[1.0, 2.0]] * 200)
    pa.parquet.write_table(pa.table({"e": lists}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="is too large to read: the lists of one row group.*row_group_size") as told:
        open_source(tmp_path / "x.parquet", columns=["e[2]"])
    assert "damaged" not in str(told.value)
