"""The command line as a whole: help that teaches, light imports, versions, pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.cli.typed import parse_bounds, parse_columns, parse_options
from sfumato.errors import InputError
from sfumato.sources import open_source

from .conftest import QUICK, Run, plain

COMMANDS = ["release", "query", "check", "inspect", "verify", "ledger show", "ledger budget", "demo"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_with_the_command_itself(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"sfumato {command} " in plain(result.stdout).partition("Example")[2]


def test_release_help_names_every_flag_of_its_example(run: Run) -> None:
    help_text, _, example = plain(run("release", "--help").stdout).partition("Example")
    flags = {word for word in example.split() if word.startswith("--")}
    assert flags >= {"--bandwidth", "--epsilon", "--n-hint", "--bounds"}
    assert all(flag in help_text for flag in flags)


def test_no_arguments_show_help_and_version_is_told(run: Run) -> None:
    assert "Usage: sfumato" in run().output
    assert run("--version").stdout == f"sfumato {sfumato.__version__}\n"


def test_commands_load_the_heavy_libraries_only_when_they_run() -> None:
    # The package's own __init__ is left out: what is measured is what the command line asks for.
    program = (
        "import sys, types; package = types.ModuleType('sfumato'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['sfumato'] = package; import sfumato.cli; "
        "print([name for name in ('numpy', 'numba', 'pyarrow', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    folder = Path(sfumato.__file__).parent
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_closed_pipe_ends_a_real_run_quietly(files: dict[str, Path], tmp_path: Path, run: Run) -> None:
    release, queries = tmp_path / "out.sfm", tmp_path / "queries.npy"
    flags = ("--bandwidth", "1", "--epsilon", "1", *QUICK)
    assert run("release", files["csv"], "-o", release, *flags).exit_code == 0
    np.save(queries, np.zeros((200_000, 2)))
    command = [Path(sys.executable).with_name("sfumato"), "query", release, queries]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b'"lon","lat","value","std"\n'
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 1
    assert said.startswith("guarantee: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "data", "columns"),
    [
        (None, "a.csv", None),
        ("lon, lat", "a.csv", ["lon", "lat"]),
        ("0,2", "a.csv", ["0", "2"]),
        ("0,2", "a.npz:x", [0, 2]),
    ],
)
def test_columns(text: str | None, data: str, columns: list[str | int] | None) -> None:
    assert parse_columns(text, data) == columns


@pytest.mark.parametrize("text", ["", "a,,b"])
def test_columns_without_a_name_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--columns must be names"):
        parse_columns(text, "a.csv")


@pytest.mark.parametrize(
    ("texts", "bounds"),
    [
        (None, None),
        (["-1,1"], [-1.0, 1.0]),
        (["0,1;2,3"], [[0.0, 1.0], [2.0, 3.0]]),
        (["1=2,3", "0=0,1"], [[0.0, 1.0], [2.0, 3.0]]),
    ],
)
def test_bounds(texts: list[str] | None, bounds: object) -> None:
    assert parse_bounds(texts, open_source(np.zeros((1, 2)))) == bounds


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["0,1", "2,3"], "2 times without names"),
        (["0=0,1", "0=0,1"], "twice"),
        (["7=0,1"], "names the column '7'; the points' columns are 0, 1"),
        (["0,1,2"], "pairs of numbers"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_bounds(texts, open_source(np.zeros((1, 2))))


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="given twice"):
        parse_options(["n_features=1", "n_features=2"])
