"""`sfumato release` with people as the unit, and with weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sfumato

from .conftest import Run

NEEDED = ("--bandwidth", "1", "--epsilon", "5", "--n-hint", "600", "--bounds", "-5,5")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Sixty people with ten records each, half of them of weight 0."""
    rng = np.random.default_rng(2)
    rows = [f"p{i % 60},{x:.6f},{y:.6f},{i % 2}" for i, (x, y) in enumerate(rng.normal(size=(600, 2)))]
    path = tmp_path / "people.csv"
    path.write_text("person,x,y,weight\n" + "\n".join(rows) + "\n")
    return path


def test_people_are_protected_with_a_limit(run: Run, people: Path, tmp_path: Path) -> None:
    result = run(
        "release", people, "-o", tmp_path / "a.sfm", *NEEDED,
        "--user-column", "person", "--max-records-per-user", 3, "--columns", "x,y", "--n-hint", 180,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    release = sfumato.load(tmp_path / "a.sfm")
    assert release.guarantee.unit == "user"
    assert any("at most 3 records per user" in condition for condition in release.guarantee.conditions)
    assert abs(release.count.value - 180) < 20 * np.sqrt(release.count.variance)
    assert release.columns == ("x", "y")


def test_weights_thin_the_records(run: Run, people: Path, tmp_path: Path) -> None:
    kept = ("--weight-column", "weight", "--columns", "x,y", "--n-hint", 300)
    result = run("release", people, "-o", tmp_path / "a.sfm", *NEEDED, *kept)
    assert result.exit_code == 0, result.output
    release = sfumato.load(tmp_path / "a.sfm")
    assert abs(release.count.value - 300) < 20 * np.sqrt(release.count.variance)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--user-column", "person"), "--max-records-per-user is missing"),
        (("--max-records-per-user", "3", "--columns", "x,y"), "needs --user-column"),
        (("--user-column", "nobody", "--max-records-per-user", "3"), "nobody"),
    ],
    ids=["no limit", "no column", "wrong column"],
)
def test_what_is_missing_is_named(
    run: Run, people: Path, tmp_path: Path, ledger_path: Path, flags: tuple[str, ...], message: str
) -> None:
    result = run("release", people, "-o", tmp_path / "a.sfm", *NEEDED, *flags)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not ledger_path.exists()
