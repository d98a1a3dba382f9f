"""What a file says of itself is cleaned before it reaches a terminal, a picture or a page."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato import PrivateKDE
from sfumato.cli import console
from sfumato.learn import DensityClassifier
from sfumato.local import Protocol
from sfumato.public.canonical_json import canonical
from sfumato.public.shown import shown

from .conftest import Run

ESCAPE, OVERRIDE, C1 = "\x1b[31m\x1b]0;owned\x07", "\u202e", "\x9b31m"
NAMES = (f"a$_{{x$<b>{ESCAPE}", f"b{OVERRIDE}{C1}\nguarantee   epsilon = 0")
UNSAFE = ("\x1b", "\x07", "\x9b", "\u202e")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = np.random.default_rng(0).normal(size=(500, 2))
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=500, bounds=(-3, 3)).fit(points)
    release = replace(model.release_, columns=NAMES, version=f"1{ESCAPE}{OVERRIDE}")
    path = tmp_path_factory.mktemp("hostile") / "hostile.sfm"
    path.write_bytes(release.to_bytes())
    return path


def test_terminals(run: Run, hostile: Path, tmp_path: Path) -> None:
    for command in (
        ("inspect", hostile),
        ("inspect", hostile, "--json"),
        ("query", hostile, "--at", "0,0"),
        ("query", hostile, "--at", "0,0", "--json"),
        ("query", hostile, "--at", "0"),
        ("verify", hostile),
        ("verify", hostile, "--json"),
        ("people", hostile, "--region", "0,1;0,1"),
        ("map", hostile, "-o", tmp_path / "map.csv", "--size", 8),
        ("map", hostile, "-o", tmp_path / "wrong.png", "--columns", "c"),
    ):
        said = run(*command)
        text = said.stdout + said.stderr
        assert not [letter for letter in UNSAFE if letter in text], command
        assert not any(line.startswith("guarantee   epsilon = 0") for line in text.splitlines()), command


def test_what_is_wrong_with_a_command(run: Run) -> None:
    """A pattern such as *.sfm makes words of files' names, which Typer quotes when they are one too many."""
    name = f"a{ESCAPE}{OVERRIDE}{C1}"
    for command in (("inspect", name, name), ("check", f"--{name}"), (f"--{name}",)):
        said = run(*command)
        assert said.exit_code == 2 and not [letter for letter in UNSAFE if letter in said.output], command
        assert "u202e" in said.output, command


@pytest.mark.parametrize("kind", ["png", "svg", "html", "csv"])
def test_pictures_and_pages(run: Run, hostile: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"map.{kind}"
    made = run("map", hostile, "-o", out, "--size", 8, "--title", "a$_{x$")
    assert made.exit_code == 0, made.output
    if kind in ("svg", "html"):
        text = out.read_text(encoding="utf-8")
        assert "a$_{x$<b>" not in text and not [letter for letter in UNSAFE if letter in text]
        assert "\\u202e" not in text.replace("\\\\u202e", "").replace("b\\u202e\\x9b", "")


def test_cards(hostile: Path) -> None:
    release = sfumato.load(hostile)
    assert not [letter for letter in UNSAFE if letter in repr(replace(release, method=f"grid{ESCAPE}{OVERRIDE}"))]
    html = release._repr_html_()
    assert "$<b>" not in html and not [letter for letter in UNSAFE if letter in html]


PLANNED = ["plan", "--dimension", "2", "--bandwidth", "1", "--epsilon", "1", "--n-hint", "1000"]


def printed(command: list[str], settings: dict[str, str]) -> bytes:
    """What a command prints on a machine with these settings."""
    program = [sys.executable, "-c", "from sfumato.cli import main; main()", *command]
    ended = subprocess.run(program, env={**os.environ, **settings}, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("settings", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_terminals_of_ascii(hostile: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    letters = tmp_path / "letters.sfm"  # of which UTF-8 makes bytes that are control characters to such a terminal
    letters.write_bytes(replace(sfumato.load(hostile), columns=("Û31m", "😀")).to_bytes())
    for command in (["inspect", str(letters)], ["inspect", str(letters), "--json"], ["inspect", "--help"], PLANNED):
        said = printed(command, settings)
        if "PYTHONIOENCODING" in settings:
            said.decode("ascii")
        if "--json" in command:
            assert json.loads(said)["columns"] == ["Û31m", "😀"]


def test_json_on_a_terminal_of_few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", errors="backslashreplace")  # as `main` sets it
    monkeypatch.setattr(sys, "stdout", said)
    console.print_json({"columns": ["Û31m", "😀"]})
    said.flush()
    assert json.loads(said.buffer.getvalue()) == {"columns": ["Û31m", "😀"]}


def test_a_terminal_of_unknown_width() -> None:
    assert b"grid" in printed(PLANNED, {"COLUMNS": "0"})


def test_what_is_shown() -> None:
    assert shown("größe, m² 測定") == "größe, m² 測定"
    assert shown("\u0645\u06cc\u200c\u062e\u0648") == "\u0645\u06cc\u200c\u062e\u0648"  # Persian needs the joiner
    assert shown("\ud800\u2028\x00\u2066") == "\\ud800\\u2028\\x00\\u2066"


def test_no_text_turns_into_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    console.out.cache_clear()
    console.out().print("the column :smile:")
    console.out.cache_clear()
    assert capsys.readouterr().out == "the column :smile:\n"


def test_classes_on_a_terminal(run: Run, tmp_path: Path) -> None:
    names = [f"World{ESCAPE}{C1}", f"Sports{OVERRIDE}"]
    points = np.random.default_rng(0).normal(size=(400, 1))
    terms = {"bandwidth": 1.0, "epsilon": 1, "n_hint": 400, "bounds": (-3, 3)}
    model = DensityClassifier("gaussian", classes=names, **terms).fit(points, np.array(names)[np.arange(400) % 2])
    model.save(tmp_path / "classes.sfm")
    for command in ("inspect", "verify"):
        text = run(command, tmp_path / "classes.sfm").output
        assert "World" in text or command == "verify"
        assert not [letter for letter in UNSAFE if letter in text], command


def test_a_device_without_the_command_line(tmp_path: Path) -> None:
    """A protocol's own words come back in what is refused; and what is to be passed is named as it is typed."""
    protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=1, epsilon=1, participants=100, bounds=(0, 1), seed=7)
    document = {**protocol.document, "guarantee": {**protocol.document["guarantee"], "unit": f"record{C1}{OVERRIDE}"}}
    (tmp_path / "p.json").write_bytes(canonical(document))
    protocol.save(tmp_path / "good.json")
    command = [sys.executable, "-m", "sfumato.local"]
    refused = subprocess.run([*command, tmp_path / "p.json"], capture_output=True, check=False, input=b"0.5")
    assert refused.returncode == 2 and b"promises another 'unit'" in refused.stderr
    assert not [letter for letter in UNSAFE if letter in refused.stderr.decode()]
    dear = [*command, tmp_path / "good.json", "--max-epsilon", "0.5"]
    assert b"pass --max-epsilon to allow more" in subprocess.run(dear, capture_output=True, check=False).stderr
    missing = subprocess.run([*command, "year/ledger=2/p.json"], capture_output=True, check=False, input=b"0.5")
    assert missing.returncode == 5 and b"'year/ledger=2/p.json'" in missing.stderr
