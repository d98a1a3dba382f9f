"""What newcomers typed and paid for: every quoted failure now costs nothing, or the count alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger, PrivateKDE, load

from .conftest import Run, plain

N = 3000
POINTS = np.random.default_rng(0).normal(size=(N, 2)) * [0.05, 0.03] + [4.9, 52.37]
TERMS = ("--epsilon", "1", "--n-hint", str(N))


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    path = tmp_path / "trips.csv"
    np.savetxt(path, POINTS, delimiter=",", header="lon,lat", comments="", fmt="%.5f")
    return path


def _spent(ledger: Path) -> Fraction:
    book = Ledger(ledger)
    return sum((book.account(name).spent[0] for name in book.datasets), Fraction(0))


def test_labels_in_other_letters_cost_the_count(run: Run, tmp_path: Path, ledger_path: Path) -> None:
    news, target = tmp_path / "news.csv", tmp_path / "news.sfm"
    news.write_text("a,b,topic\n" + "0.6,0.8,World\n-0.6,0.8,Sports\n" * (N // 2))
    flags = ("--columns", "a,b", "--label-column", "topic", "--classes", "world,sports", *TERMS)
    result = run("classify", "fit", news, "-o", target, *flags)
    assert result.exit_code == 6 and "Only the count was charged" in plain(result.stderr)
    assert _spent(ledger_path) == Fraction(1, 20)
    assert not target.exists()


def test_columns_in_the_other_order_are_seen_in_a_look(run: Run, trips: Path, ledger_path: Path) -> None:
    flags = ("--columns", "lat,lon", "--bounds", "4.7,5.1;52.2,52.5", "--bandwidth", "0.01", *TERMS)
    target = trips.with_suffix(".sfm")
    for answer in ("n\n", None):
        result = run("release", trips, "-o", target, *flags, "--look", stdin=answer)
        assert result.exit_code == 2 and "no value lies within the bounds" in plain(result.stderr)
        assert not ledger_path.exists() and not target.exists()
    assert run("release", trips, "-o", target, *flags, "--look", stdin="y\n").exit_code == 0
    assert _spent(ledger_path) == 1


def test_another_separator_is_suggested_from_the_names(run: Run, tmp_path: Path, ledger_path: Path) -> None:
    path, target = tmp_path / "semi.csv", tmp_path / "semi.sfm"
    path.write_text("x;y\n" + "0,5;-1,25\n" * N)
    flags = ("-o", target, "--bounds", "-5,5", "--bandwidth", "0.5", *TERMS)
    result = run("release", path, *flags)
    assert result.exit_code == 2 and "looks like 2 separated by ';'" in plain(result.stderr)
    assert not ledger_path.exists()
    result = run("release", path, *flags, "--columns", "x;y")  # the curator says that it is one column
    assert result.exit_code == 6 and _spent(ledger_path) == Fraction(1, 20)


def test_every_command_that_reads_text_takes_its_marks(run: Run, tmp_path: Path) -> None:
    path, made = tmp_path / "semi.csv", tmp_path / "semi.sfm"
    path.write_text("x;y;topic\n" + "0,5;-1,25;a\n0,25;1,5;b\n" * N)
    marks, box = ("--separator", ";", "--decimal", ",", "--columns", "x,y"), ("--bounds", "-5,5")
    paid = ("-o", made, "--no-ledger", "--force", *box, "--epsilon", "1", "--n-hint", str(2 * N))
    labels = ("--label-column", "topic", "--classes", "a,b")
    assert "dropped     0 of" in run("check", path, *marks, *box, *labels).stdout
    for command in (
        ("bandwidth", path, "--private", "--no-ledger", *paid[-6:]),
        ("distance", path, *paid),
        ("classify", "fit", path, *paid, *labels),
        ("sum", path, "-o", tmp_path / "semi.part", "--bandwidth", "1", "--feature-seed", "1", *paid[4:]),
        ("release", path, "--bandwidth", "1", *paid),
        ("query", made, path),
        ("anomaly", made, path),
    ):
        result = run(*command, *marks)
        assert result.exit_code == 0, result.stderr


def test_distances_are_looked_at_too_and_a_count_far_off_is_told(run: Run, trips: Path, ledger_path: Path) -> None:
    flags = ("--epsilon", "1", "--n-hint", str(20 * N), "-o", trips.with_suffix(".sfm"), "--bounds")
    result = run("distance", trips, *flags, "52.2,52.5;4.7,5.1", "--look", stdin="n\n")
    assert result.exit_code == 2 and "no value lies within the bounds" in plain(result.stderr)
    assert not ledger_path.exists()
    result = run("distance", trips, *flags, "4.7,5.1;52.2,52.5")
    assert result.exit_code == 0 and f"far below --n-hint {20 * N}, and all of it is paid for" in plain(result.stderr)


def test_a_second_run_writes_beside_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = PrivateKDE(bandwidth=0.1, epsilon=1, n_hint=N).fit(POINTS)
    assert model.release_.save("people.sfm") == Path("people.sfm")
    with pytest.warns(UserWarning, match="was written to 'people-2.sfm'"):
        path = model.release_.save("people.sfm")
    assert load(path).guarantee == model.release_.guarantee
    assert model.release_.save("people.sfm", overwrite=True) == Path("people.sfm")
