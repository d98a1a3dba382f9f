"""`sfumato query`: the same answers as the library, in every form; and what it refuses."""

from __future__ import annotations

import io
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import sfumato
from sfumato import storage
from sfumato.cli import query as query_module

from .conftest import Run, plain

AT = ("--at", "0.5,-1", "--at", "-0.25,0")
ASKED = np.array([[0.5, -1.0], [-0.25, 0.0]])


def table(text: str) -> np.ndarray:
    return np.genfromtxt(io.StringIO(text), delimiter=",", names=True)


def test_answers_on_the_screen_are_the_librarys(run: Run, released: Path) -> None:
    result = run("query", released, *AT)
    assert result.exit_code == 0, result.output
    rows = table(result.stdout)
    answers, errors = sfumato.load(released).query(ASKED, return_std=True)
    assert rows.dtype.names == ("lon", "lat", "value", "std")
    assert np.array_equal(rows["lon"], ASKED[:, 0])
    assert np.allclose(rows["value"], answers, rtol=1e-12)
    assert np.allclose(rows["std"], errors, rtol=1e-12)
    assert str(sfumato.load(released).guarantee) in plain(result.stderr)


def test_json_has_guarantee_and_answers(run: Run, released: Path) -> None:
    document = json.loads(run("query", released, *AT, "--no-std", "--json").stdout)
    assert document["guarantee"] == sfumato.load(released).guarantee.to_document()
    expected = sfumato.load(released).query(ASKED)
    assert [set(row) for row in document["answers"]] == [{"lon", "lat", "value"}] * 2
    assert [row["value"] for row in document["answers"]] == pytest.approx(expected, rel=1e-12)


def test_shrunk_answers_say_what_they_are(run: Run, released: Path) -> None:
    result = run("query", released, *AT, "--read", "shrunk")
    answers, errors = sfumato.load(released).query(ASKED, return_std=True, read="shrunk")
    rows = table(result.stdout)
    assert np.allclose(rows["value"], answers, rtol=1e-12) and np.allclose(rows["std"], errors, rtol=1e-12)
    assert "shrunk answers are biased" in " ".join(plain(result.stderr).split())
    assert json.loads(run("query", released, *AT, "--read", "shrunk", "--json").stdout)["read"] == "shrunk"
    assert run("query", released, *AT, "--read", "smooth").exit_code != 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_files_in_and_out_in_many_batches(
    run: Run, released: Path, files: dict[str, Path], points: np.ndarray, tmp_path: Path, kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(query_module, "BATCH_ROWS", 64)
    target = tmp_path / f"answers.{kind}"
    result = run("query", released, files[kind], "-o", target)
    assert result.exit_code == 0, result.output
    if kind == "csv":
        rows = np.loadtxt(target, delimiter=",", skiprows=1)
        assert target.read_text().startswith('"lon","lat","value","std"\n')
    elif kind == "parquet":
        read = pyarrow.parquet.read_table(target)
        assert read.column_names == ["lon", "lat", "value", "std"]
        rows = np.column_stack([column.to_numpy() for column in read.columns])
    else:
        rows = np.load(target)
    answers, errors = sfumato.load(released).query(points, return_std=True)
    assert np.allclose(rows, np.column_stack([points, answers, errors]), rtol=1e-12, atol=0)


def test_standard_input_is_read_and_columns_are_matched_by_name(run: Run, released: Path) -> None:
    result = run("query", released, "-", stdin="name,lat,lon\nann,-1,0.5\nbob,0,-0.25\n")
    assert result.exit_code == 0, result.output
    rows = table(result.stdout)
    assert rows.dtype.names == ("lon", "lat", "value", "std")
    assert np.allclose(rows["value"], sfumato.load(released).query(ASKED), rtol=1e-12)


def test_columns_of_other_names_are_taken_in_order_and_said(run: Run, released: Path) -> None:
    result = run("query", released, "-", "--columns", "east,north", stdin="id,north,east\n7,-1,0.5\n")
    assert "east, north stand for those of the release" in plain(result.stderr)
    rows = table(result.stdout)
    assert float(rows["value"]) == pytest.approx(sfumato.load(released).query(ASKED[:1])[0], rel=1e-12)


def test_what_a_kill_left_of_standard_input_is_swept(
    run: Run, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day later, by its name; never that of a run that lives, nor somebody's own file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened, spools, asked = query_module._open_named, [], "lon,lat\n0.5,-1\n"

    def noted(points: str, *more: Any) -> Any:
        spools.append(Path(points))
        os.utime(points, (1, 1))
        storage._swept.clear()
        storage.sweep(str(tmp_path))
        assert Path(points).read_text() == asked and stat.S_IMODE(os.stat(points).st_mode) == 0o600
        return opened(points, *more)

    monkeypatch.setattr(query_module, "_open_named", noted)
    assert run("query", released, "-", stdin=asked).exit_code == 0
    own = tmp_path / "places.csv"
    for path in (*spools, own):
        path.write_text("left")
        os.utime(path, (1, 1))
    storage._swept.clear()
    assert run("query", released, "-", stdin=asked).exit_code == 0
    assert list(tmp_path.iterdir()) == [own]


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        ([], None, "nothing to ask"),
        (["--at", "1,2", "-"], "lon,lat\n1,2\n", "not from both"),
        (["--at", "1,2,3"], None, "has 3 values"),
        (["--at", "1,north"], None, "--at must be numbers"),
        (["--at", "1,nan"], None, "query number 1 is not made of finite numbers"),
        (["-"], "lon,lat\n1,2\n1,\n", "query number 2 is not made of finite numbers"),
        (["-"], "lon,lat,height\n1,2,3\n".replace("lon", "x"), "queries have 3 columns"),
        (["-"], "value,b\n1,2\n", "rename it"),
        (["-"], "x,y\nhere,there\n", "standard input"),
        (["-"], "lon,lat\nhere,there\n", "query number 1 is not made of finite numbers"),
        (["--at", "1,2", "-o", "answers.txt"], None, "choose one of these endings"),
        (["--at", "1,2", "-o", "answers.csv", "--json"], None, "leave out --json"),
        (["missing.csv"], None, "no such file"),
    ],
)
def test_refusals(
    run: Run, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], stdin: str | None, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    result = run("query", released, *arguments, stdin=stdin)
    assert result.exit_code == 2
    assert message in plain(result.stderr)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_without_force(run: Run, released: Path, tmp_path: Path) -> None:
    target = tmp_path / "answers.csv"
    target.write_text("old")
    result = run("query", released, *AT, "-o", target)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert target.read_text() == "old"
    assert run("query", released, *AT, "-o", target, "--force").exit_code == 0
    assert target.read_text().startswith('"lon"')


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_a_full_disk_is_one_clear_line(run: Run, released: Path, tmp_path: Path, kind: str) -> None:
    os.symlink("/dev/full", tmp_path / f"answers.{kind}")
    result = run("query", released, *AT, "-o", tmp_path / f"answers.{kind}")
    assert result.exit_code == 5
    assert "the disk is full" in plain(result.stderr)
