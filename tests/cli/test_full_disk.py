"""Full disks in every command that writes: an error that says what was kept, and nothing half written."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import sfumato
from sfumato.cli import console
from sfumato.privacy.ledger import Ledger
from sfumato.storage import AtomicFile

from .conftest import QUICK, Run, plain

NEEDED = ("--bandwidth", "1", "--epsilon", "1", *QUICK)
LOCAL = ("--dimension", 2, "--epsilon", 4, "--bandwidth", 1, "--bounds", "-4,4", "--participants", 1000)
SHUFFLED = ("--dimension", 2, "--epsilon", 4, "--delta", "1e-2", "--bandwidth", 1, "--participants", 12)


@contextmanager
def short_of_disk(size: int = 40) -> Iterator[None]:
    """Let this process write no file of more than `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python does not notice that what it keeps of a module is cut off, and could import it nowhere afterwards.
    with mock.patch.object(sys, "dont_write_bytecode", True):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def world(run: Run, files: dict[str, Path], released: Path, tmp_path: Path) -> dict[str, list[object]]:
    """Every command that writes, without the file to write."""
    data, folder = files["csv"], tmp_path / "world"
    folder.mkdir()
    rows = np.column_stack([np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2])
    labelled, few = folder / "labelled.csv", folder / "few.csv"
    np.savetxt(labelled, rows, delimiter=",", header="x,y,label", comments="", fmt="%.3f,%.3f,%d")
    np.savetxt(few, rows[:12, :2], delimiter=",", header="x,y", comments="", fmt="%.3f")
    local, reports, shuffled = folder / "local.json", folder / "reports.bin", folder / "shuffled.json"
    columns = ("--label-column", "label", "--classes", "0,1", "--columns", "x,y", "--kernel", "gaussian")
    fit: list[object] = ["classify", "fit", labelled, *columns, *NEEDED, "--n-hint", 60]
    steps: list[list[object]] = [
        [*fit, "--no-ledger", "-o", folder / "classes.sfm"],
        ["local", "protocol", *LOCAL, "-o", local],
        ["local", "report", local, "--data", data, "-o", reports],
        ["shuffled", "protocol", *SHUFFLED, "--new-key", folder / "key", "-o", shuffled],
        ["shuffled", "messages", shuffled, "--data", few, "-o", folder / "sent"],
        ["shuffled", "shuffle", shuffled, folder / "sent", "--state", folder / "inbox", "-o", folder / "batch"],
    ]
    for step in steps:
        result = run(*step)
        assert result.exit_code == 0, (step, result.output)
    drawn = ("--size", 8, "--extent", "-3,3;-3,3")
    return {
        "out.sfm": ["release", data, *NEEDED],
        "out-classes.sfm": fit,
        "predicted.csv": ["classify", "predict", folder / "classes.sfm", few],
        "answers.csv": ["query", released, data],
        "answers.parquet": ["query", released, data],
        "answers.npy": ["query", released, data],
        "map.png": ["map", released, *drawn],
        "map.html": ["map", released, *drawn],
        "map.csv": ["map", released, *drawn],
        "sample.csv": ["sample", released, "--extent", "-3,3;-3,3"],
        "sample.npy": ["sample", released, "--extent", "-3,3;-3,3"],
        "selected.csv": ["select", released, data, "-k", 50],
        "protocol.json": ["local", "protocol", *LOCAL],
        "reports.bin": ["local", "report", local, "--data", data],
        "collected.sfm": ["local", "collect", local, reports],
        "simulated.sfm": ["local", "simulate", local, data],
        "shuffled.json": ["shuffled", "protocol", *SHUFFLED],
        "sent": ["shuffled", "messages", shuffled, "--data", few],
        "analyzed.sfm": ["shuffled", "analyze", shuffled, folder / "batch", "--key", folder / "key"],
        "shuffled.sfm": ["shuffled", "simulate", shuffled, few],
        "demo": ["demo"],
    }


def test_every_command_that_writes_says_so_and_leaves_nothing(
    run: Run, world: dict[str, list[object]], tmp_path: Path, ledger_path: Path
) -> None:
    for name, command in world.items():
        out = tmp_path / "written" / name
        out.parent.mkdir(exist_ok=True)
        with short_of_disk():
            result = run(*command, "-o", out)
        assert result.exit_code == 5, (name, result.output)
        assert "error: cannot" in plain(result.stderr), (name, result.stderr)
        left = [path for path in out.parent.rglob("*") if path.is_file() and path.stat().st_size > 0]
        assert left == [], name
        assert not list(tmp_path.rglob(".sfumato-*.tmp")), name
    assert not ledger_path.exists() or Ledger(ledger_path).datasets == ()


def test_no_command_writes_over_what_it_reads(run: Run, world: dict[str, list[object]]) -> None:
    for name, command in world.items():
        for path in [word for word in command if isinstance(word, Path) and word.is_file()]:
            before, hard = path.read_bytes(), path.parent / f"hard{path.suffix}"
            hard.hardlink_to(path)
            force = [] if name in ("sent", "reports.bin") else ["--force"]
            for target in (path, hard):
                result = run(*command, "-o", target, *force)  # where the ending decides, a wrong one is refused too
                assert result.exit_code == 2, (name, target, result.output)
                assert path.read_bytes() == before
            hard.unlink()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_what_a_link_in_a_folder_leads_to_is_not_written_over(
    link: Callable[[Path, Path], None], run: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    folder, real = tmp_path / "folder" / "deep", files["csv"]
    folder.mkdir(parents=True)
    link(real, folder / "a.csv")
    before = real.read_bytes()
    for data in (tmp_path / "folder", f"{folder}/*.csv"):
        result = run("release", data, "-o", real, *NEEDED, "--force", "--no-ledger")
        assert result.exit_code == 2 and "stays as it is" in plain(result.stderr), result.output
        assert real.read_bytes() == before


def test_the_values_of_a_category_are_not_written_over(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    values = tmp_path / "kinds.png"
    values.write_text("a\nb\n")
    given = ("--category", f"kind={values}", *NEEDED)
    for command in (
        ("release", files["csv"], "-o", values),
        ("sum", files["csv"], "-o", values, "--feature-seed", 1),
        ("plan", "--columns", "x,kind", "--plot", values),
    ):
        result = run(*command, *given, "--force")
        assert result.exit_code == 2 and "stays as it is" in plain(result.stderr), result.output
        assert values.read_text() == "a\nb\n"


@contextmanager
def standard_input(path: Path) -> Iterator[None]:
    """Standard input as a shell opens it for `< path`."""
    kept, opened = os.dup(0), os.open(path, os.O_RDONLY)
    try:
        os.dup2(opened, 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(opened)


def test_what_the_shell_opened_as_standard_input_is_not_written_over(
    run: Run, world: dict[str, list[object]], released: Path, tmp_path: Path
) -> None:
    local, shuffled = world["reports.bin"][2], world["shuffled.sfm"][2]
    commands: dict[str, list[object]] = {
        "queries.csv": ["query", released, "-", "--force"],
        "reports": ["local", "collect", local, "-", "--force"],
        "point": ["local", "report", local],
        "own point": ["shuffled", "messages", shuffled],
    }
    for name, command in commands.items():
        path = tmp_path / name
        path.write_text("lon,lat\n0,1\n")
        (tmp_path / "link.csv").unlink(missing_ok=True)
        (tmp_path / "link.csv").hardlink_to(path)
        for target in (path, tmp_path / "link.csv"):
            with standard_input(path):
                result = run(*command, "-o", target)
            assert result.exit_code == 2 and "stays as it is" in plain(result.stderr), (name, result.output)
            assert path.read_text() == "lon,lat\n0,1\n"
        with standard_input(path):  # another file is none of its inputs
            result = run("query", released, "-", "-o", tmp_path / f"{name}.answers.csv", stdin=path.read_text())
        assert result.exit_code == 0, result.output


def test_points_near_which_to_look_are_not_written_over(run: Run, released: Path, tmp_path: Path) -> None:
    points = tmp_path / "near.csv"
    points.write_text("lon,lat\n0,1\n")
    result = run("sample", released, "-o", points, "--start", points, "-k", 20, "--force")
    assert result.exit_code == 2 and "stays as it is" in plain(result.stderr), result.output
    assert points.read_text() == "lon,lat\n0,1\n"


def test_a_release_that_was_paid_for_is_kept_elsewhere(
    run: Run, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = AtomicFile._commit

    def full(self: AtomicFile) -> None:
        if self.path.endswith("out.sfm"):
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(self)

    monkeypatch.setattr(AtomicFile, "_commit", full)
    result = run("release", files["csv"], "-o", tmp_path / "out.sfm", *NEEDED)
    assert result.exit_code == 5 and "the disk is full" in plain(result.stderr)
    assert "it had been paid for and was kept in" in plain(result.stderr)
    (kept,) = tmp_path.glob("out.sfm.rescued-*")
    assert sfumato.load(kept).guarantee.private and kept.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "out.sfm").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_report_that_was_paid_for_is_printed(run: Run, tmp_path: Path) -> None:
    protocol, account = tmp_path / "p.json", tmp_path / "account.json"
    assert run("local", "protocol", *LOCAL, "-o", protocol).exit_code == 0
    result = run("local", "report", protocol, "--ledger", account, "-o", "/dev/full", stdin="0 1")
    assert result.exit_code == 5 and "was printed in hexadecimal instead" in plain(result.stderr)
    assert bytes.fromhex(result.stdout.strip())


@pytest.fixture
def device(run: Run, tmp_path: Path) -> Path:
    """A folder with a protocol and a point."""
    assert run("local", "protocol", *LOCAL, "-o", tmp_path / "p.json").exit_code == 0
    (tmp_path / "point.txt").write_text("0 1")
    return tmp_path


def reported(folder: Path, words: list[str], stdout: str) -> subprocess.CompletedProcess[str]:
    """Report a point with an account, with standard output closed or sent to a file."""
    redirected = ">&-" if stdout == "closed" else f"> {stdout}"
    report = [sys.executable, "-m", *words, "p.json", "--point", "point.txt", "--ledger", "account.json"]
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", *report], cwd=folder, stderr=subprocess.PIPE, text=True, check=False
    )


COMMAND, DEVICE = ["sfumato", "local", "report"], ["sfumato.local"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [COMMAND, [*COMMAND, "-o", "/dev/full"], DEVICE], ids=" ".join)
def test_a_paid_report_that_no_stream_takes_is_kept(words: list[str], device: Path) -> None:
    done = reported(device, words, "/dev/full")
    assert done.returncode == 5 and "the disk is full" in done.stderr, done.stderr
    assert "had been paid for and was kept in" in done.stderr and "Traceback" not in done.stderr
    (kept,) = device.glob("report.hex.rescued-*")
    assert str(kept) in done.stderr and bytes.fromhex(kept.read_text())


@pytest.mark.parametrize("words", [COMMAND, DEVICE], ids=" ".join)
def test_nothing_is_spent_without_a_standard_output(words: list[str], device: Path) -> None:
    done = reported(device, words, "closed")
    assert done.returncode == 5 and "standard output is closed" in done.stderr and "spent" in done.stderr
    assert not (device / "account.json").exists()


def test_no_bandwidth_is_bought_without_a_standard_output(files: dict[str, Path], ledger_path: Path) -> None:
    words = ["bandwidth", str(files["csv"]), "--private", "--epsilon", "1", "--n-hint", "500", "--bounds", "-9,9"]
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "sfumato", *words]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 5 and "standard output is closed" in done.stderr and not ledger_path.exists()


def test_a_key_whose_protocol_cannot_be_written_does_not_stay(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, key = AtomicFile._commit, tmp_path / "analyzer.key"
    command = ("shuffled", "protocol", *SHUFFLED, "--new-key", key, "-o", tmp_path / "p.json")

    def full(self: AtomicFile) -> None:
        if self.path.endswith("p.json"):
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(self)

    with monkeypatch.context() as patched:
        patched.setattr(AtomicFile, "_commit", full)
        assert run(*command).exit_code == 5
    assert not list(tmp_path.glob("*.key")) and run(*command).exit_code == 0
    before = key.read_bytes()
    assert run(*command, "--force").exit_code == 2 and key.read_bytes() == before  # another's key is not ours to remove


def test_a_key_stays_where_its_protocol_got_its_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may fail after that, and devices could seal messages that nobody opens."""
    commit, key = AtomicFile._commit, tmp_path / "analyzer.key"

    def fails_late(self: AtomicFile) -> None:
        commit(self)
        if self.path.endswith("p.json"):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(AtomicFile, "_commit", fails_late)
    result = run("shuffled", "protocol", *SHUFFLED, "--new-key", key, "-o", tmp_path / "p.json")
    assert result.exit_code == 5 and (tmp_path / "p.json").exists() and key.exists()


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_messages_of_some_people_do_not_stay(
    failure: BaseException, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be taken for other people beside those of the next run; files of others are not touched."""
    protocol, sent = tmp_path / "shuffled.json", tmp_path / "sent"
    points = tmp_path / "points.csv"
    points.write_text("x,y\n" + "0,1\n" * 12)
    assert run("shuffled", "protocol", *SHUFFLED, "--new-key", tmp_path / "key", "-o", protocol).exit_code == 0
    command = ("shuffled", "messages", protocol, "--data", points, "-o", sent)
    assert run(*command).exit_code == 0
    before = sorted(sent.iterdir())
    commit, left = AtomicFile._commit, iter(range(5))

    def fills_up(self: AtomicFile) -> None:
        if next(left, None) is None:
            raise failure
        commit(self)

    monkeypatch.setattr(AtomicFile, "_commit", fills_up)
    result = run(*command)
    assert result.exit_code == (5 if isinstance(failure, OSError) else 130), result.output
    assert sorted(sent.iterdir()) == before and len(before) == 12


def test_messages_that_cannot_be_removed_are_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol, sent = tmp_path / "shuffled.json", tmp_path / "sent"
    points = tmp_path / "points.csv"
    points.write_text("x,y\n" + "0,1\n" * 12)
    assert run("shuffled", "protocol", *SHUFFLED, "--new-key", tmp_path / "key", "-o", protocol).exit_code == 0
    commit, left = AtomicFile._commit, iter(range(5))

    def turns_read_only(self: AtomicFile, missing_ok: bool = False) -> None:
        if next(left, None) is None:
            monkeypatch.setattr(Path, "unlink", turns_read_only)
            raise OSError(errno.EROFS, "Read-only file system")
        commit(self)

    monkeypatch.setattr(AtomicFile, "_commit", turns_read_only)
    result = run("shuffled", "messages", protocol, "--data", points, "-o", sent)
    told = plain(result.stderr)
    assert result.exit_code == 5 and "messages of 6 people could not be removed" in told and "read-only" in told


def test_what_no_ledger_paid_for_is_kept_and_not_called_paid(
    run: Run, device: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = AtomicFile._commit

    def full(self: AtomicFile) -> None:
        if self.path.endswith("out.sfm"):
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(self)

    monkeypatch.setattr(AtomicFile, "_commit", full)
    result = run("local", "simulate", device / "p.json", files["csv"], "-o", device / "out.sfm", "--no-ledger")
    assert result.exit_code == 5 and "disk; it was kept in" in plain(result.stderr)
    (kept,) = device.glob("out.sfm.rescued-*")
    assert sfumato.load(kept)


def test_what_was_done_is_told_where_standard_output_is_full(
    run: Run, files: dict[str, Path], released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads only that it failed runs it again, and pays again."""

    def full(pairs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(console, "facts", full)
    commands: dict[str, list[object]] = {
        "out.sfm": ["release", files["csv"], *NEEDED],
        "p.json": ["local", "protocol", *LOCAL],
        "answers.csv": ["query", released, files["csv"]],
        "map.csv": ["map", released, "--size", 8, "--extent", "-3,3;-3,3"],
    }
    for name, command in commands.items():
        result = run(*command, "-o", tmp_path / name)
        told = plain(result.stderr)
        assert result.exit_code == 5 and "standard output" in told and "the disk is full" in told, (name, told)
        assert "the work itself is done, and stays" in told and str(tmp_path / name) in told, (name, told)
        assert (tmp_path / name).exists() and ("has spent epsilon = 1" in told) == (name == "out.sfm")
    told = plain(run("inspect", released).stderr)
    assert "standard output" in told and "the work itself" not in told  # there was nothing to be done


def test_a_release_whose_map_does_not_fit_is_told(
    run: Run, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = AtomicFile._commit

    def full(self: AtomicFile) -> None:
        if self.path.endswith(".html"):
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(self)

    monkeypatch.setattr(AtomicFile, "_commit", full)
    words = ("--bounds", "-4,4", "--n-hint", 500, "--epsilon", 1, "--yes", "-o", tmp_path / "out.sfm")
    result = run("start", files["csv"], *words)
    assert result.exit_code == 5 and f"the release is in '{tmp_path / 'out.sfm'}'" in plain(result.stderr)
    assert sfumato.load(tmp_path / "out.sfm").guarantee.private


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
def test_a_map_that_is_written_is_not_to_be_drawn_later(
    run: Run,
    files: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    force: tuple[str, ...],
) -> None:
    """Only standard output took nothing more; where its reader is gone, the run ends quietly."""
    facts, page = console.facts, tmp_path / "out.html"

    def full(pairs: list[tuple[str, str]]) -> None:
        if pairs[0][0] == "map":
            raise OSError(number, os.strerror(number))
        facts(pairs)

    monkeypatch.setattr(console, "facts", full)
    if force:
        page.write_text("old")
    words = ("--bounds", "-4,4", "--n-hint", 500, "--epsilon", 1, "--yes", "-o", tmp_path / "out.sfm", *force)
    result = run("start", files["csv"], *words)
    told = plain(result.stderr)
    if number == errno.EPIPE:
        assert result.exit_code == 1 and "error" not in told, result.output  # as every filter ends
    else:
        assert result.exit_code == 5 and "the work itself is done, and stays" in told and "draw it later" not in told
    assert page.stat().st_size > 1000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_two_full_streams_leave_the_exit_code() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "sfumato", "--help"], stdout=full, stderr=full, check=False)
    assert done.returncode == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("plan", "--help"), ("ledger", "show")], ids=" ".join)
def test_a_full_standard_output_is_told(words: tuple[str, ...], tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.account("mine").set_budget(1)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sfumato", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "SFUMATO_LEDGER": str(tmp_path / "ledger.jsonl")},
            check=False,
        )
    assert done.returncode == 5, done.stderr
    assert "standard output" in done.stderr and "the disk is full" in done.stderr
    assert "'" not in done.stderr  # what is no path is not quoted like one
    assert "temporary file" not in done.stderr or not words[0].startswith("-")
    assert len(done.stderr.splitlines()) == 1, done.stderr
