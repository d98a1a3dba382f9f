"""The state of a collector on disk: one small file that names the others, replaced atomically.

`state.json` says which protocol, how many reports were accepted and refused, which file of counts and which runs of
identities belong to it, and how far each file of reports was read. Files that it does not name are left over from a
kill and are deleted. One collector at a time works in a folder: it locks the file `lock` for as long as it lives.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.local.sources import Place
from sfumato.local.tally import Integers
from sfumato.storage import AtomicFile, private_folder, private_opener, storage_errors

try:
    import fcntl
except ImportError:  # not on Windows; there, take care that one collector uses a folder
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION = "sfumato-collector", 1
STATE, LOCK = "state.json", "lock"
COUNTS = ".counts.npy"


@dataclass(frozen=True)
class Progress:
    """What a checkpoint holds.

    Attributes
    ----------
    sequence, accepted : int
        Number of the checkpoint; accepted reports.
    rejected : mapping
        Refused reports by reason.
    runs : sequence of str
        Files of identities.
    places : mapping
        How far files of reports were read.
    halves : mapping
        Where files ended in a part of a report that is already among the refused.
    integers : ndarray or None
        The tally; None before the first checkpoint.
    """

    sequence: int = 0
    accepted: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    runs: Sequence[str] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    halves: Mapping[str, Place] = field(default_factory=dict)
    integers: Integers | None = None


def lock_folder(folder: Path) -> int:
    """Make a folder if it does not exist and lock it; return the descriptor for `unlock_folder`."""
    with storage_errors("use", folder):
        private_folder(folder)
        descriptor = private_opener(folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"another collector works in {str(folder)!r}; close it or wait for it, or choose another folder"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def unlock_folder(descriptor: int, process: int) -> None:
    """Give the lock back, in the process that took it even if a fork holds the descriptor too."""
    if fcntl is not None and os.getpid() == process:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def save_progress(folder: Path, fingerprint: str, progress: Progress) -> None:
    """Write the counts, then the state that names them, then delete the counts before them."""
    assert progress.integers is not None
    counts = f"{progress.sequence:09d}{COUNTS}"
    content = io.BytesIO()
    np.save(content, progress.integers)
    with AtomicFile(folder / counts, overwrite=True, private=True) as file:
        file.write(content.getbuffer())
    state = {
        "format": FORMAT,
        "version": VERSION,
        "protocol": fingerprint,
        "sequence": progress.sequence,
        "accepted": progress.accepted,
        "rejected": dict(progress.rejected),
        "runs": list(progress.runs),
        "places": [asdict(place) for place in progress.places.values()],
        "halves": [asdict(place) for place in progress.halves.values()],
        "counts": counts,
    }
    with AtomicFile(folder / STATE, overwrite=True, private=True) as file:
        file.write(json.dumps(state, sort_keys=True).encode())
    _keep_only(folder, counts)


def load_progress(folder: Path, fingerprint: str) -> Progress:
    """Read the last checkpoint of a folder, if it has one."""
    path = folder / STATE
    if not path.exists():
        _keep_only(folder, "")
        return Progress()
    try:
        state = json.loads(path.read_bytes())
        progress = _progress(folder, state)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"the collector's state in {str(folder)!r} is damaged; collect the reports again") from None
    if state["protocol"] != fingerprint:
        raise InputError(f"{str(folder)!r} holds the state of a collector of another protocol; choose another folder")
    _keep_only(folder, state["counts"])
    return progress


def _progress(folder: Path, state: Any) -> Progress:
    if state["format"] != FORMAT or state["version"] != VERSION or not isinstance(state["protocol"], str):
        raise ValueError("not a state")
    for name in (*state["runs"], state["counts"]):
        if Path(name).name != name or not (folder / name).is_file():
            raise ValueError("a file is missing")
    return Progress(
        sequence=int(state["sequence"]),
        accepted=int(state["accepted"]),
        rejected={str(reason): int(count) for reason, count in state["rejected"].items()},
        runs=[str(name) for name in state["runs"]],
        places={place["name"]: Place(**place) for place in state["places"]},
        halves={place["name"]: Place(**place) for place in state.get("halves", [])},
        integers=np.load(folder / state["counts"], allow_pickle=False),
    )


def _keep_only(folder: Path, counts: str) -> None:
    for path in folder.glob(f"*{COUNTS}"):
        if path.name != counts:
            path.unlink(missing_ok=True)
