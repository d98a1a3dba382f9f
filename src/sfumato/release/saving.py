"""How what was paid for reaches the disk in Python: never over another file unless asked to, and never lost."""

from __future__ import annotations

import warnings
from pathlib import Path

from sfumato.paid import write_paid
from sfumato.storage import Bytes


def saved(path: str | Path, content: Bytes, overwrite: bool) -> Path:
    """Write it, beside a file of the same name if there is one, and warn of another name than was asked for."""
    target = write_paid(path, content, overwrite)
    if target != Path(path):
        text = f"{str(path)!r} exists already and stays as it is: what was paid for was written to {str(target)!r}"
        warnings.warn(text, UserWarning, stacklevel=3)
    return target
