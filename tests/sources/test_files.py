from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from sfumato.errors import InputError
from sfumato.sources import Source, open_source
from sfumato.sources.files import open_path, open_paths
from sfumato.sources.selection import Selection
from tests.sources.writers import EVERY, NAMED, NAMES, ONE_PASS, UNNAMED, FrameWithStream


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1000, 3))


def read_all(source: Source, rows: int = 65536) -> np.ndarray:
    return np.concatenate([np.empty((0, source.dimension), np.float32), *source.batches(rows)])


@pytest.mark.parametrize("form", EVERY)
def test_every_form_gives_the_same_rows(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows))
    assert source.dimension == 3
    assert source.column_names == (NAMES if form in NAMED else None)
    np.testing.assert_array_equal(read_all(source), rows)


@pytest.mark.parametrize("height", [1, 64, 333, 1000, 5000])
@pytest.mark.parametrize("form", EVERY)
def test_batches_have_the_asked_height_and_the_same_rows(
    form: str, height: int, tmp_path: Path, rows: np.ndarray
) -> None:
    batches = list(open_source(EVERY[form](tmp_path, rows)).batches(height))
    heights = [height] * (1000 // height) + [1000 % height] * (1000 % height > 0)
    assert [batch.shape for batch in batches] == [(h, 3) for h in heights]
    assert all(batch.flags.c_contiguous and batch.dtype == np.float64 and batch.dtype.isnative for batch in batches)
    np.testing.assert_array_equal(np.concatenate(batches), rows)


@pytest.mark.parametrize("form", NAMED)
def test_columns_are_taken_by_name_in_the_asked_order(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(NAMED[form](tmp_path, rows), columns=["z", "x"])
    assert (source.dimension, source.column_names) == (2, ("z", "x"))
    np.testing.assert_array_equal(read_all(source), rows[:, [2, 0]])


@pytest.mark.parametrize("form", EVERY)
def test_columns_are_taken_by_position_in_the_asked_order(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows), columns=np.array([2, 0]).tolist())
    assert source.column_names == (("z", "x") if form in NAMED else None)
    np.testing.assert_array_equal(read_all(source), rows[:, [2, 0]])


def test_a_path_that_is_too_long_for_any_file_is_told() -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        open_source("1" * 5000)


def test_names_and_positions_may_be_mixed(tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(NAMED["parquet"](tmp_path, rows), columns=["y", np.int64(0)])  # type: ignore[list-item]
    assert source.column_names == ("y", "x")


@pytest.mark.parametrize("form", sorted(EVERY.keys() - ONE_PASS))
def test_repeatable_sources_can_be_read_again(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows))
    assert source.repeatable
    next(source.batches(10))
    np.testing.assert_array_equal(read_all(source), rows)
    np.testing.assert_array_equal(read_all(source), rows)


@pytest.mark.parametrize("form", sorted(ONE_PASS))
def test_one_pass_sources_refuse_a_second_reading(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows))
    assert not source.repeatable
    source.batches()
    with pytest.raises(InputError, match="only once"):
        source.batches()


@pytest.mark.parametrize("form", sorted(EVERY.keys() - {"list", "list of arrays", "record batch", "iterator of lists"}))
def test_no_rows_are_fine_where_the_dimension_is_known(form: str, tmp_path: Path) -> None:
    source = open_source(EVERY[form](tmp_path, np.empty((0, 3))))
    assert source.dimension == 3
    assert list(source.batches()) == []


KNOWN_LENGTH = (NAMED.keys() | UNNAMED.keys()) - ONE_PASS
KNOWN_LENGTH -= {form for form in EVERY if form.startswith(("csv", "tsv"))} | {"data set", "feather", "ipc stream"}


@pytest.mark.parametrize("form", sorted(EVERY))
def test_the_private_length_is_told_only_to_who_asks(form: str, tmp_path: Path, rows: np.ndarray) -> None:
    source = open_source(EVERY[form](tmp_path, rows))
    assert source.expected_rows == (1000 if form in KNOWN_LENGTH else None)
    assert "1000" not in repr(source)


def test_an_opened_source_is_returned_as_it_is(rows: np.ndarray) -> None:
    source = open_source(rows)
    assert open_source(source) is source
    with pytest.raises(InputError, match="where the source is opened"):
        open_source(source, columns=[0])


def test_arrays_that_fit_are_not_copied(rows: np.ndarray) -> None:
    assert all(np.shares_memory(batch, rows) for batch in open_source(rows).batches(100))


@pytest.mark.parametrize("height", [0, -1])
def test_batches_need_a_row(height: int, rows: np.ndarray) -> None:
    with pytest.raises(InputError, match="at least one row"):
        open_source(rows).batches(height)


def test_a_frame_without_length_counts_as_one_pass(rows: np.ndarray) -> None:
    class Stream:
        def __init__(self, frame: FrameWithStream) -> None:
            self.__arrow_c_stream__ = frame.__arrow_c_stream__

    source = open_source(Stream(FrameWithStream(pa.table({"x": rows[:, 0]}))))
    assert not source.repeatable
    np.testing.assert_array_equal(read_all(source), rows[:, :1])


def test_folders_promote_to_the_widest_type(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"x": pa.array([0.5], pa.float32())}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"x": pa.array([0.1], pa.float64())}), tmp_path / "b.parquet")
    np.testing.assert_array_equal(read_all(open_source(tmp_path)), [[0.5], [0.1]])


def test_dots_in_names_are_only_dots(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a.b": [1.0], "a": [2.0], "c": [3.0]}), tmp_path / "rows.parquet")
    assert read_all(open_source(tmp_path / "rows.parquet", columns=["a"])).tolist() == [[2.0]]
    assert read_all(open_source(tmp_path / "rows.parquet", columns=["a.b"])).tolist() == [[1.0]]


def test_a_folder_a_pattern_and_a_list_of_files_are_one_table(tmp_path: Path) -> None:
    for name, text in (("b.csv", "x,y\n3,4\n"), ("a.csv", "x,y\n1,2\n")):
        (tmp_path / name).write_text(text)
    files = [tmp_path / "b.csv", tmp_path / "a.csv"]
    assert open_path(tmp_path, Selection()).whole().tolist() == [[1, 2], [3, 4]]
    assert open_path(tmp_path / "*.csv", Selection(columns=["y"])).whole().tolist() == [[2], [4]]
    assert open_paths(files, Selection()).whole().tolist() == [[3, 4], [1, 2]]
    (tmp_path / "a.csv").write_text("x,z\n1,2\n")
    with pytest.raises(InputError):
        open_paths(files, Selection())


ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet", ".npy", ".npz", ".arrow", ".feather")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_device_is_refused_before_it_is_opened(ending: str, tmp_path: Path) -> None:
    """Of the devices this one ends, so that a reader would only find it empty."""
    path = tmp_path / f"rows{ending}"
    path.symlink_to(os.devnull)
    with pytest.raises(InputError, match=rf"rows{ending} is a pipe or a device.*write them to a file first"):
        open_source(path)


OPEN_ALL = """
import sys
from sfumato import InputError
from sfumato.sources import open_source

for path in sys.argv[1:]:
    try:
        open_source(path)
    except InputError as error:
        print(error)
"""


def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """Opening one waits for its writer without end, so it is done in a process that can be ended."""
    paths = [tmp_path / f"rows{ending}" for ending in ENDINGS]
    for path in paths:
        os.mkfifo(path)
    command = [sys.executable, "-c", OPEN_ALL, *map(str, paths), f"{tmp_path / 'rows.npz'}:x"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    told = ended.stdout.splitlines()
    assert len(told) == len(paths) + 1 and all("is a pipe or a device" in line for line in told)


def test_links_to_files_are_files_and_a_folder_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("x,y\n1,2\n")
    (tmp_path / "rows.csv").symlink_to(tmp_path / "rows.txt")
    assert open_source(tmp_path / "rows.csv").whole().tolist() == [[1, 2]]
    (tmp_path / "rows.npz").mkdir()
    for path in (tmp_path / "rows.npz", f"{tmp_path / 'rows.npz'}:x"):
        with pytest.raises(InputError, match=r"rows.npz is a folder"):
            open_source(path)
