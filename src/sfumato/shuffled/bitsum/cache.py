"""Calibrations on disk, so that a protocol found once is only certified the next time.

A file holds parameters, never a promise: what is read is certified again, so that a file that someone tampered with
may cost accuracy or messages, but no privacy. It lies in the folder that ``SFUMATO_CACHE`` names, by default in
``sfumato`` in the user's cache folder (``XDG_CACHE_HOME``, by default ``~/.cache``); an empty ``SFUMATO_CACHE`` turns
it off. A folder that cannot be used is the same as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.storage import AtomicFile, user_folder
from sfumato.version import __version__

_LARGEST_FILE = 4096


def key(*question: object) -> str:
    """Return the name under which the answer to a question is kept; another version asks another question.

    Examples
    --------
    >>> key("rr", 1000) == key("rr", 1000), key("rr", 1000) == key("rr", 1001)
    (True, False)
    """
    text = "|".join(map(repr, (__version__, *question)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def load(name: str) -> dict[str, Fraction] | None:
    """Return the parameters that are kept under a name; None if there are none, or none that can be read."""
    path = _path(name)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST_FILE))
        return {str(field): Fraction(str(text)) for field, text in document.items()}
    except (OSError, ValueError, ArithmeticError, AttributeError):
        return None


def store(name: str, parameters: Mapping[str, Fraction | int]) -> None:
    """Keep parameters under a name, if there is a folder for it.

    Examples
    --------
    >>> import tempfile
    >>> from unittest.mock import patch
    >>> with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, SFUMATO_CACHE=folder):
    ...     store(key("rr"), {"flip": Fraction(1, 3)})
    ...     load(key("rr"))
    {'flip': Fraction(1, 3)}
    """
    path = _path(name)
    if path is None:
        return
    text = json.dumps({field: str(value) for field, value in parameters.items()})
    with suppress(OSError, SfumatoError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path, overwrite=True) as file:
            file.write(text.encode())


def _path(name: str) -> Path | None:
    chosen = os.environ.get("SFUMATO_CACHE")
    if chosen == "":
        return None
    user = user_folder("XDG_CACHE_HOME", ".cache")
    folder = Path(chosen) if chosen else user and user / "sfumato"
    return folder and folder / f"bitsum-{name}.json"
