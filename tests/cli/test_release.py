"""`sfumato release`: what it writes, what it refuses, and that a refusal costs nothing."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.privacy.ledger import Ledger

from .conftest import QUICK, Run, plain

NEEDED = ("--bandwidth", "1", "--epsilon", "1", *QUICK)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_each_kind_of_file_becomes_a_release_that_the_ledger_shows(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path, kind: str
) -> None:
    target = tmp_path / "out.sfm"
    result = run("release", files[kind], "-o", target, *NEEDED)
    assert result.exit_code == 0, result.output
    release = sfumato.load(target)
    assert release.guarantee.epsilon == 1
    assert release.dimension == 2
    assert release.columns == (None if kind == "npy" else ("lon", "lat"))
    account = Ledger(ledger_path).account(str(files[kind].resolve()))
    assert account.spent == (1, 0.0)
    assert str(release.guarantee) in plain(result.stdout)
    assert plain(release.statement()) in plain(result.stdout)
    assert "has spent epsilon = 1" in plain(result.stdout)


def test_every_kind_of_file_gives_the_same_integers(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    values = []
    for kind, path in files.items():
        target = tmp_path / f"{kind}.sfm"
        seeds = ("--feature-seed", "3", "--seed-noise-not-private", "4", "--method", "lsq-rff")
        assert run("release", path, "-o", target, *NEEDED, *seeds).exit_code == 0
        values.append(sfumato.load(target).values)
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


def test_json_tells_the_release_and_the_ledger(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    run("ledger", "budget", "survey", "--epsilon", "3")
    target = tmp_path / "out.sfm"
    result = run("release", files["csv"], "-o", target, *NEEDED, "--dataset", "survey", "--json")
    document = json.loads(result.stdout)
    assert document["release"] == str(target)
    assert document["bytes"] == target.stat().st_size
    assert document["guarantee"] == sfumato.load(target).guarantee.to_document()
    assert document["ledger"]["dataset"] == "survey"
    assert document["ledger"]["spent"] == {"epsilon": "1", "delta": 0.0}
    assert document["ledger"]["remaining"] == {"epsilon": "2", "delta": 0.0}


def test_paid_count_is_charged_with_the_release(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    target = tmp_path / "out.sfm"
    flags = ("--bandwidth", "1", "--epsilon", "1/2", "--paid-count", "--dataset", "survey")
    assert run("release", files["csv"], "-o", target, *flags).exit_code == 0
    account = Ledger(ledger_path).account("survey")
    assert next(charge.mechanism for charge in account.charges) == "count"
    assert account.spent == (sfumato.load(target).guarantee.epsilon, 0.0)


def test_seeded_noise_is_marked_and_not_charged(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    target = tmp_path / "out.sfm"
    result = run("release", files["csv"], "-o", target, *NEEDED, "--seed-noise-not-private", "1", "--quiet")
    assert result.exit_code == 0
    assert "NOT PRIVATE" in result.stderr
    assert not sfumato.load(target).guarantee.private
    assert not ledger_path.exists()


def test_without_a_ledger_nothing_is_recorded(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    result = run("release", files["csv"], "-o", tmp_path / "out.sfm", *NEEDED, "--no-ledger")
    assert result.exit_code == 0
    assert "no record was kept" in result.stdout
    assert not ledger_path.exists()


def test_quiet_prints_nothing(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    assert run("release", files["csv"], "-o", tmp_path / "out.sfm", *NEEDED, "--quiet").output == ""


def test_force_replaces_and_columns_bounds_and_bandwidths_are_kept(
    run: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    target = tmp_path / "out.sfm"
    target.write_bytes(b"old")
    flags = ("--columns", "lat,lon", "--bounds", "lon=-3,3", "--bounds", "lat=-2,2", "--outside", "drop", "--force")
    result = run("release", files["csv"], "-o", target, *NEEDED, *flags, "--bandwidth", "1,2")
    assert result.exit_code == 0, result.output
    release = sfumato.load(target)
    assert release.columns == ("lat", "lon")
    box = release.reader.box
    assert (box.lower, box.upper, box.outside) == ((-2.0, -3.0), (2.0, 3.0), "drop")
    assert release.kernel is not None
    assert np.array_equal(release.kernel.bandwidth, [1.0, 2.0])


@pytest.fixture
def odd_files(tmp_path: Path, files: dict[str, Path]) -> dict[str, Path]:
    """Files that cannot be released."""
    paths = {
        name: tmp_path / name for name in ("text.csv", "cut.parquet", "cut.npy", "cut.csv.gz", "flat.npy", "x.txt")
    }
    paths["text.csv"].write_text("name,lon\nann,1\nbob,2\n")
    for kind in ("parquet", "npy"):
        paths[f"cut.{kind}"].write_bytes(files[kind].read_bytes()[:-600])
    paths["cut.csv.gz"].write_bytes(gzip.compress(files["csv"].read_bytes())[:-300])
    np.save(paths["flat.npy"], np.zeros(5))
    paths["x.txt"].write_text("1,2\n")
    return paths | {"csv": files["csv"], "missing.csv": tmp_path / "missing.csv"}


REFUSALS = {
    "no bandwidth": ("csv", "--epsilon 1 --n-hint 9", 2, "--bandwidth is missing: pass --bandwidth B"),
    "no epsilon": ("csv", "--bandwidth 1 --n-hint 9", 2, "--epsilon is missing: pass --epsilon E"),
    "no n": ("csv", "--bandwidth 1 --epsilon 1", 2, "--n-hint is missing: pass --n-hint N"),
    "two n": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --paid-count", 2, "exclude each other"),
    "epsilon 0": ("csv", "--bandwidth 1 --epsilon 0 --n-hint 9", 2, "epsilon must be"),
    "epsilon -1": ("csv", "--bandwidth 1 --epsilon -1 --n-hint 9", 2, "epsilon must be"),
    "epsilon nan": ("csv", "--bandwidth 1 --epsilon nan --n-hint 9", 2, "epsilon must be"),
    "epsilon text": ("csv", "--bandwidth 1 --epsilon much --n-hint 9", 2, "epsilon must be"),
    "bandwidth 0": ("csv", "--bandwidth 0 --epsilon 1 --n-hint 9", 2, "bandwidth"),
    "bandwidth -1": ("csv", "--bandwidth -1 --epsilon 1 --n-hint 9", 2, "bandwidth"),
    "bandwidth inf": ("csv", "--bandwidth inf --epsilon 1 --n-hint 9", 2, "bandwidth"),
    "bandwidth text": ("csv", "--bandwidth wide --epsilon 1 --n-hint 9", 2, "--bandwidth must be numbers"),
    "three bandwidths": ("csv", "--bandwidth 1,1,1 --epsilon 1 --n-hint 9", 2, "bandwidth"),
    "n 0": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 0", 2, "--n-hint must be 1 or more, got 0"),
    "delta 2": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --delta 2", 2, "delta must be"),
    "unknown column": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --columns lon,hat", 2, "'hat'"),
    "text column": ("text.csv", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "column 'name' holds no numbers"),
    "no such file": ("missing.csv", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "no such file"),
    "unknown kind": ("x.txt", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "unknown kind of file"),
    "flat array": ("flat.npy", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "1-dimensional"),
    "cut parquet": ("cut.parquet", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "cannot be read"),
    "cut npy": ("cut.npy", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "cannot be read"),
    "cut gzip": ("cut.csv.gz", "--bandwidth 1 --epsilon 1 --n-hint 9", 2, "cannot be read"),
    "bounds reversed": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --bounds 3,-3", 2, "lower < upper"),
    "bounds of one": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --bounds lon=0,1", 2, "leaves out the column 'lat'"),
    "bounds of three": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --bounds 0,1;0,1;0,1", 2, "3 columns"),
    "bounds text": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --bounds wide", 2, "pairs of numbers"),
    "unknown option": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --option colour=1", 2, "unknown option 'colour'"),
    "option without value": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --option colour", 2, "NAME=VALUE"),
    "unknown kernel": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --kernel box", 2, "unknown kernel 'box'"),
    "unknown method": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --method best", 2, "unknown method 'best'"),
    "unknown relation": ("csv", "--bandwidth 1 --epsilon 1 --n-hint 9 --neighbours near", 2, "near"),
    "overdrawn": ("csv", "--bandwidth 1 --epsilon 5 --n-hint 9 --dataset survey", 3, "epsilon = 5"),
    "another relation": (
        "csv",
        "--bandwidth 1 --epsilon 1 --n-hint 9 --dataset survey --neighbours replace",
        3,
        "do not add up",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_problem_and_costs_nothing(
    run: Run, odd_files: dict[str, Path], tmp_path: Path, ledger_path: Path, case: str
) -> None:
    file, flags, code, message = REFUSALS[case]
    account = Ledger(ledger_path).account("survey")
    account.set_budget(3)
    account.charge("lsq-rff", 1)
    before, present = ledger_path.read_bytes(), set(tmp_path.iterdir())
    result = run("release", odd_files[file], "-o", tmp_path / "out.sfm", *flags.split())
    assert result.exit_code == code, result.output
    assert message in plain(result.stderr.replace("│", " "))
    assert "Traceback" not in result.output
    assert ledger_path.read_bytes() == before
    assert set(tmp_path.iterdir()) == present


def test_a_refusal_does_not_even_make_a_ledger(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    assert run("release", files["csv"], "-o", tmp_path / "out.sfm", "--bandwidth", "1").exit_code == 2
    assert not ledger_path.parent.exists()


def test_an_overdraft_is_refused_with_both_amounts(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    run("ledger", "budget", files["csv"], "--epsilon", "0.25")
    result = run("release", files["csv"], "-o", tmp_path / "out.sfm", *NEEDED)
    assert result.exit_code == 3
    assert "epsilon = 1" in plain(result.stderr)
    assert "0.25" in plain(result.stderr)
    assert not (tmp_path / "out.sfm").exists()


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("old.sfm", 2, "or --force to replace it"),
        ("folder", 2, "is a folder"),
        ("nowhere/out.sfm", 5, "the folder does not exist"),
        ("/dev/full", 2, "keeps nothing"),
    ],
)
def test_an_output_that_cannot_be_written_is_found_before_the_charge(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path, target: str, code: int, message: str
) -> None:
    (tmp_path / "old.sfm").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    result = run("release", files["csv"], "-o", tmp_path / target, *NEEDED)
    assert result.exit_code == code
    assert message in plain(result.stderr)
    assert (tmp_path / "old.sfm").read_bytes() == b"old"
    assert not ledger_path.exists()


def test_a_damaged_ledger_refuses(run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path) -> None:
    ledger_path.parent.mkdir()
    ledger_path.write_text("not a ledger\n")
    result = run("release", files["csv"], "-o", tmp_path / "out.sfm", *NEEDED)
    assert result.exit_code == 3
    assert result.stderr.startswith("error: ")
    assert not (tmp_path / "out.sfm").exists()
    assert ledger_path.read_text() == "not a ledger\n"


@pytest.mark.parametrize("place", ["-", "/dev/stdout", "/dev/fd/2", "/dev/null", "pipe"])
def test_what_keeps_nothing_is_refused_before_the_charge(
    run: Run, files: dict[str, Path], ledger_path: Path, tmp_path: Path, place: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = run("release", files["csv"], *NEEDED, "--force", "-o", tmp_path / place if place == "pipe" else place)
    assert result.exit_code == 2 and "pass the path of a file" in plain(result.stderr)
    assert not ledger_path.exists()


def test_delta_that_is_left_is_said(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    arguments = ("release", files["csv"], *NEEDED, "--method", "fourier", "--delta", "1e-6")
    assert "delta = 1e-06" in plain(run(*arguments, "-o", tmp_path / "a.sfm").stdout)
    document = json.loads(run(*arguments, "-o", tmp_path / "b.sfm", "--json").stdout)
    assert document["unspent_delta"] == 1e-6 and document["guarantee"]["delta"] == 0
