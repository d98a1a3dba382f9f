"""Locks on files, which all processes of a machine respect, and what is said where a disk has none."""

from __future__ import annotations

import errno
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows; there, take care that one process at a time uses a file
    fcntl = None  # type: ignore[assignment]

from sfumato.errors import StorageError

HAS_LOCKS = fcntl is not None
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}  # what file systems without flock answer


def lock_file(descriptor: int, name: str | Path, why: str, *, wait: bool = False) -> None:
    """Lock an open file, or say what to do where its disk has no locks; nothing is locked on a system without any.

    Parameters
    ----------
    descriptor : int
        The file; closing it gives the lock back, unless a fork holds it too.
    name : str or Path
        Its path, for the message.
    why : str
        What could happen without a lock, and what to do about it.
    wait : bool
        Wait for whoever holds the lock; otherwise `BlockingIOError` is raised at once.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise StorageError(
            f"the disk of {str(name)!r} cannot lock files ({error.strerror}), without which {why}"
        ) from error


def unlock_file(descriptor: int) -> None:
    """Give a lock back, also if a fork holds the descriptor too."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
