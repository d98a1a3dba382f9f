"""The state of a collector: a kill or a full disk at any moment, damage, and folders that are not ours."""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfumato.errors import InputError, SfumatoError, StorageError
from sfumato.local import Protocol, checkpoint, collector
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.collector import Collector

pytestmark = pytest.mark.once

MADE = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=3, participants=300, bounds=(0, 1), seed=3)
DEVICE: Any = MADE.server().device
ROWS_EACH: int = DEVICE.rows_each
CLIENT = Client(MADE.document, coins=Coins.seeded(1))
REPORTS = [CLIENT.report([0.25, 0.5]) for _ in range(60)]
# Two blocks of 25 and a rest, with repetitions and a conflict that reaches back into an earlier block.
ITEMS = [*REPORTS[:40], *REPORTS[:5], REPORTS[2][:10] + REPORTS[3][10:], *REPORTS[40:]]
CALLS = ("open", "write", "fsync", "replace", "link", "unlink", "ftruncate", "close", "mkdir")


def state_of(one: Collector) -> tuple[Any, ...]:
    return one.reports, one.rejected, one._tally.integers().tolist()


@pytest.fixture
def reports_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(collector, "BLOCK_REPORTS", 25)
    path = tmp_path / "reports.bin"
    path.write_bytes(b"".join(ITEMS))
    return path


@pytest.fixture
def undisturbed(tmp_path: Path, reports_file: Path) -> tuple[Any, ...]:
    one = MADE.collector(tmp_path / "undisturbed")
    one.add(reports_file)
    return state_of(one)


@contextmanager
def disturbed(number: int, disturb: Callable[[], None]) -> Iterator[list[int]]:
    """Call `disturb` before the system call of that number, among those that change a disk; yields what is left."""
    left = [number]

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                disturb()
            return function(*arguments, **keywords)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrapped(getattr(os, name)))
        gc.disable()  # no collector of an earlier test is to be closed just here
        try:
            yield left
        finally:
            gc.enable()


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full() -> None:
    raise OSError(errno.ENOSPC, "no space")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_call_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, reports_file: Path, undisturbed: tuple[Any, ...]
) -> None:
    for number in range(1, 1000):
        folder = tmp_path / f"state-{number}"
        child = os.fork()
        if child == 0:
            with disturbed(number, kill):
                MADE.collector(folder).add(reports_file)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        with MADE.collector(folder) as one:
            one.add(reports_file)
            assert state_of(one) == undisturbed, number
        names = {path.name for path in folder.iterdir()}
        assert names == {"state.json", "sfumato-collector.lock", *(run.name for run in one._progress.seen.runs)}
        if not killed:
            break
    assert 30 < number < 999  # it went through all calls


@pytest.mark.parametrize("reopened", [False, True])
def test_a_full_disk_at_any_call_is_an_error_and_can_be_tried_again(
    tmp_path: Path, reports_file: Path, undisturbed: tuple[Any, ...], reopened: bool
) -> None:
    failed = 0
    for number in range(1, 1000):
        folder = tmp_path / f"state-{number}"
        one = MADE.collector(folder)
        with disturbed(number, full) as left:
            said = ""
            try:
                one.add(reports_file)
            except StorageError as problem:
                said = str(problem)
        if said:
            failed += 1
            assert "the disk is full" in said and f"still has the {one.reports} reports" in said
            assert one.reports * ROWS_EACH == sum(state_of(one)[2])
        if reopened:
            one.close()
            one = MADE.collector(folder)
        one.add(reports_file)
        assert state_of(one) == undisturbed, number
        one.close()
        with MADE.collector(folder) as again:
            assert state_of(again) == undisturbed
        if left[0] > 0:
            break
    assert failed > 20 and number < 999


def test_merging_on_a_full_disk_can_be_tried_again(tmp_path: Path) -> None:
    whole = MADE.collector(tmp_path / "whole")
    whole.add(ITEMS)
    for number in range(1, 1000):
        first, second = MADE.collector(tmp_path / f"first-{number}"), MADE.collector(tmp_path / f"second-{number}")
        first.add(ITEMS[:30])
        second.add(ITEMS[30:])
        with disturbed(number, full) as left:
            try:
                first.merge(second)
            except StorageError:
                assert first.reports == 30
                first.merge(second)
        assert state_of(first) == state_of(whole), number
        if left[0] > 0:
            break
    assert 5 < number < 999


def test_a_limit_on_the_size_of_files_is_an_error(tmp_path: Path) -> None:
    client = MADE.client()
    reports = [client.report([0.5, 0.5]) for _ in range(3000)]
    one = MADE.collector(tmp_path / "state")
    one.add(reports[:100])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(StorageError, match="still has the 100 reports of before"):
            one.add(reports)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert one.reports == 100
    receipt = one.add(reports)
    assert (receipt.accepted, receipt.rejected) == (2900, {"duplicate": 100})
    assert sum(state_of(one)[2]) == 3000 * ROWS_EACH
    one.close()
    assert state_of(MADE.collector(tmp_path / "state")) == state_of(one)


def test_what_is_in_a_temporary_folder_is_not_called_kept() -> None:
    """It goes with the collector, and a command line has none of it when it says so."""
    one = MADE.collector()
    one.add(REPORTS[:10])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(StorageError, match="nothing of what was read is kept.*--state FOLDER.*TMPDIR") as caught:
            one.add(REPORTS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "nothing is lost" not in str(caught.value) and caught.value.errno == errno.EFBIG
    assert "Until then the collector still has the 10 reports of before" in str(caught.value)
    assert one.reports == 10 and one.add(REPORTS).accepted == len(REPORTS) - 10


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    state, random = tmp_path / "state", Random(1)
    for part in (ITEMS[:40], ITEMS[40:]):
        with MADE.collector(state) as one:
            one.add(part)
    for path in state.iterdir():
        whole = path.read_bytes()
        places = [0, len(whole) - 1, *(random.randrange(len(whole)) for _ in range(40))] if whole else []
        flips = [whole[:i] + bytes([whole[i] ^ 1 << random.randrange(8)]) + whole[i + 1 :] for i in places]
        for content in [*flips, *(whole[:place] for place in places), *([whole + b"0"] if whole else [])]:
            path.write_bytes(content)
            with pytest.raises(InputError, match=r"damaged.* lost with it.*restore the folder.*collect the files"):
                MADE.collector(state)
        path.write_bytes(whole)
    assert MADE.collector(state).reports == one.reports
    next(state.glob("*.reports")).unlink()
    with pytest.raises(InputError, match="missing or damaged"):
        MADE.collector(state)


def test_a_lost_state_is_told_and_its_reports_stay(tmp_path: Path) -> None:
    with MADE.collector(tmp_path) as one:
        one.add(REPORTS)
    state = (tmp_path / "state.json").rename(tmp_path.with_suffix(".kept"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="state.json' is missing.*Nothing was changed"):
        MADE.collector(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    state.rename(tmp_path / "state.json")
    with MADE.collector(tmp_path) as one:
        assert one.reports == len(REPORTS)


def test_forged_states_raise_nothing_else(tmp_path: Path) -> None:
    """Whatever stands in a state whose checksum fits, only our own errors come out."""
    state = tmp_path / "state"
    with MADE.collector(state) as one:
        one.add(ITEMS)
    path = state / "state.json"
    whole = json.loads(path.read_bytes())
    del whole["sha256"]
    odd: list[Any] = [None, -1, 1.5, "x", [], {}, [None], [[]], {"a": 1}, [{"name": "../x"}], True, 10**30, "\0"]
    forged = [{**whole, key: value} for key in whole for value in odd]
    forged += [{**whole, "runs": [{**whole["runs"][0], key: value}]} for key in whole["runs"][0] for value in odd]
    place = {"name": "/x", "offset": 0, "tail": ""}
    forged += [{**whole, "places": [{**place, key: value}]} for key in place for value in odd]
    contents = [checkpoint._canonical({**one, "sha256": checkpoint._checksum(one)}) for one in forged]
    for content in [*contents, b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"1", b'{"sha256": 1}', b"9" * 10_000]:
        path.write_bytes(content)
        try:
            with MADE.collector(state) as one:
                one.add(REPORTS[:3])
                one.release()
        except SfumatoError:
            pass
        assert len(list(state.glob("*.reports"))) >= 1


@pytest.mark.parametrize("name", ["thesis.txt", "state.json", "lock", "0123456789abcdef.reports", "000000001.ids.npy"])
def test_a_folder_with_other_files_is_refused_untouched(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError, match="nothing in it was touched"):
        MADE.collector(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "precious"}


def test_other_files_in_our_folder_are_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with MADE.collector(state) as one:
        one.add(REPORTS[:10])
    names = ["thesis.txt", "1.counts.npy", "000000001.ids.npy", "abc.reports", ".sfumato-x.tmp", "x.tmp"]
    for name in names:
        (state / name).write_text("precious")
    (state / f"{'0' * 16}.reports").write_text("left over from a failure")
    (state / f".sfumato-{'0' * 16}.tmp").write_text("left over from a kill")
    with MADE.collector(state) as one:
        one.add(REPORTS)
    assert all((state / name).read_text() == "precious" for name in names)
    assert len(list(state.iterdir())) == len(names) + 2 + len(one._progress.seen.runs)


def test_the_folder_is_for_its_owner_and_may_be_a_new_or_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    MADE.collector(tmp_path / "empty").add(REPORTS)
    MADE.collector(tmp_path / "deep" / "new").add(REPORTS)
    assert stat.S_IMODE((tmp_path / "deep" / "new").stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        MADE.collector(tmp_path / "file")


def test_a_release_counts_what_is_on_disk_or_says_why_not(tmp_path: Path) -> None:
    with MADE.collector(tmp_path / "state") as closed:
        closed.add(REPORTS[:10])
    with MADE.collector(tmp_path / "state") as one:
        one.add(REPORTS)
    assert one.release().count.value == len(REPORTS)
    with pytest.raises(InputError, match="missing or damaged"):
        closed.release()


def test_a_disk_without_locks_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageError, match=r"cannot lock files \(Operation not supported\).*on a local disk \(--state"):
        MADE.collector(tmp_path / "state")


def test_a_state_without_its_marker_is_told_with_what_may_be_lost(tmp_path: Path, reports_file: Path) -> None:
    folder = tmp_path / "state"
    with MADE.collector(folder) as one:
        one.add(reports_file)
        before = state_of(one)
    (folder / checkpoint.MARKER).unlink()
    with pytest.raises(InputError, match=r"others may be missing too.*reports that were counted.*: touch /") as told:
        MADE.collector(folder)
    Path(str(told.value).rpartition("touch ")[2]).touch()
    with MADE.collector(folder) as one:
        assert state_of(one) == before


def test_folders_of_killed_collectors_are_swept_and_nothing_else(tmp_path: Path) -> None:
    def made(name: str, marked: bool = True, old: bool = True) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / ("sfumato-collector.lock" if marked else "thesis.tex")).touch()
        if old:
            os.utime(folder, (0, 0))
        return folder

    prefix = "sfumato-unnamed-collector-"
    left = made(f"{prefix}abcd_123")
    kept = [made(f"{prefix}abcd_124", old=False), made(f"{prefix}abcd_125", marked=False), made("sfumato-my_state")]
    kept.append(made(f"{prefix}abcd_126"))
    (tmp_path / f"{prefix}abcd_127").symlink_to(kept[-1])
    with MADE.collector(kept[-1]):  # it lives, and holds its lock
        os.utime(kept[-1], (0, 0))
        checkpoint.sweep_folders(str(tmp_path))
    assert not left.exists() and all(folder.is_dir() for folder in kept)
