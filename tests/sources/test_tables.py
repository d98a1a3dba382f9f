"""Columns of lists, lazy frames, relations, points on the globe, folders and patterns of files, other marks in text."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import Ledger, PrivateKDE
from sfumato.errors import InputError
from sfumato.privacy.datasets import account_among
from sfumato.sources import open_source
from sfumato.sources.tables import point_of

LISTS: list[Any] = [[1.0, 2.0], [3.0], None, [4.0, None], [5.0, 6.0, 7.0], [8.0, 9.0]]
NAN = float("nan")
EXPECTED = [[1, 2], [NAN, NAN], [NAN, NAN], [4, NAN], [NAN, NAN], [8, 9]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32())])
def test_lists_of_any_length_in_arrow(kind: pa.DataType) -> None:
    table = pa.table({"name": pa.array(["a"] * 6), "e": pa.array(LISTS, kind)})
    for data in (table, table.slice(0), pa.concat_tables([table.slice(0, 3), table.slice(3)])):
        source = open_source(data, ["e[2]"])
        assert source.column_names == ("e[0]", "e[1]")
        np.testing.assert_array_equal(source.whole(), EXPECTED)
    np.testing.assert_array_equal(open_source(table.slice(3), ["e[2]"]).whole(), EXPECTED[3:])


def test_no_record_decides_the_length() -> None:
    for lists in (LISTS, [[1.0]], [[1.0, 2.0, 3.0]]):
        table = pa.table({"e": pa.array(lists, pa.list_(pa.float64()))})
        with pytest.raises(InputError, match=r"name it with its length, as in columns=\['e\[384\]'\]"):
            open_source(table)
        assert open_source(table, ["e[2]"]).dimension == 2


def test_a_declared_length_must_fit_the_schema() -> None:
    table = pa.table({"e": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)), "x": [1.0]})
    assert open_source(table, ["e[2]", "x"]).dimension == 3
    for column, problem in (("e[3]", "has lists of 2"), ("x[2]", "is no column of lists")):
        with pytest.raises(InputError, match=problem):
            open_source(table, [column])
    with pytest.raises(InputError, match="has no columns of lists"):
        open_source(np.eye(2), ["0[2]"])


def test_lists_and_arrays_in_pandas() -> None:
    cells = [np.array([1.0, 2.0]), [3.0], None, [4.0, None], "odd", (8, "9")]
    frame = pd.DataFrame({"e": pd.Series(cells, dtype=object), "x": range(6)})
    np.testing.assert_array_equal(open_source(frame, ["e[2]"]).whole(), EXPECTED)
    assert open_source(frame, ["x", "e[2]"]).column_names == ("x", "e[0]", "e[1]")
    for flat in (frame["e"], frame["e"].to_numpy()):
        np.testing.assert_array_equal(open_source(flat, ["0[2]"]).whole(), EXPECTED)


def test_lists_in_a_folder_of_parquet(tmp_path: Path) -> None:
    for name, part in (("a", LISTS[:3]), ("b", LISTS[3:])):
        pq.write_table(pa.table({"e": pa.array(part, pa.list_(pa.float64()))}), tmp_path / f"{name}.parquet")
    np.testing.assert_array_equal(open_source(tmp_path, ["e[2]"]).whole(), EXPECTED)


def test_polars_lazily() -> None:
    polars = pytest.importorskip("polars")
    lazy = polars.LazyFrame({"x": [1.0, None], "e": [[1.0, 2.0], [3.0]]})
    np.testing.assert_array_equal(open_source(lazy, ["x", "e[2]"]).whole(), [[1, 1, 2], [NAN, NAN, NAN]])


def test_duckdb_relation() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select i::double as x, i * 2 as y from range(5) t(i)")
    source = open_source(relation, ["y", "x"])
    for _ in range(2 if source.repeatable else 1):
        np.testing.assert_array_equal(source.whole(), [[2 * i, i] for i in range(5)])


def test_the_interchange_protocol() -> None:
    class Foreign:
        def __dataframe__(self, *arguments: Any, **options: Any) -> Any:
            return pa.table({"x": [1.0, 2.0]}).__dataframe__(*arguments, **options)

    np.testing.assert_array_equal(open_source(Foreign()).whole(), [[1], [2]])


def test_points_on_the_globe() -> None:
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    cells = [
        shapely.Point(4.9, 52.4),
        None,
        shapely.LineString([(0, 0), (1, 1)]),
        shapely.Point(),
        shapely.Point(1, 2, 3),
    ]
    frame = geopandas.GeoDataFrame({"name": list("abcde")}, geometry=cells, crs="EPSG:4326")
    source = open_source(frame)
    assert (source.column_names, source.length_unit) == (("longitude", "latitude"), "degrees")
    np.testing.assert_array_equal(source.whole(), [[4.9, 52.4], [NAN, NAN], [NAN, NAN], [NAN, NAN], [1, 2]])
    assert open_source(frame.to_crs("EPSG:32631")).length_unit == "metres"
    shared = {"epsilon": 1, "n_hint": 10, "bandwidth_metres": 500}  # below what the count's noise could stop
    bounds = {"longitude": (4, 6), "latitude": (52, 53)}
    degrees = PrivateKDE(bounds=bounds, **shared).fit(frame).release_.kernel.bandwidth
    assert pytest.approx(degrees[0], rel=0.02) == 500 / 68_000 and pytest.approx(degrees[1], rel=0.02) == 500 / 111_000
    metres = {"x": (600_000, 700_000), "y": (5_700_000, 5_900_000)}
    assert PrivateKDE(bounds=metres, **shared).fit(frame.to_crs("EPSG:32631")).release_.kernel.bandwidth == 500


def test_binary_points_never_raise() -> None:
    assert point_of(struct.pack(">BIdd", 0, 1, 1.0, 2.0)) == (1.0, 2.0)
    assert point_of(struct.pack("<BIIdd", 1, 0x20000001, 4326, 1.0, 2.0)) == (1.0, 2.0)
    whole = struct.pack("<BIdd", 1, 1, 1.0, 2.0)
    for odd in (*(whole[:size] for size in range(21)), b"\x02" + whole[1:], struct.pack("<BIdd", 1, 2, 0, 0), 7):
        assert all(np.isnan(point_of(odd)))


def write_parts(folder: Path) -> None:
    (folder / "2023.csv").write_text("x,y\n1,2\n")
    (folder / "2024-a.csv").write_text("x,y\n3,4\nodd,5\n")
    with gzip.open(folder / "2024-b.csv.gz", "wt") as file:
        file.write("x,y\n6,7\n")


def test_folders_and_patterns_of_text(tmp_path: Path) -> None:
    write_parts(tmp_path)
    np.testing.assert_array_equal(open_source(tmp_path / "2024-b.csv.gz").whole(), [[6, 7]])
    np.testing.assert_array_equal(open_source(f"{tmp_path}/*.csv").whole(), [[1, 2], [3, 4], [NAN, 5]])
    with pytest.raises(InputError, match="of several kinds"):
        open_source(tmp_path)
    with pytest.raises(InputError, match="no file has a name like this"):
        open_source(f"{tmp_path}/1999-*.csv")
    (tmp_path / "2024-b.csv.gz").unlink()
    assert len(open_source(tmp_path).whole()) == 3
    (tmp_path / "2025.csv").write_text("x,z\n1,2\n")
    with pytest.raises(InputError, match="has the columns 'x', 'z' and"):
        open_source(tmp_path)
    assert open_source(tmp_path, ["x"]).whole().shape == (4, 1)


def test_hidden_folders_are_no_data(tmp_path: Path) -> None:
    """Neither an environment's own files nor the log of a table, but partitions whatever their names begin with."""
    write_parts(tmp_path)
    (tmp_path / "2024-b.csv.gz").unlink()
    for folder in (".venv", "_delta_log", "_year=2025"):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "more.csv").write_text("x,y\n8,9\n")
    np.testing.assert_array_equal(open_source(tmp_path).whole(), [[1, 2], [3, 4], [NAN, 5], [8, 9]])


def test_one_account_whatever_part_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path)
    folder, file = str(tmp_path.resolve()), str(tmp_path.resolve() / "2023.csv")
    for data in (tmp_path, f"{tmp_path}/*.csv", f"{tmp_path}/2024-*"):
        assert account_among((), data) == folder
    with pytest.raises(InputError, match="leaves its folder after a wildcard"):  # by a link it could be any folder
        account_among((), f"{tmp_path}/20*/../*.csv")
    for part in (file, f"{tmp_path}/*.csv", tmp_path):
        assert account_among((folder, "other"), part) == folder
    assert account_among((), file) == file
    with pytest.raises(InputError, match="second budget"):
        account_among((file,), f"{tmp_path}/*.csv")
    with pytest.raises(InputError, match="second budget"):
        account_among((folder, file), file)


def test_a_ledger_by_its_path(tmp_path: Path) -> None:
    write_parts(tmp_path)
    book = tmp_path / "ledger.jsonl"
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, bounds=(0, 9), ledger=book)
    model.fit(f"{tmp_path}/*.csv")
    model.fit(str(tmp_path / "2023.csv"))
    model.fit(np.eye(2))
    spent = {name: int(Ledger(book).account(name).spent[0]) for name in Ledger(book).datasets}
    assert spent == {str(tmp_path.resolve()): 2, "data in memory": 1}


def test_separator_and_decimal_mark(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("x;y\n1,5;2\n-3,25e1;odd\n1.5;4\n+7;,5\n")
    source = open_source(path, separator=";", decimal=",")
    assert source.column_names == ("x", "y")
    np.testing.assert_array_equal(source.whole(), [[1.5, 2], [-32.5, NAN], [NAN, 4], [7, 0.5]])
    path.write_text("x;y\n1,5;2\n")
    np.testing.assert_array_equal(open_source(path, separator=";", decimal=",").whole(), [[1.5, 2]])
    for marks in ({"separator": ",", "decimal": ","}, {"separator": ";;"}, {"decimal": "5"}, {"separator": "\n"}):
        with pytest.raises(InputError, match="separator|decimal"):
            open_source(path, **marks)
    with pytest.raises(InputError, match="are for files of text"):
        open_source(np.eye(2), separator=";")
    np.save(tmp_path / "points.npy", np.eye(2))
    with pytest.raises(InputError, match="decimal= is for files of text"):
        open_source(tmp_path / "points.npy", decimal=",")


@pytest.mark.parametrize("name", ["_link", ".link"])
def test_a_pattern_reads_nothing_hidden(tmp_path: Path, name: str) -> None:
    """Its account is the folder's, which does not look there for links to the files of others."""
    (tmp_path / "own").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "a.csv").write_text("x\n1\n")
    (tmp_path / "own" / name).symlink_to(tmp_path / "others")
    for pattern in (f"{name[0]}*/a.csv", "**/a.csv"):
        with pytest.raises(InputError, match="no file has a name like this"):
            open_source(tmp_path / "own" / pattern)
    np.testing.assert_array_equal(open_source(tmp_path / "own" / name / "*.csv").whole(), [[1]])
