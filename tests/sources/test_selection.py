"""Every wrong schema is refused at opening, with the problem, what is there, and the fix."""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse

from sfumato.errors import InputError
from sfumato.sources import open_source
from sfumato.sources.selection import Selection, as_declared, listing

PEOPLE = pa.table({"name": ["a", "b"], "x": [1.0, 2.0], "y": [3, 4], "born": [datetime.date(2000, 1, 1)] * 2})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones(3), r"1-dimensional .* reshape\(-1, 1\) .* reshape\(1, -1\)"),
        (pd.Series([1.0, 2.0]), r"Series is 1-dimensional"),
        (np.ones((2, 2, 2)), r"3-dimensional .* iter\(batches\)"),
        (np.float64(1), r"0-dimensional"),
        (np.ones((2, 2), complex), r"type complex128, not real numbers.*Complex data not supported.*two columns"),
        (np.array([["a", "b"]]), r"type <U1, not real numbers"),
        (np.zeros((2, 2), "datetime64[s]"), r"type datetime64"),
        (scipy.sparse.csr_array(np.ones((2, 2), complex)), r"type complex128"),
        (scipy.sparse.coo_array(np.ones(3)), r"1-dimensional"),
        (np.ones((2, 0)), r"no columns"),
        (pd.DataFrame(index=[0, 1]), r"no columns"),
        (pa.table({}), r"no columns"),
        ([[]], r"no columns"),
        ([], r"empty, so its dimension is unknown"),
        ([[1, 2], [3]], r"ragged: row 0 has 2 values and row 1 has 1"),
        ([1, 2], r"item 0 is of type int and not a row"),
        ([np.ones((2, 2))], r"item 0 is a 2-d array .* iter\(batches\)"),
        (pa.chunked_array([[1.0]]), r"cannot be read as rows"),
        (None, r"type NoneType cannot be read. Pass a 2-d array"),
        (5, r"type int cannot be read"),
        ({"x": [1.0]}, r"type str cannot be read"),
    ],
)
def test_wrong_data(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(data)


LISTED = r"not numeric: 'name' \(\w+\), 'born' \(.*\)\. The columns are 'name' .*, 'x' \(double\), 'y' \(int64\), .*"
TABLES: dict[str, Callable[[Path], Any]] = {
    "table": lambda folder: PEOPLE,
    "reader": lambda folder: PEOPLE.to_reader(),
    "data set": lambda folder: pa.dataset.dataset(PEOPLE),
    "pandas": lambda folder: PEOPLE.to_pandas(types_mapper=pd.ArrowDtype),
    "iterator": lambda folder: iter([PEOPLE]),
    "parquet": lambda folder: (pa.parquet.write_table(PEOPLE, folder / "p.parquet"), folder / "p.parquet")[1],
    "feather": lambda folder: (pa.feather.write_feather(PEOPLE, folder / "p.feather"), folder / "p.feather")[1],
}


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, LISTED + r"columns=\['x', 'y'\]"),
        (["x", "name"], r"not numeric: 'name' .*columns=\['x', 'y'\]"),
        (["x", "w"], r"no column 'w'; its columns are 'name', 'x', 'y', 'born'"),
        (["x", "y", "x"], r"selects 'x' more than once"),
        ([1, "x"], r"selects 'x' more than once"),
        ([4], r"no column at position 4; there are 4: 'name', 'x', 'y', 'born'"),
        ([-1], r"no column at position -1"),
        ([], r"columns= is empty.*'name', 'x', 'y', 'born'"),
        ("x", r"must be a list. Pass columns=\['x'\]"),
        (1, r"must be a list. Pass columns=\[1\]"),
        ([True], r"columns= holds True. Pass names or positions"),
        ([1.0], r"columns= holds 1.0. Pass names or positions"),
    ],
)
def test_wrong_columns(form: str, columns: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        open_source(TABLES[form](tmp_path), columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["x"], r"no column names, so 'x' selects nothing. Pass positions 0 to 2"),
        ([3], r"no column at position 3; there are 3: positions 0 to 2"),
        ([0, 0], r"selects 0 more than once"),
        ([], r"columns= is empty"),
    ],
)
@pytest.mark.parametrize(
    "data", [np.ones((2, 3)), [[1, 2, 3]], scipy.sparse.eye_array(3)], ids=lambda d: type(d).__name__
)
def test_wrong_columns_of_arrays(data: Any, columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(data, columns)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table([[1.0], [2.0]], names=["x", "x"]), r"'x' appears more than once"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), r"'x' appears more than once"),
        (pa.table({"e": [[1.0, 2.0]]}), r"'e' \(list<.*double>\).*name it with its length"),
        (pa.table({"e": pa.array([[]], pa.list_(pa.float32(), 0))}), r"'e' .* list of length 0"),
        (pa.table({"d": pa.array(["a"]).dictionary_encode()}), r"'d' \(dictionary"),
        (pa.table({"n": pa.nulls(2)}), r"'n' \(unknown type\).*after converting"),
        (pd.DataFrame({"c": [1j]}), r"'c' \(unknown type\)"),
        (pd.DataFrame({"s": pd.Series(["1", "2.5"], dtype="string")}), r"'s' \(large_string\)"),
        (pd.DataFrame({"d": pd.Series([1, 2.5]).astype("category")}), r"'d' \(dictionary"),
        (pd.DataFrame({"p": pd.period_range("2020", periods=2)}), r"'p' \(extension"),
    ],
)
def test_wrong_tables(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(data)


def test_long_listings_are_cut() -> None:
    wide = pa.table({f"c{j}": [1.0] for j in range(1000)})
    with pytest.raises(InputError, match=r"'c29' and 970 more") as caught:
        open_source(wide, ["w"])
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "name", ["a.csv", "a.parquet", "a.npy", "a.npz", "a.npz:x", "a.arrow", "a.feather", "a.xlsx", "a"]
)
def test_missing_files(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(tmp_path / name)


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.json", "csv"])
def test_unknown_kinds_of_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x\n1\n")
    with pytest.raises(InputError, match=r"unknown kind of file. Known are \.csv, .*\.parquet"):
        open_source(tmp_path / name)


def test_a_folder_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no file of a kind that can be read"):
        open_source(tmp_path)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.npy", "a.npz", "a.arrow", "a.feather"])
@pytest.mark.parametrize("content", [b"this is no such file at all", b""], ids=["nonsense", "empty"])
def test_files_that_are_not_what_their_name_says(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.*(cannot be read as rows|is empty)"):
        open_source(tmp_path / name)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.parquet": lambda path: pa.parquet.write_table(PEOPLE.select(["x", "y"]), path),
    "a.npy": lambda path: np.save(path, np.ones((1000, 2))),
    "a.npz": lambda path: np.savez(path, np.ones((1000, 2))),
    "a.feather": lambda path: pa.feather.write_feather(PEOPLE.select(["x", "y"]), str(path)),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kept", [0.1, 0.6, 0.99])
def test_truncated_files(name: str, kept: float, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(InputError, match=rf"{name} cannot be read as rows"):
        open_source(path)


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    text = "\n".join(["x,y"] + [f"{i},{i * i}" for i in np.random.default_rng(3).integers(0, 10**9, 400_000)])
    whole = gzip.compress(text.encode(), compresslevel=1)
    path.write_bytes(whole[: len(whole) * 3 // 4])
    source = open_source(path)
    with pytest.raises(InputError, match=r"a\.csv\.gz cannot be read as rows"):
        list(source.batches())


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), "1-dimensional"),
        (np.ones((2, 2), complex), "type complex128"),
        (np.ones((2, 2), object), "type object"),
        (np.zeros(2, [("a", float)]), "1-dimensional"),
        (np.ones((3, 0)), "no columns"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_wrong_arrays_in_files(array: np.ndarray, message: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, array)
    with pytest.raises(InputError, match=rf"a\.{suffix}.*{message}"):
        open_source(path)


def test_an_archive_of_several_arrays_needs_a_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", points=np.ones((2, 2)), labels=np.ones(2))
    with pytest.raises(InputError, match=r"'a\.npz:points'; its arrays are 'points', 'labels'"):
        open_source(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"no array 'x'; its arrays are 'points', 'labels'"):
        open_source(f"{tmp_path / 'a.npz'}:x")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pa.table({"x": [1.0]}), r"b\.parquet has no column 'e'"),
        (pa.table({"x": ["a"], "e": pa.array([[1.0]], pa.list_(pa.float64(), 1))}), r"b\.parquet: not numeric: 'x'"),
        (pa.table({"x": [1.0], "e": pa.array([[1.0]], pa.list_(pa.float64(), 1))}), r"gives 2 coordinates .* gives 3"),
    ],
)
def test_files_of_a_folder_must_agree(other: pa.Table, message: str, tmp_path: Path) -> None:
    first = pa.table({"x": [1.0], "e": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))})
    pa.parquet.write_table(first, tmp_path / "a.parquet")
    pa.parquet.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=message):
        open_source(tmp_path)


def test_names_and_positions_become_positions() -> None:
    chosen = Selection(columns=["b", 0, "e[3]"], key="user").choose(["a", "b", "e", "user"], 4, "the table")
    assert (chosen.coordinates, chosen.key, dict(chosen.lengths)) == ((1, 0, 2), 3, {2: 3})
    assert Selection(weight=1).choose(None, 3, "the array").coordinates == (0, 2)


@pytest.mark.parametrize("asked", [{"columns": ["a", 0]}, {"columns": []}, {"key": 0, "weight": "a"}, {"columns": "a"}])
def test_what_names_a_column_twice_or_none_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Selection(**asked).choose(["a", "b"], 2, "the table")


def test_lists_are_asked_for_by_their_length_and_long_ones_are_cut() -> None:
    assert as_declared(["x", "e[0]", "e[1]", "e[2]"]) == ["x", "e[3]"]
    assert listing(map(str, range(40)), most=2) == "0, 1 and 38 more"
