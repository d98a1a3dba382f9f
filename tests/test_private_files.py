"""Private content is for its owner's eyes, whatever the umask: every file 0600, every folder made for it 0700."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Ledger, Part, PrivateKDE, RaceSketch
from sfumato.kernels import L2LSH
from sfumato.local import Protocol
from sfumato.owner import private_folder, private_opener
from sfumato.shuffled import AnalyzerKey, Shuffler
from sfumato.shuffled.messages import Header, write_batch
from sfumato.storage import AtomicFile
from tests.shuffled.collections_for_tests import KEY, small_protocol, submissions

Write = Callable[[Path], Any]


@pytest.fixture(autouse=True)
def _open_to_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SFUMATO_CACHE", "")  # it is public
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Everything that others could read at a moment when files change their names or disappear."""
    wide: list[Path] = []

    def looking(call: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any, **options: Any) -> Any:
            path = Path(os.fspath(arguments[0]))
            wide.extend(wider(path) if path.is_relative_to(tmp_path) else [])
            return call(*arguments, **options)

        return look

    for module, name in ((os, "replace"), (os, "link"), (os, "unlink"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, looking(getattr(module, name)))
    return wide


def wider(path: Path) -> list[Path]:
    found = [path, *path.rglob("*")] if path.is_dir() else [path] if path.exists() else []
    return [each for each in found if stat.S_IMODE(each.stat().st_mode) & 0o077]


def part(folder: Path) -> None:
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, feature_seed=1)
    Part.of(model, np.zeros((5, 2))).save(folder / "site.part")


def sketch(folder: Path) -> None:
    RaceSketch(L2LSH(1.0), dimension=2, rows=4, width=4).add(np.zeros((5, 2))).save(folder / "sketch.sfm")


def ledger(folder: Path) -> None:
    Ledger(folder / "new" / "deep" / "ledger.jsonl").account("people").charge("fourier", 1)


def collecting() -> Protocol:
    return Protocol(L2LSH(0.5), 2, 4, 50, bounds=(0, 1), seed=3)


def collector(folder: Path) -> None:
    protocol = collecting()
    with protocol.collector(folder / "new" / "state") as state:
        for _ in range(3):
            state.add([protocol.client().report([0.5, 0.5]) for _ in range(4)])


def account(folder: Path) -> None:
    client = collecting().client(ledger=folder / "account.json", permanent=True)
    client.report([0.5, 0.5])


def key(folder: Path) -> None:
    AnalyzerKey.generate().save(folder / "key")


def shuffler(folder: Path) -> None:
    protocol = small_protocol()
    with Shuffler(folder / "new" / "inbox", protocol) as shuffling:
        shuffling.receive(*submissions(protocol, 8))
        shuffling.shuffle(folder / "batch")
    protocol.analyzer(KEY).analyze(folder / "batch")


def batch(folder: Path) -> None:
    write_batch(folder / "batch", Header("0" * 64, 0, 1, 0), [])


def messages(folder: Path) -> None:
    from sfumato.cli.submissions import write_all

    np.save(folder.parent / "points.npy", np.zeros((2, 1)))
    write_all(small_protocol(), str(folder.parent / "points.npy"), None, None, folder / "sent")


WRITERS: tuple[Write, ...] = (part, sketch, ledger, collector, account, key, shuffler, batch, messages)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_what_is_private_is_the_owners(write: Write, tmp_path: Path, seen: list[Path]) -> None:
    folder = tmp_path / "here"
    folder.mkdir(0o700)
    write(folder)
    assert list(folder.iterdir())
    assert wider(folder) == [] and seen == []


def report(folder: Path) -> None:
    collecting().client(ledger=folder / "account.json", budget=8).report([0.5, 0.5])


@pytest.mark.parametrize("write", [ledger, collector, report], ids=lambda write: write.__name__)
def test_files_that_were_wide_are_narrowed_when_they_are_written_again(write: Write, tmp_path: Path) -> None:
    """Those that an earlier version made."""
    write(tmp_path)
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    write(tmp_path)
    files = [path for path in wider(tmp_path) if path.is_file()]
    assert [path.name for path in files if not path.name.endswith(".ids.npy")] == []  # written once, and never again


def test_an_inbox_that_was_wide_is_narrowed(tmp_path: Path) -> None:
    protocol = small_protocol()
    Shuffler(tmp_path, protocol).close()
    for name in ("inbox", "lock"):
        (tmp_path / name).chmod(0o644)
    with Shuffler(tmp_path, protocol):
        assert wider(tmp_path / "inbox") == [] and wider(tmp_path / "lock") == []


def test_public_files_follow_the_umask(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "release.sfm"):
        pass
    assert stat.S_IMODE((tmp_path / "release.sfm").stat().st_mode) == 0o644


def test_a_file_that_is_replaced_is_never_wider_than_it_was(tmp_path: Path) -> None:
    (tmp_path / "old").touch(0o600)
    with AtomicFile(tmp_path / "old", overwrite=True):
        (temporary,) = tmp_path.glob(".sfumato-*")
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600


def test_reading_does_not_narrow(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    with open(tmp_path / "file", "rb", opener=private_opener):
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    with open(tmp_path / "file", "ab", opener=private_opener):
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(0o755)
    private_folder(tmp_path / "shared" / "own")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("shared", "shared/own")]
    assert modes == [0o755, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        private_folder(tmp_path / "file" / "below")
