"""Quantizers by the names that documents give them, also those of rooms that nothing has loaded yet."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


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
