"""`sfumato check`: every kind of trouble is counted and told, to the curator only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Run, plain

ROWS = """lon,lat,name
0.5,1,ann
0.5,1,bob
,2,cid
oops,3,dan
inf,4,eve
9,-7,fay
0.25,5,gus
"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    path = tmp_path / "messy.csv"
    path.write_text(ROWS)
    return path


def test_troubles_are_counted(run: Run, messy: Path) -> None:
    result = run("check", messy, "--columns", "lon,lat", "--bounds", "0,6", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["rows"], document["dropped"], document["repeated"]) == (7, 3, 1)
    lon, lat = document["columns"]
    assert (lon["missing"], lon["infinite"], lon["minimum"], lon["maximum"]) == (2, 1, 0.25, 9.0)
    assert (lon["below"], lon["above"]) == (0, 1)
    assert (lat["missing"], lat["infinite"], lat["below"], lat["above"]) == (0, 0, 1, 0)
    assert "eyes only" in document["note"]


def test_text_says_for_whom_and_lists_warnings(run: Run, messy: Path) -> None:
    result = run("check", messy, "--columns", "lon,lat", "--bounds", "lon=0,6", "--bounds", "lat=0,6")
    assert "For the curator's eyes only" in plain(result.stderr)
    text = plain(result.stdout)
    assert "3 of 7 (42.86%) rows hold a value that is not a finite number or a known category" in text
    assert "1 of the first 7 rows repeat another row" in text
    assert "column lat: 1 values lie below 0 and 0 above 6 (14.3% of the rows); the bounds look too tight" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bounds", "-1000,1000"], "look too wide"),
        (["--bandwidth", "50"], "the density will look flat"),
        (["--bandwidth", "1e-9"], "pass --bounds"),
    ],
)
def test_bounds_and_bandwidth_are_judged(run: Run, files: dict[str, Path], flags: list[str], message: str) -> None:
    result = run("check", files["npy"], *flags)
    assert result.exit_code == 0
    assert message in plain(result.stdout)


def test_good_points_give_no_warning(run: Run, files: dict[str, Path]) -> None:
    result = run("check", files["parquet"], "--bounds", "-6,6", "--bandwidth", "1")
    assert "Nothing to warn about." in result.stdout
    document = json.loads(run("check", files["parquet"], "--json").stdout)
    assert document["warnings"] == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.empty((0, 2)), "there are no rows"),
        (np.full((3, 1), 7.0), "one value only"),
        (np.full((3, 1), np.nan), "no finite"),
    ],
)
def test_empty_constant_and_missing_columns(run: Run, tmp_path: Path, rows: np.ndarray, message: str) -> None:
    np.save(tmp_path / "rows.npy", rows)
    result = run("check", tmp_path / "rows.npy")
    assert result.exit_code == 0, result.output
    assert message in plain(result.stdout)


def test_check_spends_and_writes_nothing(run: Run, messy: Path, tmp_path: Path, ledger_path: Path) -> None:
    run("check", messy, "--columns", "lon,lat")
    assert list(tmp_path.iterdir()) == [messy]
    assert not ledger_path.exists()


def test_wrong_columns_are_refused(run: Run, messy: Path) -> None:
    result = run("check", messy, "--columns", "lon,height")
    assert result.exit_code == 2
    assert "--columns" in plain(result.stderr)


def test_a_column_of_text_is_told(run: Run, messy: Path) -> None:
    result = run("check", messy, "--columns", "lon,name")
    assert result.exit_code == 0
    assert "column name has no finite number" in plain(result.stdout)
    assert "warning: " in plain(result.stderr) and "column 'name' holds no numbers" in plain(result.stderr)
    assert "--columns" in plain(result.stderr) and "OddDataWarning" not in result.stderr


def test_labels_are_compared_with_classes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_text("a,topic\n" + "1,World\n2,Sports\n" * 5)
    arguments = ("check", tmp_path / "news.csv", "--columns", "a", "--label-column", "topic", "--classes")
    text = plain(run(*arguments, "world,sports").stdout)
    assert "10 of 10 (100.00%) rows have a label that is no class" in text
    assert "there are labels 'Sports', 'World'" in text
    assert json.loads(run(*arguments, "World,Sports", "--json").stdout)["labels"] == {"Sports": 5, "World": 5}
    assert run("check", tmp_path / "news.csv", "--classes", "a").exit_code == 2
