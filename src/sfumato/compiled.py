"""Compiled functions, and where their machine code is kept: in a folder of ours that nobody else can write, or nowhere.

Numba caches by unpickling files, so that whoever writes in the cache's folder runs code as its user. Left to itself it
takes any folder that is writable, the current one where there is no home, and raises "cannot cache function" where none
is. `njit` is Numba's with one difference: ``cache=True`` is a wish. The folder is ``NUMBA_CACHE_DIR`` if the user set
it, else ``sfumato/compiled`` in the user's cache folder (``XDG_CACHE_HOME``, by default ``~/.cache``), else one in
``TMPDIR`` or ``/tmp`` that carries the user's id. Ours belong to the user and have mode 0700, or they are not used.
A disk that fills up costs the cache and not the run.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import NullCache

from sfumato.storage import private_folder, user_folder

_decorating = threading.Lock()


def _njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return Numba's decorator, which caches where that is safe.

    Examples
    --------
    >>> @njit(nogil=True, cache=True)
    ... def double(number):
    ...     return 2 * number
    >>> double(21)
    42
    """
    wanted = options.pop("cache", False)

    def decorate(function: Callable[..., Any]) -> Any:
        made = numba.njit(**options)(function)
        folder = cache_folder() if wanted else None
        if folder is not None:
            with _numba_caches_in(folder), suppress(RuntimeError):  # a function without a file, or a folder that went
                made.enable_caching()
            if not str(made._cache.cache_path).startswith(folder):
                made._cache = NullCache()  # Numba found another place
            _forgive_full_disks(made._cache)
        return made

    return decorate


njit: Any = _njit  # untyped as Numba's own


@cache
def cache_folder() -> str | None:
    """Return the folder for compiled code, which exists and is safe to read from; None if there is none.

    Examples
    --------
    >>> folder = cache_folder()
    >>> folder is None or os.path.isabs(folder)
    True
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return os.path.abspath(chosen) if _writable(chosen) else None
    if not hasattr(os, "getuid"):
        return None  # no owners to check
    home = user_folder("XDG_CACHE_HOME", ".cache")
    temporary = Path(os.environ.get("TMPDIR") or "/tmp")
    places = [home / "sfumato" / "compiled"] if home is not None else []
    places += [temporary / f"sfumato-compiled-{os.getuid()}"] if temporary.is_absolute() else []
    return next((str(place) for place in places if _ours(place) and _writable(place)), None)


def _ours(folder: Path) -> bool:
    """Make the folder if it is missing; tell whether it is a real one, the user's, and closed to all others."""
    with suppress(OSError):
        private_folder(folder)
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return False


def _writable(folder: str | Path) -> bool:
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return True
    return False


@contextmanager
def _numba_caches_in(folder: str) -> Iterator[None]:
    """Set Numba's folder while one of our functions chooses its place, and leave it as it was for everyone else's."""
    with _decorating:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder
        try:
            yield
        finally:
            numba.config.CACHE_DIR = before


def _forgive_full_disks(store: Any) -> None:
    save = store.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    store.save_overload = save_if_possible
