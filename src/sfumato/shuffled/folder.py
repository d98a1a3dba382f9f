"""The shuffler's folder: a marker that it is one, which is also the lock, and the stage of the collection.

A folder is taken if it is new, empty or marked; any other is refused before a file in it is touched. What is made in it
is for its owner alone. The stage stands under a checksum, so that damage is found and not acted upon.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import InputError, StorageError
from sfumato.public.canonical_json import parse
from sfumato.storage import AtomicFile, private_folder, private_opener, storage_errors

_MARK = b"sfumato-shuffler-1\n"
_LEFT = re.compile(r"buckets-[0-9a-f]{16}|\.sfumato-[0-9a-f]{16}\.tmp")
_LARGEST_STATE = 10_000


class StateFolder:
    """A folder that one shuffler uses at a time.

    Parameters
    ----------
    path : Path
        Made if it does not exist.

    Raises
    ------
    InputError
        If the folder holds something else, or another shuffler uses it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = StateFolder(Path(parent, "inbox"))
    ...     folder.write({"stage": "open"})
    ...     folder.close()
    ...     StateFolder(Path(parent, "inbox")).read({"stage"})
    {'stage': 'open'}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1
        with storage_errors("use", path):
            private_folder(path)
            self._refuse_others()
            self._lock = private_opener(self.path / "lock", os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(self._lock, _MARK, 0)
                os.fsync(self._lock)
            except BlockingIOError:
                self.close()
                raise InputError(f"another shuffler is using {str(path)!r}; stop it, or pass another folder") from None
            except BaseException:
                self.close()
                raise
            self._sweep()

    def _refuse_others(self) -> None:
        names = {entry.name for entry in self.path.iterdir()}
        marker = self.path / "lock"
        content = marker.read_bytes() if marker.is_file() and marker.stat().st_size <= len(_MARK) else None
        if content == _MARK or not names or (names == {"lock"} and content == b""):  # killed before it was marked
            return
        raise InputError(
            f"{str(self.path)!r} holds files that are not a shuffler's, and none of them was touched; pass a new or "
            "empty folder"
        )

    def _sweep(self) -> None:
        """Remove what a kill left behind, by names that only we give."""
        for entry in self.path.iterdir():
            if _LEFT.fullmatch(entry.name):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def read(self, fields: set[str]) -> dict[str, Any] | None:
        """Return the stage, None in a new folder."""
        path, inbox = self.path / "state.json", self.path / "inbox"
        with storage_errors("read", path):
            content = b"" if not path.exists() else path.open("rb").read(_LARGEST_STATE)
        if not content and not inbox.exists():
            return None
        try:
            state: dict[str, Any] = parse(content)
            sound = state.pop("checksum") == _checksum(state) and set(state) == fields
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            sound = False
        if not sound:
            raise StorageError(
                f"the shuffler's state in {str(path)!r} is damaged, and without it nobody knows whether the collection "
                "is closed; restore it from a backup, or collect again in a new folder"
            )
        return state

    def write(self, state: Mapping[str, Any]) -> None:
        """Write the stage down, on disk when this returns."""
        with AtomicFile(self.path / "state.json", overwrite=True, private=True) as file:
            file.write(json.dumps({**state, "checksum": _checksum(state)}).encode())

    def holds(self, path: str | Path) -> bool:
        """Whether a path lies in the folder."""
        return Path(path).resolve().is_relative_to(self.path.resolve())

    def close(self) -> None:
        """Let another shuffler use the folder."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _checksum(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
