"""SciPy's functions, imported at the first call: together they take longer to load than most commands take to run.

A command that asks one release one question should not wait for solvers that it does not use, so whatever stands on the
way to every command takes these from here. `tests/cli/test_start.py` counts what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


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
