"""`sfumato plan`: the comparison, its JSON, the inverse and the picture, all without data."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import typer

from sfumato.cli import app
from sfumato.methods import epsilon_for, n_for, plan

from .conftest import Run, plain

FACTS = ("--dimension", "10", "--bandwidth", "1")
ASKED = (*FACTS, "--epsilon", "1/2", "--n-hint", "100000")


def test_the_table_shows_every_method_the_constant_and_the_reasons(run: Run) -> None:
    result = run("plan", *ASKED, "--reasons")
    assert result.exit_code == 0, result.output
    text = plain(result.stdout)
    made = plan(n_hint=100_000, dimension=10, bandwidth=1.0, epsilon="1/2")
    for row in (*(row for row in made.rows if row.applies), made.constant):
        assert f"{row.method} {row.error:.3g}" in text
    assert "fourier-gaussian does not apply: it needs delta > 0" in text
    assert text.startswith("chosen: fourier")
    assert "0.02 (typical" in text


def test_every_flag_of_release_is_one_of_plan() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    names = {kind: {name for each in commands[kind].params for name in each.opts} for kind in ("release", "plan")}
    assert names["release"] - names["plan"] == {"data"}


def test_what_newcomers_typed(run: Run) -> None:
    digits = ("--dimension", "784", "--epsilon", "1", "--n-hint", "60000", "--bounds", "0,1")
    for length, verdict in (("4.85", "marginal"), ("1", "noise"), (".2", "noise")):
        result = run("plan", *digits, "--bandwidth", length)
        assert result.exit_code == 0, result.output
        assert f"verdict: {verdict}" in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 80
    named = ("--bounds", "lon=4.7,5.1", "--bounds", "lat=52.2,52.5", "--epsilon", "1", "--n-hint", "100000")
    result = run("plan", *named, "--bandwidth-metres", "500", "--latitude", "52.3", "-o", "x.sfm", "--no-ledger")
    assert result.stdout.startswith("chosen: grid")


def test_a_public_sample_tells_p(run: Run, files: dict[str, Path]) -> None:
    facts = ("--dimension", "2", "--bandwidth", "1", "--epsilon", "1", "--n-hint", "500", "--json")
    document = json.loads(run("plan", *facts, "--public", files["npy"]).stdout)
    low, high = document["density_range"]
    assert low == high == document["density"] != 0.02


@pytest.mark.parametrize("flag", ["--public", "--landmarks"])
def test_public_points_are_read_with_the_separator_and_the_decimal_mark(run: Run, tmp_path: Path, flag: str) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))
    usual, other = tmp_path / "usual.csv", tmp_path / "other.csv"
    usual.write_text("x,y\n" + "".join(f"{x:.3f},{y:.3f}\n" for x, y in rows))
    other.write_text("x;y\n" + "".join(f"{x:.3f};{y:.3f}\n".replace(".", ",") for x, y in rows))
    facts = ("--columns", "x,y", "--bandwidth", 1, "--epsilon", 1, "--n-hint", 1000, "--json", flag)
    expected = run("plan", *facts, usual)
    assert expected.exit_code == 0, expected.output
    assert run("plan", *facts, other, "--separator", ";", "--decimal", ",").stdout == expected.stdout


def test_json_is_the_plan(run: Run) -> None:
    bounds = ("--columns", "lon,lat", "--bounds", "lon=0,1", "--bounds", "lat=4,6")
    budgets = ("--work", "1e8", "--file-size", "20000", "--query-work", "3000", "--density", "0.05")
    result = run("plan", *bounds, "--bandwidth", "1,2", "--epsilon", "1", "--n-hint", "5000", *budgets, "--json")
    made = plan(
        n_hint=5000,
        dimension=2,
        bandwidth=[1.0, 2.0],
        epsilon=1,
        bounds=[(0, 1), (4, 6)],
        density=0.05,
        work=1e8,
        file_size=20_000,
        query_work=3000,
    )
    assert json.loads(result.stdout) == json.loads(json.dumps(made.to_document()))


@pytest.mark.parametrize("given", [("--n-hint", "100000"), ("--epsilon", "0.1")])
def test_a_target_error_finds_what_is_left_out(run: Run, given: tuple[str, str]) -> None:
    document = json.loads(run("plan", *FACTS, *given, "--target-error", "0.005", "--json").stdout)
    if given[0] == "--n-hint":
        assert Fraction(document["epsilon"]) == epsilon_for(0.005, n_hint=100_000, dimension=10, bandwidth=1.0)
    else:
        assert document["n_hint"] == n_for(0.005, epsilon=0.1, dimension=10, bandwidth=1.0)
    assert document["methods"][0]["error"] <= 0.005


def test_a_promise_is_planned(run: Run) -> None:
    promise = ("--alpha", "0.2", "--eta", "0.1", "--all-queries", "--bounds", "0,5")
    facts = ("--dimension", "2", "--bandwidth", "1", "--epsilon", "2", "--n-hint", "1000000")
    result = run("plan", *facts, *promise)
    assert result.exit_code == 0, result.output
    assert "at most 0.2 with probability 1 - 0.1, for all queries in the bounds together" in plain(result.stdout)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_drawn_and_never_replaced_by_accident(run: Run, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"error.{suffix}"
    assert run("plan", *ASKED, "--plot", target).exit_code == 0
    content = target.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert run("plan", *ASKED, "--plot", target).exit_code != 0
    assert run("plan", *ASKED, "--plot", target, "--force", "--density", "0.1").exit_code == 0
    assert target.read_bytes() != content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bandwidth", "1", "--epsilon", "1", "--n-hint", "9"), "--dimension is missing"),
        ((*FACTS, "--n-hint", "9"), "--epsilon is missing"),
        ((*FACTS, "--epsilon", "1"), "--n-hint is missing"),
        (("--dimension", "2", "--epsilon", "1", "--n-hint", "9"), "pass --bandwidth"),
        ((*FACTS, "--columns", "a,b", "--epsilon", "1", "--n-hint", "9"), "--columns names 2 columns"),
        ((*ASKED, "--target-error", "0.1"), "either --epsilon or --n-hint"),
        ((*FACTS, "--n-hint", "100", "--target-error", "1e-6"), "pass a larger --n-hint"),
        ((*ASKED, "--file-size", "100"), "no room for a single feature"),
        ((*ASKED, "--alpha", "0.01", "--eta", "0.01"), "it takes"),
        ((*ASKED, "--plot", "error.docx"), "must end in .png"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_input_is_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("plan", *arguments)
    assert result.exit_code == 2
    assert message in plain(result.stderr)
