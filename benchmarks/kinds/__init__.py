"""Kinds of measurement, one module each; a case names its kind by the module's name (dashes for underscores).

A kind is a module with three names:

    COLUMNS                    mapping of a value's name to its heading on the page, in order
    units(settings)            list of plain dicts: pieces of work, each finished and saved before the next
    measure(settings, unit)    the unit's rows, as `Measurement`s; raises `Skipped` where something it needs is absent

and, where its picture is not made of lines, ``draw(rows)``, which returns a matplotlib figure of the stored rows.
Values that COLUMNS does not name are for that picture only.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

Settings = Mapping[str, Any]
Unit = Mapping[str, Any]


class Skipped(Exception):  # noqa: N818 - not an error: the machine lacks something, and the page says so
    """A unit cannot be measured here; the text says why."""


@dataclass(frozen=True)
class Measurement:
    """One row of results.

    Attributes
    ----------
    label : str
        What was measured: a method, a variant, a law.
    values : mapping
        Numbers, by the names in the kind's COLUMNS.
    data : mapping
        On what: `set`, `n`, `d` and whatever else identifies the points; empty where there are none.
    seeds : list of int
        Public and noise seeds of the runs; empty where nothing random is measured.
    neighbours, count_share : str or None
        The neighbouring relation, and the share of the budget that buys the count.
    """

    label: str
    values: Mapping[str, Any]
    data: Mapping[str, Any]
    seeds: Sequence[int] = ()
    neighbours: str | None = None
    count_share: str | None = None


class Kind(Protocol):
    """What a module in this package offers."""

    COLUMNS: Mapping[str, str]

    def units(self, settings: Settings) -> Sequence[Unit]:
        """Pieces of work."""

    def measure(self, settings: Settings, unit: Unit) -> Iterable[Measurement]:
        """Rows of one piece."""


def load_kind(name: str) -> Kind:
    """Import the module of a kind."""
    return cast(Kind, importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))
