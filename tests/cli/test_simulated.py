"""Collections that a curator simulates: what cannot be kept is refused before it is paid for, as releases are."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.cli.paid import longest_size
from sfumato.local.organiser import blank as blank_local
from sfumato.privacy.ledger import Ledger
from sfumato.shuffled.analyzer import blank as blank_shuffled
from sfumato.storage import AtomicFile

from .conftest import Run, plain

PEOPLE = 60
LOCAL = ("--dimension", 2, "--epsilon", 1, "--bandwidth", 0.3, "--bounds", "0,1", "--participants", PEOPLE)
SHUFFLED = ("--dimension", 2, "--epsilon", 4, "--delta", "1e-2", "--bandwidth", 0.5, "--participants", 12)
CLASSES = ("--participants", "12,13", "--classes", "a,b", "--new-key", "classes.key")


@pytest.fixture
def here(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of points and protocols, the current one."""
    monkeypatch.chdir(tmp_path)
    points = np.random.default_rng(0).uniform(size=(PEOPLE, 2))
    np.save("points.npy", points)
    Path("classes.csv").write_text("\n".join(["x,y,c", *(f"{x},{y},{'ab'[i % 2]}" for i, (x, y) in enumerate(points))]))
    for words in (
        ("local", "protocol", "-o", "local.json", *LOCAL),
        ("shuffled", "protocol", "-o", "shuffled.json", "--new-key", "one.key", *SHUFFLED),
        ("shuffled", "protocol", "-o", "classes.json", *SHUFFLED[:-2], *CLASSES),
    ):
        result = run(*words)
        assert result.exit_code == 0, result.output
    return tmp_path


RUNS: dict[str, tuple[object, ...]] = {
    "local": ("local", "simulate", "local.json", "points.npy"),
    "shuffled": ("shuffled", "simulate", "shuffled.json", "points.npy"),
    "classes": ("shuffled", "simulate", "classes.json", "classes.csv", "--columns", "x,y", "--label-column", "c"),
}


def charges() -> int:
    ledger = Ledger(os.environ["SFUMATO_LEDGER"])
    return sum(len(ledger.account(name).charges) for name in ledger.datasets)


def folder_of_the_name(name: str) -> str:
    taken = Path("out", "class-0.sfm") if name == "classes" else Path("out")
    taken.mkdir(parents=True)
    return "out"


def missing_folder(name: str) -> str:
    Path("file").touch()
    return "file/out.sfm"


def long_name(name: str) -> str:
    return "x" * 300


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("place", [folder_of_the_name, missing_folder, long_name])
def test_what_cannot_be_kept_is_not_paid_for(run: Run, here: Path, name: str, place: Callable[[str], str]) -> None:
    result = run(*RUNS[name], "-o", place(name))
    assert result.exit_code in (2, 5), result.output
    assert not charges() and not list(here.rglob("*.rescued-*"))
    assert run(*RUNS[name], "-o", "good").exit_code == 0
    assert charges() == 1


@pytest.mark.parametrize("name", RUNS)
def test_a_full_disk_is_found_before_anything_is_paid_for(
    run: Run, here: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: AtomicFile, size: int) -> None:
        assert size > 100
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(AtomicFile, "_allocate", full)
    result = run(*RUNS[name], "-o", "out")
    assert result.exit_code == 5 and "the disk is full" in plain(result.stderr)
    assert "nothing was spent" in plain(result.stderr) and not charges()


@pytest.mark.parametrize("name", RUNS)
def test_what_fails_after_the_charge_says_so(run: Run, here: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    room = sfumato.local if name == "local" else sfumato.shuffled
    monkeypatch.setattr(room.Protocol, "simulate", interrupted)
    result = run(*RUNS[name], "-o", "out")
    assert result.exit_code == 130 and "had been charged already and stays spent" in plain(result.stderr)
    assert charges() == 1 and not list(here.rglob("out*.sfm"))


@pytest.mark.parametrize("name", RUNS)
def test_what_another_run_spends_meanwhile_is_not_called_this_ones(
    run: Run, here: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: AtomicFile, size: int) -> None:
        data = os.path.realpath(str(RUNS[name][3]))
        Ledger(os.environ["SFUMATO_LEDGER"]).account(data).charge("another's", 2, neighbours="replace")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(AtomicFile, "_allocate", full)
    result = run(*RUNS[name], "-o", "out")
    assert result.exit_code == 5 and "nothing was spent" in plain(result.stderr) and charges() >= 1


@pytest.mark.parametrize("problem", [MemoryError, RuntimeError("can't start new thread")])
@pytest.mark.parametrize("name", RUNS)
def test_whatever_fails_after_the_charge_what_is_spent_is_told(
    run: Run,
    here: Path,
    name: str,
    problem: BaseException,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*given: object, **named: object) -> None:
        raise problem

    monkeypatch.setattr((sfumato.local if name == "local" else sfumato.shuffled).Protocol, "simulate", failing)
    told: list[str] = []
    monkeypatch.setattr("sfumato.cli.paid.complain", told.append)
    with suppress(RuntimeError):  # which is a mistake of ours, and is raised as it is
        assert run(*RUNS[name], "-o", "out").exit_code != 0
    assert charges() == 1 and len(told) == 1 and "had been charged already and stays spent" in told[0]


def test_memory_that_ends_at_one_class_leaves_the_others(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, written = sfumato.Release.to_bytes, list[sfumato.Release]()

    def failing(release: sfumato.Release) -> bytes:
        written.append(release)
        if len(written) == 3:  # the first two are what the disk is asked to take
            raise MemoryError
        return whole(release)

    monkeypatch.setattr(sfumato.Release, "to_bytes", failing)
    result = run(*RUNS["classes"], "-o", "out")
    assert result.exit_code == 5
    assert "no memory left to write 'out/class-0.sfm'; what was paid for it stays spent" in plain(result.stderr)
    assert os.listdir("out") == ["class-1.sfm"] and charges() == 1


@pytest.mark.parametrize("mechanism", ["dm", "pm", "sw", "gi"])
def test_a_release_of_every_report_is_reserved_in_full(
    run: Run, here: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its length grows with the people."""
    reserved, reserve = list[int](), AtomicFile.reserve
    monkeypatch.setattr(AtomicFile, "reserve", lambda file, size: (reserved.append(size), reserve(file, size))[1])
    words = ("--radius", 0.3) if mechanism == "gi" else ()
    assert run("local", "protocol", "-o", "all.json", *LOCAL, "--mechanism", mechanism, *words).exit_code == 0
    assert run("local", "simulate", "all.json", "points.npy", "-o", "out.sfm", "--no-ledger").exit_code == 0
    assert reserved[-1] >= Path("out.sfm").stat().st_size


def test_rows_that_cannot_be_read_are_not_paid_for(run: Run, here: Path) -> None:
    rows = np.random.default_rng(1).uniform(size=(200_000, 2)).tolist()
    whole = gzip.compress("\n".join(["x,y", *(f"{x},{y}" for x, y in rows)]).encode(), 1)
    Path("cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    result = run("local", "simulate", "local.json", "cut.csv.gz", "-o", "out.sfm")
    assert result.exit_code == 2 and "Truncated" in plain(result.stderr), result.output
    assert not charges()


@pytest.mark.parametrize("name", ["local", "shuffled"])
def test_no_summary_follows_a_release_into_its_file(run: Run, here: Path, name: str) -> None:
    """Charged or not: what the command says would be taken for a part of it."""
    for more in ((), ("--no-ledger",)):
        result = run(*RUNS[name], "-o", "/dev/stdout", *more)
        assert result.exit_code == 2 and "pass the path of a file" in plain(result.stderr) and not charges()


def test_classes_that_a_device_would_swallow_are_not_paid_for(run: Run, here: Path) -> None:
    Path("out").mkdir()
    Path("out", "class-1.sfm").symlink_to("/dev/null")
    result = run(*RUNS["classes"], "-o", "out")
    assert result.exit_code == 2 and "keeps nothing" in plain(result.stderr) and not charges()


def test_more_classes_than_files_may_be_open_are_released(run: Run, here: Path) -> None:
    resource = pytest.importorskip("resource")
    classes, people = [f"k{place}" for place in range(60)], 12
    rows = [f"0.{i % 7},0.{i % 5},{name}" for name in classes for i in range(people)]
    Path("many.csv").write_text("\n".join(["x,y,c", *rows]))
    words = ("--participants", ",".join(["12"] * 60), "--classes", ",".join(classes), "--new-key", "many.key")
    assert run("shuffled", "protocol", "-o", "many.json", *SHUFFLED[:-2], *words).exit_code == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 40, hard))
    try:
        result = run(
            "shuffled", "simulate", "many.json", "many.csv", "--columns", "x,y", "--label-column", "c", "-o", "all"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.exit_code == 0, result.output
    assert len(os.listdir("all")) == 60


def test_a_name_that_is_taken_is_refused_before_anything_is_paid_for(run: Run, here: Path) -> None:
    Path("out.sfm").write_text("another's")
    result = run(*RUNS["local"], "-o", "out.sfm")
    assert result.exit_code == 2 and "exists already" in plain(result.stderr) and not charges()
    assert run(*RUNS["local"], "-o", "out.sfm", "--force").exit_code == 0
    assert sfumato.load("out.sfm").guarantee.private and charges() == 1


def test_no_release_is_longer_than_what_was_reserved(here: Path) -> None:
    points = np.load("points.npy")
    local = sfumato.local.Protocol.load("local.json")
    shuffled = sfumato.shuffled.Protocol.load("shuffled.json")
    assert len(local.simulate(points).to_bytes()) <= longest_size(blank_local(local, PEOPLE))
    assert len(shuffled.simulate(points).to_bytes()) <= longest_size(blank_shuffled(shuffled))
