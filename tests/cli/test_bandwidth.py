"""`sfumato bandwidth`: free from public points, paid and recorded from private ones."""

from __future__ import annotations

import errno
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.bandwidth import from_public
from sfumato.cli import console
from sfumato.privacy.ledger import Ledger

from .conftest import Run, plain

PRIVATE = ("--private", "--epsilon", "4", "--n-hint", "3000", "--bounds", "-8,8")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    points = np.random.default_rng(2).normal(size=(3000, 2))
    path = tmp_path_factory.mktemp("bandwidth") / "points.csv"
    np.savetxt(path, points, delimiter=",", header="lon,lat", comments="", fmt="%.17g")
    return path, points


def test_public_points_cost_nothing(run: Run, table: tuple[Path, np.ndarray], ledger_path: Path) -> None:
    path, points = table
    shown = run("bandwidth", path, "--public", "--rule", "scott").stdout
    assert plain(shown) == "bandwidth " + ",".join(f"{length:.6g}" for length in from_public(points, rule="scott"))
    document = json.loads(run("bandwidth", path, "--public", "--target-density", "0.05", "--json").stdout)
    assert document == {"bandwidth": from_public(points, target_density=0.05)}
    assert not ledger_path.exists()


def test_private_points_are_charged(run: Run, table: tuple[Path, np.ndarray], ledger_path: Path) -> None:
    path, points = table
    result = run("bandwidth", path, *PRIVATE, "--dataset", "survey", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["bandwidth"] == pytest.approx(from_public(points), rel=0.5)
    assert document["guarantee"]["epsilon"] == "4"
    assert document["ledger"]["spent"] == {"epsilon": "4", "delta": 0.0}
    charge = Ledger(ledger_path).account("survey").charges[0]
    assert (charge.mechanism, charge.epsilon) == ("bandwidth", Fraction(4))
    shown = run("bandwidth", path, *PRIVATE, "--dataset", "survey").stdout
    assert "has spent epsilon = 8" in plain(shown)


def test_a_seed_is_not_private_and_not_charged(run: Run, table: tuple[Path, np.ndarray], ledger_path: Path) -> None:
    results = [run("bandwidth", table[0], *PRIVATE, "--seed-noise-not-private", "3") for _ in range(2)]
    assert results[0].stdout == results[1].stdout
    assert "NOT PRIVATE" in plain(results[0].stderr)
    assert not ledger_path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either --public or --private"),
        (("--public", "--private"), "either --public or --private"),
        (("--private", "--n-hint", "9", "--bounds", "0,1"), "--epsilon is missing"),
        (("--private", "--epsilon", "1", "--bounds", "0,1"), "--n-hint is missing"),
        (("--private", "--epsilon", "1", "--n-hint", "9"), "--bounds is missing"),
        ((*PRIVATE, "--epsilon", "0.01"), "too small to find a bandwidth"),
        (("--public", "--columns", "depth"), "depth"),
    ],
    ids=str,
)
def test_wrong_input_is_named_and_costs_nothing(
    run: Run, table: tuple[Path, np.ndarray], ledger_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run("bandwidth", table[0], *arguments)
    assert result.exit_code == 2
    assert message in plain(result.stderr)
    assert not ledger_path.exists()


def test_a_choice_that_cannot_be_printed_is_in_the_error(
    run: Run, table: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(console, "facts", full)
    for choice in (("--candidates", "0.3;0.3"), ()):
        result = run("bandwidth", table[0], *PRIVATE, *choice)
        assert result.exit_code == 5 and "the bandwidth had been paid for and is 0." in plain(result.stderr)
