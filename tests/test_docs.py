"""The Python examples of README and docs run, and their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.audit import ATTACKS, AUDITS, CALIBRATIONS
from sfumato.families import QUANTIZERS
from sfumato.methods.registry import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.fixture(autouse=True)
def restored_registries() -> Iterator[None]:
    """Forget the mechanisms that a page adds."""
    tables = (METHODS._loaded(), QUANTIZERS._known, ATTACKS, CALIBRATIONS, AUDITS)
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        for name in set(table) - set(known):
            del table[name]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if EXAMPLE.search(page.read_text())], ids=lambda page: page.name
)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.jsonl"))
    names: dict[str, object] = {"__name__": "example"}
    for example in EXAMPLE.findall(page.read_text()):
        exec(compile(example, page.name, "exec", dont_inherit=True), names)
    assert len(names) > 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert not missing
