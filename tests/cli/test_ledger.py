"""`sfumato ledger`: budgets, spending, names and paths."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.cli import ledger
from sfumato.errors import BudgetError
from sfumato.privacy.ledger import Ledger

from .conftest import QUICK, Run, plain


def test_budget_is_set_and_shown(run: Run, ledger_path: Path) -> None:
    result = run("ledger", "budget", "survey", "--epsilon", "1/3", "--delta", "1e-6")
    assert result.exit_code == 0, result.output
    assert Ledger(ledger_path).account("survey").budget == (Fraction(1, 3), 1e-6)
    document = json.loads(run("ledger", "show", "--json").stdout)
    assert document["ledger"] == str(ledger_path)
    assert document["datasets"][0]["remaining"] == {"epsilon": "1/3", "delta": 1e-6}


def test_a_file_stands_for_its_account(run: Run, files: dict[str, Path], ledger_path: Path) -> None:
    run("ledger", "budget", files["csv"], "--epsilon", "2")
    account = Ledger(ledger_path).account(str(files["csv"].resolve()))
    assert account.budget == (2, 0.0)
    account.charge("lsq-rff", "0.5", note="first")
    document = json.loads(run("ledger", "show", files["csv"], "--json").stdout)
    assert document["spent"] == {"epsilon": "1/2", "delta": 0.0}
    assert [charge["note"] for charge in document["charges"]] == ["first"]
    text = plain(run("ledger", "show", files["csv"]).stdout)
    assert "has spent epsilon = 0.5, delta = 0.0; epsilon = 1.5, delta = 0.0 remains of 2" in text


def test_a_name_that_the_ledger_knows_comes_before_a_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger(ledger_path).account("survey").charge("lsq-rff", 1)
    (tmp_path / "survey").mkdir()
    assert json.loads(run("ledger", "show", "survey", "--json").stdout)["dataset"] == "survey"


def test_a_budget_and_a_charge_mean_the_same_data_set(
    run: Run, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips").mkdir()
    assert run("ledger", "budget", "trips", "--epsilon", "0.5").exit_code == 0
    needed = ("--bandwidth", 1, "--epsilon", 1, *QUICK)
    result = run("release", files["csv"], "-o", "over.sfm", "--dataset", "trips", *needed)
    assert result.exit_code == 3, result.output
    assert not (tmp_path / "over.sfm").exists()


def test_overview_lists_all_data_sets(run: Run, ledger_path: Path) -> None:
    assert "No data set" in run("ledger", "show").stdout
    assert not ledger_path.exists()
    Ledger(ledger_path).account("autumn").charge("lsq-rff", 1)
    run("ledger", "budget", "spring", "--epsilon", "2")
    text = plain(run("ledger", "show").stdout)
    assert "autumn" in text and "spring" in text and "no limit" in text


def test_unknown_data_set_is_refused_with_the_known_ones(run: Run) -> None:
    run("ledger", "budget", "spring", "--epsilon", "2")
    result = run("ledger", "show", "winter")
    assert result.exit_code == 2
    assert "knows no data set 'winter'; its data sets are: 'spring'" in plain(result.stderr)


def test_a_budget_below_the_spending_is_refused(run: Run, ledger_path: Path) -> None:
    Ledger(ledger_path).account("survey").charge("lsq-rff", 1)
    before = ledger_path.read_bytes()
    result = run("ledger", "budget", "survey", "--epsilon", "0.5")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert ledger_path.read_bytes() == before


def test_path_and_another_ledger(run: Run, ledger_path: Path, tmp_path: Path) -> None:
    assert run("ledger", "path").stdout == f"{ledger_path}\n"
    assert json.loads(run("ledger", "path", "--json").stdout) == {"ledger": str(ledger_path)}
    other = tmp_path / "other.jsonl"
    assert run("ledger", "budget", "survey", "--epsilon", "1", "--ledger", other, "--json").exit_code == 0
    assert other.exists()
    assert not ledger_path.exists()


def test_a_budget_may_name_its_rule(run: Run, ledger_path: Path) -> None:
    result = run("ledger", "budget", "survey", "--epsilon", "1", "--delta", "1e-6", "--rule", "gdp")
    assert result.exit_code == 0, result.output
    assert Ledger(ledger_path).account("survey").rule == "gdp"
    assert json.loads(run("ledger", "show", "survey", "--json").stdout)["rule"] == "gdp"


def test_the_condition_of_a_rule_is_said(run: Run) -> None:
    result = run("ledger", "budget", "survey", "--epsilon", "1", "--delta", "1e-6", "--rule", "pld")
    assert "fixed before the first release" in result.stderr


def test_charges_of_a_release_are_shown_as_json(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    flags = ("--bandwidth", "1", "--epsilon", "1", "--delta", "1e-6", "--n-hint", "500", "--option", "n_features=20")
    assert run("release", files["csv"], "-o", tmp_path / "a.sfm", *flags).exit_code == 0
    charges = json.loads(run("ledger", "show", files["csv"], "--json").stdout)["charges"]
    assert [(each["mechanism"], each["delta"]) for each in charges] == [("count", 0.0), ("fourier-gaussian", 1e-6)]


def test_an_account_is_the_file_however_it_is_spelled(
    run: Run, points: np.ndarray, tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "n.npz"
    np.savez(path, a=points)
    (tmp_path / "link.npz").symlink_to(path)
    assert run("ledger", "budget", path, "--epsilon", 1).exit_code == 0
    monkeypatch.chdir(tmp_path)
    needed = ("--bandwidth", 1, "--epsilon", "0.5", *QUICK)
    for number, spelling in enumerate((path, f"{path}:a", "./n.npz:a", "link.npz")):
        result = run("release", spelling, "-o", tmp_path / f"{number}.sfm", *needed, "--columns", "0")
        assert result.exit_code == (0 if number < 2 else 3), result.output
    assert Ledger(ledger_path).datasets == (str(path.resolve()),)
    (tmp_path / "hard.npz").hardlink_to(path)
    assert run("release", "hard.npz", "-o", tmp_path / "hard.sfm", *needed).exit_code == 3


def test_a_ledger_that_was_moved_away_fails_closed(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    release = ("release", files["csv"], "--bandwidth", 1, "--epsilon", 1, *QUICK, "-o")
    assert run("ledger", "budget", files["csv"], "--epsilon", 1).exit_code == 0
    assert run(*release, tmp_path / "one.sfm").exit_code == 0
    moved = ledger_path.rename(tmp_path / "moved.jsonl")
    refused = run(*release, tmp_path / "two.sfm")
    assert refused.exit_code == 3 and "is not there any more" in plain(refused.stderr)
    assert "deleting the note" in plain(refused.stderr) and not ledger_path.exists()
    assert run("ledger", "budget", files["csv"], "--epsilon", 1).exit_code == 3  # no new budget either
    assert run(*release, tmp_path / "two.sfm", "--dataset", "other").exit_code == 3
    Ledger(ledger_path).account("other").set_budget(1)  # a new ledger in its place does not know the budget
    refused = run(*release, tmp_path / "two.sfm")
    assert refused.exit_code == 3 and "does not know it" in plain(refused.stderr)
    moved.rename(ledger_path)
    assert run(*release, tmp_path / "two.sfm").exit_code == 3  # spent, as before
    (note,) = (tmp_path / "config" / "sfumato" / "budgets").iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    ledger_path.unlink()
    note.unlink()
    assert run(*release, tmp_path / "two.sfm").exit_code == 0


def test_two_budgets_at_once_are_both_noted(
    run: Run, tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine, both = ledger._noted, threading.Barrier(2)

    def noted(note: Path) -> set[str]:
        found = genuine(note)
        with suppress(threading.BrokenBarrierError):
            both.wait(1)  # of two that have both read the old note
        return found

    accounts = [Ledger(ledger_path).account(name) for name in ("one", "two")]
    monkeypatch.setattr(ledger, "_noted", noted)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(ledger.note_budget, accounts))
    (note,) = (tmp_path / "config" / "sfumato" / "budgets").iterdir()
    assert json.loads(note.read_bytes())["datasets"] == ["one", "two"]


def test_a_ledger_whose_link_went_fails_closed(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    """Whichever of its names the budget was set by."""
    real, link = tmp_path / "real" / "l.jsonl", tmp_path / "state" / "l.jsonl"
    for name in (real, link):
        name.parent.mkdir()
    link.symlink_to(real)
    release = ("release", files["csv"], "--bandwidth", 1, "--epsilon", 1, *QUICK, "--ledger", link, "-o")
    assert run("ledger", "budget", files["csv"], "--epsilon", 1, "--ledger", real).exit_code == 0
    assert run(*release, tmp_path / "one.sfm").exit_code == 0
    link.unlink()
    refused = run(*release, tmp_path / "two.sfm")
    assert refused.exit_code == 3 and "is not there any more" in plain(refused.stderr)
    assert not link.exists()


def test_a_lost_budget_of_a_folder_counts_for_its_files(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(files["csv"], folder / "points.csv")
    Ledger(ledger_path).account("other").set_budget(1)
    before = ledger_path.read_bytes()
    needed = ("--bandwidth", 1, "--epsilon", 1, *QUICK, "-o", tmp_path / "one.sfm")
    assert run("ledger", "budget", folder, "--epsilon", 1).exit_code == 0
    ledger_path.write_bytes(before)
    for data in (folder, folder / "points.csv", f"{folder}/*.csv"):
        refused = run("release", data, *needed)
        assert refused.exit_code == 3 and "does not know it" in plain(refused.stderr), refused.output


def test_a_budget_for_a_file_that_is_not_there_is_refused(
    run: Run, tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be a budget of the name, which no release of the file is charged to."""
    monkeypatch.chdir(tmp_path)
    for name in ("late.csv", "late.NPZ", tmp_path / "late"):
        refused = run("ledger", "budget", name, "--epsilon", 1)
        assert refused.exit_code == 2 and "is no file" in plain(refused.stderr), refused.output
    assert Ledger(ledger_path).datasets == ()
    Ledger(ledger_path).account("late.csv").set_budget(1)
    Path("late.csv").write_text("x\n1\n")
    assert "write './late.csv' for the file" in plain(run("ledger", "show", "late.csv").stderr)
    assert run("ledger", "budget", "./late.csv", "--epsilon", 2).exit_code == 0
    assert Ledger(ledger_path).account(str(tmp_path.resolve() / "late.csv")).budget == (2, 0.0)


def test_a_name_like_a_pattern_is_one_account_in_every_folder(
    run: Run, tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert run("ledger", "budget", "study [A]", "--epsilon", 1).exit_code == 0
    assert Ledger(ledger_path).datasets == ("study [A]",)
    (tmp_path / "b" / "x.csv").write_text("x\n1\n")
    assert run("ledger", "budget", "*.csv", "--epsilon", 1).exit_code == 0
    assert str((tmp_path / "b").resolve()) in Ledger(ledger_path).datasets


def test_an_account_is_known_while_its_file_is_away(
    run: Run, tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path.resolve() / "x.csv"
    path.write_text("x\n1\n")
    assert run("ledger", "budget", "x.csv", "--epsilon", 1).exit_code == 0
    path.unlink()
    assert json.loads(run("ledger", "show", "x.csv", "--json").stdout)["dataset"] == str(path)


def test_a_path_that_leaves_a_link_is_noted_by_its_own_name(run: Run, tmp_path: Path) -> None:
    """Letters alone would make `link/../led.jsonl` a file beside the link, which holds no budget."""
    (tmp_path / "deep" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "inner")
    for book in (tmp_path / "link" / ".." / "led.jsonl", tmp_path / "led.jsonl"):
        result = run("ledger", "budget", "alpha", "--epsilon", 1, "--ledger", book)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "deep" / "led.jsonl").exists() and (tmp_path / "led.jsonl").exists()


def test_a_note_of_no_names_is_told(run: Run, tmp_path: Path) -> None:
    assert run("ledger", "budget", "alpha", "--epsilon", 1).exit_code == 0
    (note,) = (tmp_path / "config" / "sfumato" / "budgets").iterdir()
    note.write_text('{"ledger": "x", "datasets": [1, "/a"]}')
    refused = run("ledger", "budget", "alpha", "--epsilon", 1)
    assert refused.exit_code == 5 and "cannot be read (its names are no text)" in plain(refused.stderr)


LOCAL = ("local", "protocol", "--dimension", 2, "--epsilon", 2, "--bandwidth", 1, "--bounds", "-4,4", "--seed", 1)
SHUFFLED = ("shuffled", "protocol", "--dimension", 2, "--epsilon", 2, "--delta", "1e-2", "--bandwidth", 1)
COLLECTIONS = {
    "local": ((*LOCAL, "--participants", 500), ("replace", "record"), 0.0),
    "shuffled": ((*SHUFFLED, "--participants", 12, "--new-key"), ("replace", "user"), 0.01),
}


@pytest.fixture(params=COLLECTIONS)
def simulate(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> list[object]:
    """A collection, up to the points that it is simulated on."""
    made = [*COLLECTIONS[request.param][0], *([tmp_path / "key"] if request.param == "shuffled" else [])]
    assert run(*made, "-o", tmp_path / "p.json").exit_code == 0
    return [request.param, "simulate", tmp_path / "p.json"]


def test_a_simulated_collection_is_paid_for(
    run: Run, simulate: list[object], files: dict[str, Path], tmp_path: Path, ledger_path: Path
) -> None:
    """Whoever holds all points may publish it, as any other release of them."""
    data, out = files["csv"], tmp_path / "out.sfm"
    (tmp_path / "none.csv").write_text("lon,lat\n")
    assert run("ledger", "budget", data, "--epsilon", 3, "--delta", 0.1).exit_code == 0
    for arguments in ([data, "--columns", "lon"], [tmp_path / "none.csv"]):  # refused before the charge
        assert run(*simulate, *arguments, "-o", out).exit_code == 2
    assert Ledger(ledger_path).account(str(data)).charges == () and not out.exists()
    assert run(*simulate, data, "-o", out, "--no-ledger").exit_code == 0
    assert run(*simulate, data, "-o", out, "--seed-noise-not-private", 1, "--force").exit_code == 0
    assert Ledger(ledger_path).account(str(data)).charges == ()
    paid = run(*simulate, data, "-o", out, "--force")
    assert paid.exit_code == 0 and "has spent epsilon = 2" in plain(paid.stdout), paid.output
    (charge,) = Ledger(ledger_path).account(str(data)).charges
    _, relation, delta = COLLECTIONS[str(simulate[0])]
    assert ((charge.neighbours, charge.unit), charge.epsilon, charge.delta) == (relation, 2, delta)
    guarantee = sfumato.load(out).guarantee
    assert ((guarantee.neighbours, guarantee.unit), guarantee.epsilon, guarantee.delta) == (relation, 2, delta)
    refused = run(*simulate, data, "-o", tmp_path / "more.sfm")
    assert refused.exit_code == 3 and "remains" in plain(refused.stderr) and not (tmp_path / "more.sfm").exists()
    named = run(*simulate, data, "-o", out, "--force", "--dataset", "others", "--json")
    assert json.loads(named.stdout)["ledger"]["spent"]["epsilon"] == "2"


@pytest.mark.parametrize("error", [sfumato.InputError("odd"), KeyboardInterrupt()])
def test_a_simulation_is_charged_before_its_coins(
    run: Run, simulate: list[object], files: dict[str, Path], tmp_path: Path, ledger_path: Path,
    monkeypatch: pytest.MonkeyPatch, error: BaseException,
) -> None:  # fmt: skip
    def draw(*arguments: object, **more: object) -> None:
        assert Ledger(ledger_path).account(str(files["csv"])).spent[0] == 2
        raise error

    monkeypatch.setattr(f"sfumato.{simulate[0]}.Protocol.simulate", draw)
    result = run(*simulate, files["csv"], "-o", tmp_path / "out.sfm")
    assert result.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 2), result.output
    assert "epsilon = 2" in plain(result.stderr) and "had been charged already and stays spent" in plain(result.stderr)


def test_charges_whose_sum_is_too_long_to_write_are_shown(run: Run, ledger_path: Path) -> None:
    account = Ledger(ledger_path).account("survey")
    account.set_budget(1)
    for number in range(6):
        account.charge("race", Fraction(1, 10**1050 + 2 * number + 1))
    with pytest.raises(BudgetError, match="remains of"):
        account.charge("race", 2)
    assert run("ledger", "show").exit_code == 0
    document = json.loads(run("ledger", "show", "survey", "--json").stdout)
    assert Fraction(document["spent"]["epsilon"]) + Fraction(document["remaining"]["epsilon"]) == 1
