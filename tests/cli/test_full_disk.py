"""Full disks in every command that writes: an error that says what was kept, and nothing half written."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sfumato
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
