"""Cases: declarative TOML files.

name = "lsq-rff-formula"          # also the name of its result file
kind = "accuracy"                 # benchmarks/kinds/accuracy.py runs it
title = "..."
claim = "..."                     # what is claimed, in one line, for the table of all cases (default: the title)
about = "..."                     # what the table shows, for the page
[settings]                        # what the kind reads
[quick]                           # settings replaced in the quick mode
[[expect]]                        # what should hold, checked on every row (or on those that match `where`)
value = "ratio"
at_least = 0.85
at_most = 1.15
where = { label = "best I" }
[figure]                          # lines to draw from the rows, see benchmarks/figures.py
x = "epsilon"
y = "rmse"
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "cases"
FIELDS = {"name", "kind", "title", "claim", "about", "settings", "quick", "expect", "figure"}


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """All that a row can be told by: what was measured, under which label, and what was found."""
    return {**row["unit"], "label": row["label"], **row["values"]}


@dataclass(frozen=True)
class Expectation:
    """What a measured value should satisfy, in the rows whose unit, label or values equal those in `where`."""

    value: str
    at_least: float = float("-inf")
    at_most: float = float("inf")
    where: Mapping[str, Any] = field(default_factory=dict)

    def concerns(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row is meant."""
        facts = facts_of(row)
        return self.value in row["values"] and all(facts.get(name) == wanted for name, wanted in self.where.items())

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Tell whether the row's value lies in the range."""
        return bool(self.at_least <= values[self.value] <= self.at_most)

    def __str__(self) -> str:
        low = f"at least {self.at_least:g}" if self.at_least > float("-inf") else ""
        high = f"at most {self.at_most:g}" if self.at_most < float("inf") else ""
        return f"{self.value} {' and '.join(filter(None, (low, high)))}"


@dataclass(frozen=True)
class Case:
    """One case in one mode; `settings` are those of the mode."""

    name: str
    kind: str
    title: str
    about: str
    settings: Mapping[str, Any]
    expectations: tuple[Expectation, ...]
    full: bool
    figure: Mapping[str, Any] | None = None
    claim: str = ""

    @property
    def mode(self) -> str:
        """The mode's name."""
        return "full" if self.full else "quick"

    @property
    def command(self) -> str:
        """What to type to measure again."""
        return f"python -m benchmarks {'--full ' if self.full else ''}--only {self.name}"

    @property
    def digest(self) -> str:
        """Fingerprint of what decides the measurement: results of another digest are out of date."""
        content = json.dumps([self.kind, self.mode, self.settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def load_case(path: Path, full: bool) -> Case:
    """Read one case for a mode."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if unknown := sorted(set(document) - FIELDS):
        raise ValueError(f"{path.name}: unknown field {unknown[0]!r}; a case has {', '.join(sorted(FIELDS))}")
    if document["name"] != path.stem:
        raise ValueError(f"{path.name}: the case inside is named {document['name']!r}; use one name for both")
    settings = document["settings"]
    return Case(
        name=document["name"],
        kind=document["kind"],
        title=document["title"],
        about=document["about"].strip(),
        settings=settings if full else {**settings, **document.get("quick", {})},
        expectations=tuple(Expectation(**item) for item in document.get("expect", [])),
        full=full,
        figure=document.get("figure"),
        claim=document.get("claim", document["title"]),
    )


def load_cases(folder: Path, full: bool) -> list[Case]:
    """Read all cases of a folder, by name."""
    return [load_case(path, full) for path in sorted(folder.glob("*.toml"))]
