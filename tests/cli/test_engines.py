"""`--engine`, several files, `sum`, `release --parts` and `merge` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import load
from sfumato.cli import app
from sfumato.cli.paid import speed_text

ASKED = ["--bandwidth", "1", "--epsilon", "1", "--n-hint", "2000", "--feature-seed", "7", "--method", "lsq-rff"]
SEED = ["--seed-noise-not-private", "3"]


@pytest.fixture
def points(tmp_path: Path) -> list[str]:
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    for name, part in (("a", rows[:700]), ("b", rows[700:])):
        np.savetxt(tmp_path / f"{name}.csv", part, delimiter=",", header="x,y", comments="")
    return [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object, code: int = 2) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_engines_give_the_same_release_of_several_files(points: list[str], tmp_path: Path) -> None:
    for engine in ("threads", "processes"):
        run("release", *points, "-o", tmp_path / f"{engine}.sfm", *ASKED, *SEED, "--engine", engine, "--dataset", "p")
    assert (tmp_path / "threads.sfm").read_bytes() == (tmp_path / "processes.sfm").read_bytes()
    assert "--dataset is missing" in refused("release", *points, "-o", tmp_path / "x.sfm", *ASKED)
    assert "--master is for --engine spark" in refused(
        "release", points[0], "-o", tmp_path / "x.sfm", *ASKED, "--master", "local[1]", "--no-ledger"
    )


def test_parts_are_summed_merged_and_charged_once(points: list[str], tmp_path: Path) -> None:
    parts = [tmp_path / "a.part", tmp_path / "b.part"]
    for data, part in zip(points, parts, strict=True):
        assert "PRIVATE" in run("sum", data, "-o", part, *ASKED)
        assert part.stat().st_mode & 0o777 == 0o600
        for asked in (("inspect", part), ("verify", part), ("query", part, "--at", "0,0")):
            assert "sfumato release --parts" in refused(*asked, code=4)
    ledger = ["--ledger", tmp_path / "ledger"]
    told = json.loads(
        run("release", "--parts", *parts, "-o", tmp_path / "all.sfm", "--dataset", "p", *ledger, "--json")
    )
    assert told["parameters"]["sites"] == 2 and "all at one" in told["statement"]
    shown = json.loads(run("ledger", "show", "p", *ledger, "--json"))
    assert len(shown["charges"]) == 1
    run("release", "--parts", *parts, "-o", tmp_path / "seeded.sfm", *SEED)
    run("release", *points, "-o", tmp_path / "whole.sfm", *ASKED, *SEED, "--dataset", "p")
    assert np.array_equal(load(tmp_path / "seeded.sfm").values, load(tmp_path / "whole.sfm").values)
    assert "copies of one" in refused("release", "--parts", parts[0], parts[0], "-o", tmp_path / "x.sfm", "--no-ledger")
    run("sum", points[0], "-o", tmp_path / "again.part", *ASKED)
    twice = refused("release", "--parts", parts[0], tmp_path / "again.part", "-o", tmp_path / "x.sfm", "--no-ledger")
    assert "the same site" in twice
    assert "--dataset is missing" in refused("release", "--parts", *parts, "-o", tmp_path / "x.sfm")
    merged = ["release", "--parts", *parts, "--dataset", "p", *ledger]
    assert "keeps nothing of what is paid for" in refused(*merged, "-o", "/dev/null")
    for flags in (["--epsilon", "0.01"], ["--bounds", "0,1"], ["--outside", "drop"], ["--category", "x=y"]):
        assert "all terms are in the parts" in refused(*merged, "-o", tmp_path / "x.sfm", *flags)
    assert len(json.loads(run("ledger", "show", "p", *ledger, "--json"))["charges"]) == 1
    assert not (tmp_path / "x.sfm").exists()


def test_parts_with_categories_circles_and_landmarks(tmp_path: Path) -> None:
    """Every encoder that `release` can make has parts: without coins their sums are those of all rows."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=300), random.integers(0, 24, 300), random.integers(0, 2, 300)])
    (tmp_path / "kinds").write_text("0\n1\n")
    (tmp_path / "public.csv").write_text("x,hour\n" + "".join(f"{x},{12}\n" for x in np.linspace(-2, 2, 40)))
    data = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, part in zip(data, (rows[:100], rows[100:]), strict=True):
        np.savetxt(path, part, delimiter=",", header="x,hour,kind", comments="", fmt="%.9g")
    asked = ["--bandwidth", "1", "--epsilon", "1", "--n-hint", "300", "--feature-seed", "7"]
    cases = {
        "cells": ["--category", f"kind={tmp_path / 'kinds'}", "--columns", "x,kind", "--bounds", "-4,4"],
        "circle": ["--circle", "hour=24", "--columns", "x,hour", "--method", "lsq-rff"],
        "landmarks": ["--landmarks", tmp_path / "public.csv", "--columns", "x,hour", "--method", "landmarks"],
    }
    for name, more in cases.items():
        for path in data:
            run("sum", path, "-o", path.with_suffix(f".{name}"), *asked, *more)
        parts = [path.with_suffix(f".{name}") for path in data]
        run("release", "--parts", *parts, "-o", tmp_path / f"{name}.sfm", *SEED)
        run("release", *data, "-o", tmp_path / f"{name}-whole.sfm", *asked, *more, *SEED, "--dataset", "p")
        merged, whole = (load(tmp_path / f"{name}{end}.sfm") for end in ("", "-whole"))
        assert merged.count == whole.count and merged.values.shape == whole.values.shape
        assert name == "landmarks" or np.array_equal(merged.values, whole.values)


def test_what_sum_needs(points: list[str], tmp_path: Path) -> None:
    for flag in ("--bandwidth", "--epsilon", "--n-hint", "--feature-seed"):
        place = ASKED.index(flag)
        left = [*ASKED[:place], *ASKED[place + 2 :]]
        assert f"{flag}" in refused("sum", points[0], "-o", tmp_path / "x.part", *left)
    assert "-o OUT.part is missing" in refused("sum", points[0], *ASKED)


def test_releases_of_sites_are_merged(points: list[str], tmp_path: Path) -> None:
    asked = ["fourier" if word == "lsq-rff" else word for word in ASKED]
    for name, data in zip("ab", points, strict=True):
        run("release", data, "-o", tmp_path / f"{name}.sfm", *asked, *SEED)
    run("merge", tmp_path / "a.sfm", tmp_path / "b.sfm", "-o", tmp_path / "both.sfm")
    both, sites = load(tmp_path / "both.sfm"), [load(tmp_path / f"{name}.sfm") for name in "ab"]
    assert np.array_equal(both.values, sites[0].values + sites[1].values)
    assert both.noise.variance == pytest.approx(2 * sites[0].noise.variance)
    assert "-o OUT.sfm is missing" in refused("merge", tmp_path / "a.sfm", tmp_path / "b.sfm")


def test_speed_is_told() -> None:
    assert speed_text(2_500_000.4) == "2,500,000 rows/s" and speed_text(None) == ""
