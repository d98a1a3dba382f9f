"""`sfumato start`: a first release by questions on a terminal, and the same by flags without one."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.cli import app
from sfumato.cli.start import typed

FLAGS = ["--columns", "lon,lat", "--bounds", "lon=0,10", "--bounds", "lat=-5,5", "--n-hint", "400", "--epsilon", "8"]
# What is asked, in order, and what somebody types; a wrong answer is told and asked for again.
TALK = [
    ("columns", "lon,height"),
    ("columns", "lon,lat"),
    ("bounds of lon", "10,0"),
    ("bounds of lon", "0,10"),
    ("bounds of lat", "-5,5"),
    ("bandwidth", "2"),
    ("n-hint", "many"),
    ("n-hint", "400"),
    ("epsilon", "8"),
    ("budget", ""),
    ("output", ""),
    ("Release?", "y"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    points = np.random.default_rng(0).uniform([0, -5, 0], [10, 5, 1], (400, 3))
    np.savetxt(tmp_path / "trips.csv", points, delimiter=",", header="lon,lat,id", comments="", fmt="%.4f")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.jsonl"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def spent(folder: Path) -> float:
    book = sfumato.Ledger(folder / "ledger.jsonl")
    return float(book.account(str(folder / "trips.csv")).spent[0])


def talked(folder: Path, talk: list[tuple[str, str]]) -> tuple[int, str]:
    """Run the command on a pseudo-terminal; each answer is typed when its question has appeared."""
    here, there = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(sfumato.__file__).parents[1]), "COLUMNS": "200", "TERM": "dumb"}
    command = [sys.executable, "-m", "sfumato", "start", "trips.csv"]
    running = subprocess.Popen(command, cwd=folder, env=environment, stdin=there, stdout=there, stderr=there)
    os.close(there)
    shown, seen, waiting = "", 0, list(talk)
    while True:
        try:
            piece = os.read(here, 65536) if select.select([here], [], [], 600)[0] else b""
        except OSError:  # the other side is closed
            piece = b""
        if not piece:
            break
        shown += piece.decode(errors="replace")
        if waiting and (at := shown.find(waiting[0][0], seen)) >= 0 and shown.rstrip(" ").endswith((":", "]")):
            seen = max(at, len(shown))
            os.write(here, f"{waiting.pop(0)[1]}\n".encode())
    os.close(here)
    assert not waiting, shown
    return running.wait(timeout=600), shown


def test_questions_lead_to_a_release_and_a_map(folder: Path) -> None:
    code, shown = talked(folder, TALK)
    assert code == 0, shown
    release = sfumato.load(folder / "trips.sfm")
    assert release.columns == ("lon", "lat") and release.guarantee.epsilon == 8 and release.guarantee.private
    assert (folder / "trips.html").exists() and spent(folder) == 8
    assert "sfumato release trips.csv -o trips.sfm --columns=lon,lat --bounds=lon=0,10 --bounds=lat=-5,5" in shown
    assert "\x1b[1m" not in shown and "\\n" not in shown  # a dumb terminal would print the escapes
    assert "[0.5]" in shown  # a twentieth of the bounds: nothing that is offered is read off the rows


def test_a_no_spends_nothing(folder: Path) -> None:
    code, shown = talked(
        folder, [*(pair for pair in TALK if pair[1] not in ("lon,height", "10,0", "many", "y")), ("Release?", "n")]
    )
    assert code == 2 and "stopped before anything was charged" in shown
    assert not (folder / "trips.sfm").exists() and not (folder / "ledger.jsonl").exists()


def test_flags_do_the_same_without_a_terminal(folder: Path) -> None:
    done = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS, "--bandwidth", "2", "--yes"])
    assert done.exit_code == 0, done.output
    assert sfumato.load(folder / "trips.sfm").guarantee.epsilon == 8 and (folder / "trips.html").exists()
    again = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS, "--yes", "-o", "other.sfm"])
    assert again.exit_code == 3 and spent(folder) == 8  # the budget is this release's


@pytest.mark.parametrize("left_out", ["--bounds", "--n-hint", "--epsilon"])
def test_what_is_missing_is_named_and_explained(folder: Path, left_out: str) -> None:
    pairs = [pair for pair in zip(FLAGS[::2], FLAGS[1::2], strict=True) if pair[0] != left_out]
    done = CliRunner().invoke(app, ["start", "trips.csv", *(word for pair in pairs for word in pair), "--yes"])
    assert done.exit_code == 2 and f"{left_out}" in done.output and "is missing" in done.output
    assert not (folder / "ledger.jsonl").exists()


def test_nothing_is_spent_without_a_yes(folder: Path) -> None:
    done = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS])
    assert done.exit_code == 2 and "--yes" in done.output and not (folder / "ledger.jsonl").exists()


def test_the_file_itself_is_no_output_and_no_budget_is_set_for_it(folder: Path) -> None:
    before = (folder / "trips.csv").read_bytes()
    done = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS, "--yes", "--force", "-o", "trips.csv"])
    assert done.exit_code == 2 and "stays as it is" in done.output, done.output
    assert (folder / "trips.csv").read_bytes() == before and not list(folder.rglob("*.jsonl"))


def test_the_commands_that_are_printed_run(folder: Path) -> None:
    told = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS]).output
    commands = [shlex.split(line)[1:] for line in told.splitlines() if line.startswith("sfumato ")]
    assert [words[0] for words in commands] == ["ledger", "release", "map"]
    for words in commands:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    assert spent(folder) == 8 and (folder / "trips.html").exists()


def test_other_marks_and_names_that_are_taken(folder: Path) -> None:
    """What an error tells to pass can be passed here; and a name that is taken is found before anything is spent."""
    rows = "".join(f"{number % 10},5;{number % 5},25\n" for number in range(400))
    (folder / "trips.csv").write_text(f"lon;lat\n{rows}")
    assert "Pass --separator ';'" in CliRunner().invoke(app, ["start", "trips.csv", *FLAGS, "--yes"]).output
    marks = ["--separator", ";", "--decimal", ","]
    (folder / "trips.html").write_text("mine")
    taken = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS, *marks, "--yes"])
    assert taken.exit_code == 2 and "trips.html" in taken.output and not (folder / "ledger.jsonl").exists()
    done = CliRunner().invoke(app, ["start", "trips.csv", *FLAGS, *marks, "--yes", "--force"])
    assert done.exit_code == 0 and "--separator=;" in done.output.replace("'", "")
    assert sfumato.load(folder / "trips.sfm").columns == ("lon", "lat")


HOSTILE = ["it's\x1b[31m\\RED", "b\u202eevil"]
UNSAFE = ("\x1b", "\u202e")


@pytest.fixture
def hostile(folder: Path) -> Path:
    rows = "".join(f"{number % 10},{number % 5}\n" for number in range(400))
    (folder / "trips.csv").write_text(f"{','.join(HOSTILE)}\n{rows}", encoding="utf-8")
    return folder


def test_names_of_columns_in_questions_are_cleaned(hostile: Path) -> None:
    talk = [("columns", ""), ("bounds of it", "0,10"), ("bounds of b", "0,5"), ("bandwidth", "2"), ("n-hint", "400")]
    code, shown = talked(hostile, [*talk, ("epsilon", "8"), ("budget", ""), ("output", ""), ("Release?", "n")])
    assert code == 2 and "stopped before anything was charged" in shown
    assert "bounds of it's\\x1b[31m\\RED (LO,HI)" in shown and "bounds of b\\u202eevil (LO,HI)" in shown
    assert not [letter for letter in UNSAFE if letter in shown]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_commands_with_hostile_names_can_be_pasted(hostile: Path) -> None:
    told = CliRunner().invoke(app, ["start", "trips.csv", "--bounds", "0,10", *FLAGS[6:]]).output
    assert not [letter for letter in UNSAFE if letter in told]
    (line,) = [line for line in told.splitlines() if line.startswith("sfumato release ")]
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout.decode()
    words = printed.split("\0")[1:-1]
    assert f"--columns={','.join(HOSTILE)}" in words
    done = CliRunner().invoke(app, [*words, "--no-look"])
    assert done.exit_code == 0, done.output
    assert sfumato.load(hostile / "trips.sfm").columns == tuple(HOSTILE)


def test_bytes_that_are_no_text_are_typed_as_such() -> None:
    assert typed(["a\udcff", "\ud800"]) == r"$'a\xff' $'\xed\xa0\x80'"


def test_the_budget_is_of_the_data_and_not_of_a_name_that_looks_like_them(folder: Path) -> None:
    (folder / "trips").mkdir()
    (folder / "trips.csv").rename(folder / "trips" / "a.csv")
    book = sfumato.Ledger(folder / "ledger.jsonl")
    book.account("trips").charge("count", 1)
    done = CliRunner().invoke(app, ["start", "trips", *FLAGS, "--yes"])
    assert done.exit_code == 0, done.output
    assert book.account("trips").budget is None and book.account(str(folder / "trips")).budget == (8, 0.0)
