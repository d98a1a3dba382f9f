"""Interrupts, kills and full disks: no half file, and never a release whose spending the ledger does not show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
import sfumato.central.curator
import sfumato.storage
from sfumato.errors import StorageError
from sfumato.privacy.ledger import Ledger

from .conftest import QUICK, Run, plain

COUNT = "1/20"  # what the count alone is charged
NEEDED = ("--bandwidth", "1", "--epsilon", "1", *QUICK)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Take interrupts also where the tests were started in the background, which ignores them; children do too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `crashing.py` saw."""
    folder = tmp_path_factory.mktemp("crashes")
    np.save(folder / "points.npy", np.random.default_rng(1).normal(size=(300, 2)))
    script = Path(__file__).with_name("crashing.py")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("moment", ["killed before", "killed after"])
def test_a_kill_at_any_write_leaves_no_release_that_the_ledger_does_not_show(
    crashes: dict[str, Any], moment: str
) -> None:
    *killed, whole = crashes[moment]
    assert whole["code"] == 0, whole["said"]
    assert (whole["release"], whole["spent"], whole["files"]) == (True, "1", ["out.sfm"])
    # The reservation, the ledger's write, sync and renaming, and the release's own: fewer would mean calls are missed.
    assert len(killed) >= 7
    for run in killed:
        assert run["code"] == 9
        assert run["problem"] is None
        assert run["spent"] == "1" if run["release"] else run["spent"] in ("0", COUNT, "1")
        assert all(name == "out.sfm" or name.startswith(".sfumato-") for name in run["files"])
    # Every stage was hit: before the charges, between them, between the last one and the release.
    stages = {(run["spent"], run["release"]) for run in killed}
    assert {("0", False), (COUNT, False), ("1", False)} <= stages


def test_a_file_size_limit_is_found_before_the_charge(crashes: dict[str, Any]) -> None:
    run = crashes["short of disk"]
    assert run["code"] == 5
    assert "larger than allowed" in plain(run["said"])
    assert (run["release"], run["ledger_file"], run["files"]) == (False, False, [])


def interrupted_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **keywords: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sfumato.engines.Threads, "sum", interrupt)


def interrupted_write(monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGINT) -> None:
    genuine = sfumato.Release.to_bytes

    def interrupt(release: sfumato.Release) -> bytes:
        if release.count.value < 10**18:  # not the draft that tells the size
            signal.raise_signal(number)
        return genuine(release)

    monkeypatch.setattr(sfumato.Release, "to_bytes", interrupt)


@pytest.mark.parametrize(
    ("interrupt", "message", "spent", "written"),
    [
        (interrupted_sum, "interrupted; nothing was written and nothing was spent", 0, False),
        (interrupted_write, "interrupted; the release had been paid for and was written", 1, True),
    ],
)
def test_an_interrupt_says_what_was_written_and_spent(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch,
    interrupt: Callable[[pytest.MonkeyPatch], None], message: str, spent: int, written: bool,
) -> None:  # fmt: skip
    interrupt(monkeypatch)
    folder = tmp_path / "out"
    folder.mkdir()
    result = run("release", files["csv"], "-o", folder / "out.sfm", *NEEDED, "--dataset", "survey")
    assert result.exit_code == 130
    assert message in plain(result.stderr)
    assert Ledger(ledger_path).account("survey").spent[0] == spent
    assert [path.name for path in folder.iterdir()] == (["out.sfm"] if written else [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_waits_for_what_is_paid_for(
    run: Run, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A machine that shuts down and a terminal that closes are told after the release is on disk, and as before."""
    target, found = tmp_path / "out.sfm", []

    def end(number: int, frame: object) -> None:
        found.append((number, target.exists()))

    interrupted_write(monkeypatch, number)
    before = signal.signal(number, end)
    try:
        result = run("release", files["csv"], "-o", target, *NEEDED, "--dataset", "survey")
        assert signal.getsignal(number) is end
    finally:
        signal.signal(number, before)
    assert found[0] == (number, True)
    assert result.exit_code == 0 and sfumato.load(target).guarantee.epsilon == 1


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), StorageError("cannot write: the disk is full")])
def test_a_loss_after_the_charge_is_said(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch,
    fault: BaseException,
) -> None:  # fmt: skip
    charge = sfumato.privacy.ledger.Account.charge

    def charge_and_fail(account: Any, mechanism: str, *arguments: Any, **keywords: Any) -> None:
        charge(account, mechanism, *arguments, **keywords)
        if mechanism != "count":
            raise fault

    monkeypatch.setattr(sfumato.privacy.ledger.Account, "charge", charge_and_fail)
    result = run("release", files["csv"], "-o", tmp_path / "out.sfm", *NEEDED, "--dataset", "survey")
    assert result.exit_code in (5, 130)
    assert "epsilon = 1, delta = 0.0 had been charged already and stays spent" in plain(result.stderr)
    assert Ledger(ledger_path).account("survey").spent[0] == 1
    assert not (tmp_path / "out.sfm").exists()


def test_ctrl_c_in_a_real_process_leaves_nothing(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(3_000_000, 2)).astype(np.float32)
    np.save(tmp_path / "many.npy", rows)
    out, ledger = tmp_path / "out", tmp_path / "ledger" / "ledger.jsonl"
    out.mkdir()
    flags = [
        "--bandwidth",
        "1",
        "--epsilon",
        "1",
        "--n-hint",
        "9",
        "--method",
        "lsq-rff",
        "--option",
        "n_features=4000",
    ]
    command = [
        Path(sys.executable).with_name("sfumato"),
        "release",
        tmp_path / "many.npy",
        "-o",
        out / "out.sfm",
        *flags,
    ]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"SFUMATO_LEDGER": str(ledger)},
    )
    while not any(out.iterdir()) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)  # the space is reserved; by now the sum is running
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert "interrupted; nothing was written and nothing was spent" in plain(stderr)
    assert "Traceback" not in stderr
    assert stdout == ""
    assert list(out.iterdir()) == []
    assert not ledger.exists()


def test_a_name_that_is_taken_while_the_sum_runs_loses_nothing(
    run: Run, files: dict[str, Path], tmp_path: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs may begin with one new name: what the second has paid for goes beside, and the first's stays."""
    folder, charge = tmp_path / "out", sfumato.privacy.ledger.Account.charge
    folder.mkdir()

    def charge_while_another_writes(account: Any, *arguments: Any, **keywords: Any) -> None:
        charge(account, *arguments, **keywords)
        (folder / "out.sfm").write_bytes(b"another run's")

    monkeypatch.setattr(sfumato.privacy.ledger.Account, "charge", charge_while_another_writes)
    result = run("release", files["csv"], "-o", folder / "out.sfm", *NEEDED, "--dataset", "survey")
    assert result.exit_code == 5 and "had been paid for and was kept in" in plain(result.stderr)
    assert Ledger(ledger_path).account("survey").spent[0] == 1
    (kept,) = folder.glob("out.sfm.rescued-*")
    assert sfumato.load(kept).guarantee.epsilon == 1
    assert (folder / "out.sfm").read_bytes() == b"another run's"
