"""The state of a collector on disk: one small file that names the others, replaced atomically.

`state.json` says which protocol, how many reports were accepted and refused, which runs of reports belong to it, with
their checksums, and how far each file of reports was read; and it has a checksum of its own. Files of ours that it does
not name are left over from a failure and are deleted; nothing else in the folder is touched.

A state folder is new, empty, or carries our marker, which is also what a collector locks for as long as it lives: one
collector at a time works in a folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.errors import InputError, StorageError
from sfumato.local.arrivals import Place, SeenReports
from sfumato.locks import HAS_LOCKS, lock_file, unlock_file
from sfumato.owner import private_folder, private_opener
from sfumato.privacy.process import Mark, process_mark
from sfumato.public.canonical_json import parse
from sfumato.storage import LEFTOVER_SECONDS, AtomicFile, storage_errors

FORMAT, VERSION = "sfumato-collector", 2
STATE, MARKER = "state.json", "sfumato-collector.lock"
_PREFIX = "sfumato-unnamed-collector-"
_TEMPORARY = re.compile(f"{_PREFIX}[a-z0-9_]{{8}}")
_WITHOUT_LOCKS = "two collectors could spoil each other's counts; put the state on a local disk (--state FOLDER)"


@dataclass(frozen=True)
class Progress:
    """What a checkpoint holds: all reports, how many count and were refused, and how far files were read.

    `halves` says where files ended in a part of a report that is already among the refused.
    """

    seen: SeenReports
    accepted: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    halves: Mapping[str, Place] = field(default_factory=dict)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for a collector that was given none; those that kills left more than a day ago are deleted."""
    sweep_folders(tempfile.gettempdir())
    return tempfile.TemporaryDirectory(prefix=_PREFIX)


@cache
def sweep_folders(place: str) -> None:
    """Delete what killed collectors left in a place, once in a process: there may be many files in it."""
    with suppress(OSError):
        for path in Path(place).iterdir():
            if _TEMPORARY.fullmatch(path.name):
                _sweep(path)


def _sweep(folder: Path) -> None:
    """Delete a folder if it is this user's, is marked, and no collector lives that has locked it."""
    with suppress(OSError):
        status = folder.lstat()
        old = time.time() - status.st_mtime > LEFTOVER_SECONDS
        if HAS_LOCKS and old and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            descriptor = os.open(folder / MARKER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                lock_file(descriptor, folder, _WITHOUT_LOCKS)
                shutil.rmtree(folder)
            finally:
                os.close(descriptor)


def lock_folder(folder: Path) -> int:
    """Make a folder if it does not exist, mark it as ours and lock it; return the descriptor for `unlock_folder`."""
    with storage_errors("use", folder):
        private_folder(folder)
        _refuse_others(folder)
        descriptor = private_opener(folder / MARKER, os.O_RDWR | os.O_CREAT)
        try:
            lock_file(descriptor, folder / MARKER, _WITHOUT_LOCKS)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"another collector works in {str(folder)!r}; close it or wait for it, or choose another folder"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _refuse_others(folder: Path) -> None:
    """Refuse a folder that is not new, empty or marked."""
    if (folder / MARKER).exists() or not any(folder.iterdir()):
        return
    state = folder / STATE
    if state.is_file() and f'"{FORMAT}"'.encode() in state.read_bytes():
        raise InputError(
            f"{str(folder)!r} holds a collector's state without its file {MARKER!r}: others may be missing too, and "
            "with them reports that were counted. Nothing was touched: restore the folder from a copy, or collect the "
            "files of reports again in a new one; if only that file is lost, and no collector runs there, make it "
            f"again, empty: touch {shlex.quote(str(folder / MARKER))}"
        )
    raise InputError(
        f"{str(folder)!r} is not empty and holds no collector's state: nothing in it was touched; choose a "
        "new or an empty folder. (State of version 0.1 is not read: collect its files of reports again)"
    )


def unlock_folder(descriptor: int, process: Mark) -> None:
    """Give the lock back, in the process that took it even if a fork holds the descriptor too."""
    if process_mark() == process:
        unlock_file(descriptor)
    os.close(descriptor)


def save_progress(fingerprint: str, progress: Progress) -> None:
    """Write the state; its runs are on disk already."""
    state = {
        "format": FORMAT,
        "version": VERSION,
        "protocol": fingerprint,
        "accepted": progress.accepted,
        "rejected": dict(progress.rejected),
        "runs": progress.seen.names(),
        "places": [asdict(place) for place in progress.places.values()],
        "halves": [asdict(place) for place in progress.halves.values()],
    }
    with AtomicFile(progress.seen.folder / STATE, overwrite=True, private=True) as file:
        file.write(_canonical({**state, "sha256": _checksum(state)}))


def load_progress(seen: SeenReports, fingerprint: str) -> Progress:
    """Read the last checkpoint of a folder, if it has one; `seen` is the empty set there."""
    path = seen.folder / STATE
    progress = Progress(seen)
    with storage_errors("read", path):
        content = path.read_bytes() if path.exists() else None
    if content is not None:
        progress = _progress(seen, path, content, fingerprint)
    elif seen.finds_runs():
        raise _damaged(path, "missing")
    _remove_temporaries(seen.folder)
    progress.seen.remove_rubbish()
    if content is None:
        save_progress(fingerprint, progress)  # before the first run, so that a folder with runs and no state lost it
    return progress


def _progress(seen: SeenReports, path: Path, content: bytes, fingerprint: str) -> Progress:
    try:
        state = _parsed(content)
        checksum = state.pop("sha256")
        if state["format"] != FORMAT or checksum != _checksum(state):
            raise ValueError("not as it was written")
        if state["version"] != VERSION:
            raise InputError(f"{str(path)!r} was written by another version of sfumato; go on with that one")
        if state["protocol"] != fingerprint:
            raise InputError(
                f"{str(path.parent)!r} holds the state of a collector of another protocol; choose another folder"
            )
        return Progress(
            seen=seen.loaded(state["runs"]),
            accepted=_count(state["accepted"]),
            rejected={str(reason): _count(count) for reason, count in state["rejected"].items()},
            places=_places(state["places"]),
            halves=_places(state["halves"]),
        )
    except (InputError, StorageError):
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise _damaged(path, "damaged") from None


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(
        f"{str(path)!r} is {problem}: which reports were counted is lost with it. Nothing was changed: restore the "
        "folder from a copy, or collect the files of reports again in a new folder"
    )


def _parsed(content: bytes) -> Any:
    try:
        return parse(content)
    except InputError as problem:
        raise ValueError("not JSON") from problem


def _places(documents: list[dict[str, Any]]) -> dict[str, Place]:
    places = [Place(str(one["name"]), _count(one["offset"]), str(one["tail"])) for one in documents]
    return {place.name: place for place in places}


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


def _remove_temporaries(folder: Path) -> None:
    """Delete what a kill left of files being written: the folder is locked, so that nobody is writing them."""
    with suppress(OSError):
        for path in folder.glob(f".sfumato-{'[0-9a-f]' * 16}.tmp"):
            path.unlink()


def _checksum(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(state)).hexdigest()


def _canonical(state: Mapping[str, Any]) -> bytes:
    return json.dumps(state, sort_keys=True).encode()
