"""Compiled functions, and where their machine code is kept: in a folder of ours that nobody else can write, or nowhere.

Numba caches by unpickling files, so that whoever writes in the cache's folder runs code as its user. Left to itself it
takes any folder that is writable, the current one where there is no home, and raises "cannot cache function" where none
is. `njit` is Numba's with one difference: ``cache=True`` is a wish. The folder is ``NUMBA_CACHE_DIR`` if the user set
it, else ``sfumato/compiled`` in the user's cache folder (``XDG_CACHE_HOME``, by default ``~/.cache``), else one in
``TMPDIR`` or ``/tmp`` that carries the user's id. Ours belong to the user, have mode 0700 and lie where nobody else can
put another in their place, or they are not used.
A disk that fills up costs the cache and not the run.

Numba itself takes a third of a second to load, so it is loaded when the first of these functions is called.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.deferred import missing, require
from sfumato.owner import private_folder, user_folder

Reads = bool | Callable[..., None]
_decorating = threading.Lock()


class Compiled:
    """A function that Numba is given at its first call, or at that of another compiled function that calls it."""

    def __init__(self, function: Callable[..., Any], reads: Reads, options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self._reads, self._options = function, reads, options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return (self._dispatcher or self.dispatcher())(*arguments)

    def dispatcher(self) -> Any:
        """Return Numba's own object for the function."""
        with _decorating:
            if self._dispatcher is None:
                if self._reads and "numba" in missing("curator"):
                    self._dispatcher = _interpreted(self._reads if callable(self._reads) else self.py_func)
                else:
                    self._dispatcher = _numba_function(self.py_func, **self._options)
            return self._dispatcher


def _njit(reads: Reads = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return Numba's decorator, which caches where that is safe.

    A function that ``reads`` stands on the way of a query: where Numba is not installed it runs as it is written,
    slowly and with the same answers, which `tests/test_reader.py` compares; or, where that takes too long, a function
    that is passed here does the same to whole arrays. All others need the extra: noise must not be drawn under other
    rules of arithmetic than those that were tested.

    Examples
    --------
    >>> @njit(nogil=True, cache=True)
    ... def double(number):
    ...     return 2 * number
    >>> double(21)
    42
    """
    return lambda function: Compiled(function, reads, options)


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is written, in which words wrap around without a warning, as compiled ones do."""

    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return call


def _numba_function(function: Callable[..., Any], cache: bool = False, **options: Any) -> Any:
    numba = _numba()
    made = numba.njit(**options)(function)
    folder = cache_folder() if cache else None
    if folder is not None:
        with _numba_caches_in(folder), suppress(RuntimeError):  # a function without a file, or a folder that went
            made.enable_caching()
        if not str(made._cache.cache_path).startswith(folder):
            made._cache = numba.core.caching.NullCache()  # Numba found another place
        _forgive_full_disks(made._cache)
    return made


@cache
def _numba() -> Any:
    """Load Numba, and tell it that a function of ours stands for what it made of it."""
    require("curator")
    import numba
    import numba.core.caching
    from numba.extending import typeof_impl

    typeof_impl.register(Compiled)(lambda function, context: typeof_impl(function.dispatcher(), context))
    typeof_impl.register(Written)(lambda function, context: function.type)
    return numba


njit: Any = _njit  # untyped as Numba's own


class Written:
    """A function of four arrays that is written in LLVM's own language, for compiled functions to call.

    It takes lines of 16-bit integers, side by side in memory; others are refused where the caller is compiled. It
    returns four 64-bit integers. `emit` is given `llvmlite.ir`, a builder, and the addresses of the arrays' first
    numbers, and returns the integers. Nobody checks how far it reads.
    """

    def __init__(self, emit: Callable[..., Sequence[Any]]) -> None:
        self._emit = emit

    @cached_property
    def type(self) -> Any:
        """Numba's type of it."""
        from llvmlite import ir
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic

        def emit(context: Any, builder: Any, signature: Any, arrays: Any) -> Any:
            kinds = zip(signature.args, arrays, strict=True)
            starts = [context.make_array(kind)(context, builder, array).data for kind, array in kinds]
            return context.make_tuple(builder, signature.return_type, self._emit(ir, builder, starts))

        def typed(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
            types = _numba().types
            if any(kind != types.Array(types.int16, 1, "C") for kind in (a, b, c, d)):
                return None
            return types.UniTuple(types.int64, 4)(a, b, c, d), emit

        made = intrinsic(typed)
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(made)


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
    return next((str(place) for place in map(_ours, places) if place is not None and _writable(place)), None)


def _ours(folder: Path) -> Path | None:
    """Make the folder if it is missing; return its true path if it is the user's, and nobody else can change it.

    Others must be able neither to write in it nor to put another folder in its place, now or after this look: whoever
    may rename one of the folders around it may. ``sudo`` with the home of another user is such a case.
    """
    with suppress(OSError):
        place = Path(os.path.realpath(folder.parent), folder.name)  # links above it are followed once, here
        if not all(map(_kept, place.parents)):
            return None
        private_folder(place)
        found = place.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        return place if ours and all(map(_kept, place.parents)) else None
    return None


def _kept(folder: Path) -> bool:
    """Tell whether only the user and the system may rename what is in a folder; one that is missing is made later."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return True
    sticky = found.st_mode & stat.S_ISVTX  # in which everybody may add, and rename their own
    return found.st_uid in (0, os.getuid()) and (bool(sticky) or not found.st_mode & 0o022)


def _writable(folder: str | Path) -> bool:
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return True
    return False


@contextmanager
def _numba_caches_in(folder: str) -> Iterator[None]:
    """Set Numba's folder while one of our functions chooses its place, and leave it as it was for everyone else's."""
    config = _numba().config
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _forgive_full_disks(store: Any) -> None:
    save = store.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    store.save_overload = save_if_possible
