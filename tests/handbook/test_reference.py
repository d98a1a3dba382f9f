"""Every public name stands in the API reference, with an example that runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sfumato

PAGES = Path(__file__).parents[2] / "docs" / "api"
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in PAGES.glob("*.md"))
ENTRIES = set(re.findall(r"^::: ([\w.]+)$", TEXT, re.MULTILINE))
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))
# Values, not classes or functions: named in the text of their page.
VALUES = {"sfumato.__version__", "sfumato.audit.ATTACKS", "sfumato.audit.AUDITS", "sfumato.audit.CALIBRATIONS"}
VALUES |= {"sfumato.audit.Case", "sfumato.shuffled.bitsum.NAMES"}


def public(name: str, thing: Any) -> dict[str, Any]:
    """Public names at and below a name."""
    if not isinstance(thing, ModuleType):
        return {name: thing}
    found: dict[str, Any] = {}
    for inner in thing.__all__:
        found |= public(f"{name}.{inner}", getattr(thing, inner))
    return found


NAMES = public("sfumato", sfumato)


def test_public_names_are_many() -> None:
    assert len(NAMES) > 90 and "sfumato.PrivateKDE" in NAMES and "sfumato.shuffled.bitsum.calibrate" in NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_public_name_is_in_the_reference(name: str) -> None:
    same = {other for other, thing in NAMES.items() if thing is NAMES[name]} if name not in VALUES else {name}
    short = name.rpartition(".")[2]
    if name in VALUES:
        assert re.search(rf"`(sfumato\.|shuffled\.bitsum\.)?{short}`", TEXT)
    else:
        assert ENTRIES & same
        assert inspect.getdoc(NAMES[name])


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    short = name.rpartition(".")[2]
    assert ">>>" in (inspect.getdoc(NAMES[name]) or "") or re.search(rf"\b{re.escape(short)}\b", EXAMPLES)


def test_the_reference_names_nothing_that_is_not_public() -> None:
    assert set(NAMES) >= ENTRIES
