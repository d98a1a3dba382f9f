"""Files and folders for their owner's eyes.

Private content (raw sketches, collectors' and shufflers' state, batches, messages, accounts, keys, ledgers) is for its
owner's eyes: such files have mode 0600 from the moment they exist, temporary ones beside them too, and folders that are
made for them 0700. A file that was wider is narrowed when it is opened or replaced; a folder that was there is left as
it is.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

OWNER_FILE, _OWNER_FOLDER, _NOT_OWNER = 0o600, 0o700, 0o077


def private_opener(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file that only its owner may read and write; give it to ``open(..., opener=private_opener)``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open(f"{folder}/key", "xb", opener=private_opener) as file:
    ...     oct(os.fstat(file.fileno()).st_mode & 0o777)
    '0o600'
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, OWNER_FILE)
    status = os.fstat(descriptor)
    if flags & os.O_CREAT and stat.S_ISREG(status.st_mode) and status.st_mode & _NOT_OWNER:
        with suppress(PermissionError):  # it is another user's, who decides
            os.fchmod(descriptor, OWNER_FILE)
    return descriptor


def private_folder(path: str | Path) -> None:
    """Make a folder, and those above it that are missing, for its owner's eyes; one that is there stays as it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     private_folder(f"{folder}/a/b")
    ...     [oct(Path(folder, name).stat().st_mode & 0o777) for name in ("a", "a/b")]
    ['0o700', '0o700']
    """
    folder = Path(path)
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        with suppress(FileExistsError):
            missing.mkdir(mode=_OWNER_FOLDER)
    folder.mkdir(exist_ok=True)  # raises where a file has the name


def user_folder(variable: str, default: str) -> Path | None:
    """Return the user's folder for caches or state: the variable's, else one in the home; None where there is no home.

    Relative ones are ignored, as the standard for these variables says: they would be the current folder's.

    Examples
    --------
    >>> folder = user_folder("XDG_CACHE_HOME", ".cache")
    >>> folder is None or folder.is_absolute()
    True
    """
    chosen = Path(os.environ.get(variable, ""))
    if chosen.is_absolute():
        return chosen
    with suppress(RuntimeError):  # a user without an entry, as in many containers
        home = Path.home()
        return home / default if home.is_absolute() else None
    return None
