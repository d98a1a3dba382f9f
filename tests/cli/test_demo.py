"""`sfumato demo`: every file is there, and the predicted error is near the actual one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.cli import demo as demo_module
from sfumato.cli.made_up_points import BOUNDS, make_points, mean_similarity
from sfumato.kernels import Gaussian

from .conftest import Run, plain


def test_mean_similarity_is_what_points_show() -> None:
    points, others = make_points(20_000, seed=3), make_points(400, seed=4)
    # 400 answers of standard deviation about 0.03: their mean is within 6 standard errors but for one run in 1e9.
    assert Gaussian(0.7).exact_density(points, others).mean() == pytest.approx(mean_similarity(0.7), abs=0.01)


def test_points_are_the_same_each_time_and_within_the_declared_bounds() -> None:
    points = make_points(40_000, seed=1)
    assert np.array_equal(points, make_points(40_000, seed=1))
    assert points.min() > BOUNDS[0]
    assert points.max() < BOUNDS[1]


def test_demo_runs_twice_and_ends_with_where_everything_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger_path: Path
) -> None:
    monkeypatch.setattr(demo_module, "ROWS", 5_000)
    folder = tmp_path / "demo"
    document = json.loads(run("demo", "--output", folder, "--json").stdout)
    # The mean of squared errors over the town behaves like 30 or more independent squares: a factor of 4 is 1e-6 off.
    assert 0.5 < document["actual"] / document["predicted_error"] < 2
    assert 0.5 < document["error_bar"] / document["predicted_error"] < 2
    assert document["ledger"]["spent"]["epsilon"] == "1"

    result = run("demo", "--output", folder)
    assert result.exit_code == 0, result.output
    release = sfumato.load(folder / "demo.sfm")
    assert release.guarantee.private
    assert plain(release.statement()) in plain(result.stdout)
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    ending = plain(result.stdout)[-700:]
    for name in ("demo.png", "demo.sfm", "demo-points.csv", "demo-ledger.jsonl"):
        assert (folder / name).stat().st_size > 0
        assert name in ending
    assert not ledger_path.exists()  # the demo keeps a ledger of its own


def test_a_folder_that_cannot_be_made_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("demo", "--output", tmp_path / "file" / "demo")
    assert result.exit_code == 5
    assert "a part of the path is a file" in plain(result.stderr)


@pytest.mark.parametrize("name", ["demo-points.csv", "demo-ledger.jsonl", "demo.sfm", "demo.png"])
def test_files_that_no_demo_made_stay(name: str, run: Run, tmp_path: Path) -> None:
    mine = tmp_path / name
    mine.write_text("mine")
    result = run("demo", "--output", tmp_path)
    assert result.exit_code == 2 and f"{name}' is not of this version's demo" in plain(result.stderr)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("demo")] == [name]
    assert mine.read_text() == "mine"
