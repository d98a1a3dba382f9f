"""The command line as a whole: help that teaches, light imports, versions, pipes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.cli.console import in_flags, in_one_line
from sfumato.cli.typed import parse_bounds, parse_columns, parse_options
from sfumato.errors import InputError, StorageError
from sfumato.local import Protocol
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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("pass categories=, or options={'k': 2}", "pass --category, or --option {'k': 2}"),
        ("Pass separator=';' (and often decimal=',')", "Pass --separator ';' (and often --decimal ',')"),
        ("for example columns=['a', 'b c']", "for example --columns 'a,b c'"),
        ("far below n_hint=500: pass look=True", "far below --n-hint 500: pass --look"),
        (
            "the device's epsilon: pass max_epsilon= to allow more",
            "the device's epsilon: pass --max-epsilon to allow more",
        ),
        ("say so (--dataset NAME on the command line, ledger=L in Python)", "say so (--dataset NAME)"),
    ],
)
def test_arguments_are_told_as_flags(said: str, told: str) -> None:
    assert in_flags(said) == told


@pytest.mark.parametrize(
    "said",
    [
        "hive/start=2024/zz.csv: no such file",
        "start=2024.csv: no such file",
        r"C:\data\delta=0\zz.csv: no such file",
        "n_hint=5/zz.csv: no such file",
        "there is no column 'my columns= here' or \"it's label=, so\"",
        "'overwrite=True' exists already",
        "the columns are a, start=5 and p=x",
        "Gaussian(bandwidth=0.5)",
    ],
)
def test_what_others_wrote_is_not_told_as_a_flag(said: str) -> None:
    assert in_flags(said, set()) == said


def test_a_list_of_columns_that_is_none_is_told() -> None:
    assert in_flags(r"pass columns=['\x'], if you can") == r"pass --columns ['\x'], if you can"


@pytest.mark.parametrize("name", [r"columns=['\x'].csv", "start=2024/my label= x.csv", "a columns= b.csv"])
def test_names_of_files_come_back_as_they_were_typed(run: Run, name: str, tmp_path: Path) -> None:
    for path in (name, tmp_path / name):
        result = run("check", path)
        assert result.exit_code == 2 and str(path) in plain(result.stderr) and "--" not in result.stderr, result.output


def test_names_of_arrays_come_back_as_they_are(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", **{r"columns=['\x']": np.zeros(3), "b": np.zeros(3)})
    result = run("check", tmp_path / "two.npz")
    assert result.exit_code == 2 and r"columns=['\\x']" in plain(result.stderr), result.output


def test_what_the_system_does_not_name_is_not_quoted() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert str(in_one_line(full, "standard output")).startswith("cannot use standard output: the disk is full")
    assert str(in_one_line(OSError(errno.ENOSPC, "", "a b"))).startswith("cannot use 'a b': the disk is full")


def test_a_machine_without_a_place_for_temporary_files_is_told() -> None:
    nowhere = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/']")
    assert "set TMPDIR" in str(in_one_line(nowhere))


@pytest.mark.parametrize("module", ["sfumato", "sfumato.local"])
def test_a_closed_standard_input_is_an_empty_one(module: str, tmp_path: Path) -> None:
    protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=1, epsilon=1, participants=100, bounds=(0, 1), seed=7)
    protocol.save(tmp_path / "p.json")
    words = ["local", "report"] if module == "sfumato" else []
    command = ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-m", module, *words, str(tmp_path / "p.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error: there is no point"), done.stderr


def test_a_deleted_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert "deleted" not in str(in_one_line(missing))
    monkeypatch.chdir(gone)
    gone.rmdir()
    told = in_one_line(missing)
    assert isinstance(told, StorageError) and str(told).startswith("the current folder was deleted: change to one")
    missing.filename = "points.csv"
    assert "'points.csv'" in str(in_one_line(missing)) and "was deleted" in str(in_one_line(missing))
