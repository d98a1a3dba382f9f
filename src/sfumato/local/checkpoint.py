"""The state of a collector on disk: one small file that names the others, replaced atomically.

`state.json` says which protocol, how many reports were accepted and refused, which file of counts and which runs of
identities belong to it, and how far each file of reports was read. Files that it does not name are left over from a
kill and are deleted.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.local.sources import Place
from sfumato.local.tally import Integers
from sfumato.storage import AtomicFile, storage_errors

FORMAT, VERSION = "sfumato-collector", 1
STATE = "state.json"
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
    integers : ndarray or None
        The tally; None before the first checkpoint.
    """

    sequence: int = 0
    accepted: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    runs: Sequence[str] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    integers: Integers | None = None


def save_progress(folder: Path, fingerprint: str, progress: Progress) -> None:
    """Write the counts, then the state that names them, then delete the counts before them."""
    assert progress.integers is not None
    counts = f"{progress.sequence:09d}{COUNTS}"
    content = io.BytesIO()
    np.save(content, progress.integers)
    with AtomicFile(folder / counts, overwrite=True) as file:
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
        "counts": counts,
    }
    with AtomicFile(folder / STATE, overwrite=True) as file:
        file.write(json.dumps(state, sort_keys=True).encode())
    _keep_only(folder, counts)


def load_progress(folder: Path, fingerprint: str) -> Progress:
    """Read the last checkpoint of a folder, which is made if it does not exist."""
    with storage_errors("open", folder):
        folder.mkdir(parents=True, exist_ok=True)
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
        integers=np.load(folder / state["counts"], allow_pickle=False),
    )


def _keep_only(folder: Path, counts: str) -> None:
    for path in folder.glob(f"*{COUNTS}"):
        if path.name != counts:
            path.unlink(missing_ok=True)
