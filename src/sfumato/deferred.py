"""What is imported when it is first needed: SciPy's functions, and quantizers of rooms that nothing has loaded yet.

A command that asks one release one question should not wait for solvers that it does not use, so whatever stands on the
way to every command takes these from here. `tests/cli/test_start.py` counts what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def _deferred(module: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"See `{module}.{name}`."
    return call


class Families:
    """Classes by the names that documents give them.

    A room registers its own. Those of rooms that build on it, which it cannot know, are placed by who knows all rooms
    (`sfumato/__init__.py`) and imported when a document names one.

    Examples
    --------
    >>> families = Families()
    >>> families.place("fractions", {"ratio": "Fraction"})
    >>> "ratio" in families, families.get("ratio")(1, 2), families.get("other")
    (True, Fraction(1, 2), None)
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._places: dict[str, tuple[str, str]] = {}

    def place(self, module: str, classes: Mapping[str, str]) -> None:
        """Say which classes a module holds, by their names in documents."""
        self._places.update((name, (module, found)) for name, found in classes.items())

    def add(self, name: str, family: Any) -> None:
        """Register a class."""
        self._known[name] = family

    def __contains__(self, name: str) -> bool:
        return name in self._known or name in self._places

    def get(self, name: str) -> Any:
        """Return the class of a name; None if there is none."""
        if name in self._places:
            module, found = self._places[name]
            return getattr(import_module(module), found)
        return self._known.get(name)


QUANTIZERS = Families()

cdist = _deferred("scipy.spatial.distance", "cdist")
dct = _deferred("scipy.fft", "dct")
erf = _deferred("scipy.special", "erf")
erfc = _deferred("scipy.special", "erfc")
loggamma = _deferred("scipy.special", "loggamma")
logsumexp = _deferred("scipy.special", "logsumexp")
