"""What is loaded at its first use, and what says which extra is missing.

A command that asks one release one question should not wait for solvers that it does not use, so whatever stands on the
way to every command takes SciPy's functions and Arrow from here. `tests/cli/test_start.py` counts what is loaded.

Who reads releases installs the package alone; what makes, draws, distributes or collects them has an extra. `EXTRAS`
is the one list of what each extra brings: `require` refuses by it, and `tests/test_packaging.py` compares it with
`pyproject.toml`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sfumato.errors import MissingExtraError
from sfumato.owner import user_folder
from sfumato.storage import storage_errors

# Names that are imported, and what they are for in the words of an error.
EXTRAS = {
    "curator": (("dp_accounting", "numba", "pyarrow", "sklearn"), "to make releases, and to read files and tables"),
    "plot": (("matplotlib",), "to draw"),
    "spark": (("pyspark",), "to sum on Spark, with Java 17"),
    "server": (("httptools", "starlette", "uvicorn"), "to run servers"),
}


@cache
def missing(extra: str) -> tuple[str, ...]:
    """Return the modules of an extra that are not installed.

    Examples
    --------
    >>> missing("curator")
    ()
    """
    return tuple(name for name in EXTRAS[extra][0] if find_spec(name) is None)


def require(extra: str) -> None:
    """Refuse to go on without what an extra brings.

    Raises
    ------
    MissingExtraError
        If a module is not installed; the text names it and the extra.

    Examples
    --------
    >>> require("curator")
    """
    if absent := missing(extra):
        raise MissingExtraError(
            f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} needed {EXTRAS[extra][1]}, and not installed: "
            f"pip install 'sfumato[{extra}]'"
        )
    if extra == "plot":
        _give_matplotlib_a_folder()


def _give_matplotlib_a_folder() -> None:
    """Set MPLCONFIGDIR where there is no home: before version 3.11 matplotlib cannot even be imported there."""
    if os.environ.get("MPLCONFIGDIR") or "matplotlib" in sys.modules:
        return
    if user_folder("XDG_CONFIG_HOME", ".config") and user_folder("XDG_CACHE_HOME", ".cache"):
        return
    with storage_errors("make a folder for matplotlib (MPLCONFIGDIR) in", os.environ.get("TMPDIR") or "/tmp"):
        folder = tempfile.mkdtemp(prefix="sfumato-matplotlib-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["MPLCONFIGDIR"] = folder


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Say which extra is missing where a module of it is imported when a file is loaded.

    Examples
    --------
    >>> with brought_by("curator"):
    ...     import sklearn
    """
    try:
        yield
    except ModuleNotFoundError:
        require(extra)
        raise


def is_instance(data: Any, module: str, name: str) -> bool:
    """Tell whether data are of a class of a module that may be missing.

    Data of a class show that its module is loaded; loading it just to ask would slow every start.

    Examples
    --------
    >>> is_instance({}, "polars", "DataFrame")
    False
    """
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, getattr(loaded, name))


class _Module:
    """A module of an extra, loaded when something of it is asked for, and asked once for each name."""

    def __init__(self, name: str, extra: str) -> None:
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        require(self._extra)
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        # Engines send functions that use it to other processes.
        return _Module, (self._name, self._extra)


if TYPE_CHECKING:
    import pyarrow as pyarrow
else:
    pyarrow = _Module("pyarrow", "curator")


def _deferred(module: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"See `{module}.{name}`."
    return call


cdist = _deferred("scipy.spatial.distance", "cdist")
erf = _deferred("scipy.special", "erf")
erfc = _deferred("scipy.special", "erfc")
loggamma = _deferred("scipy.special", "loggamma")
logsumexp = _deferred("scipy.special", "logsumexp")
