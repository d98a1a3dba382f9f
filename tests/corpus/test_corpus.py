"""What a version wrote is read for ever, and what is made from seeds does not change unless that is meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Ledger, RaceSketch
from sfumato.cli.inspect import verify
from sfumato.errors import InputError
from sfumato.local import Protocol as LocalProtocol
from sfumato.local.device import mechanisms
from sfumato.methods.registry import DISTANCES, METHODS
from sfumato.shuffled import Protocol as ShuffledProtocol
from sfumato.shuffled.bitsum.calibration import NAMES
from sfumato.version import __version__
from tests.corpus import cases
from tests.corpus.make import GOLDEN, LEDGER, REPORTS, SEED, SKETCH, VALUES, answers, golden_files, opened

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if path.name[0].isdigit())
RELATIVE = 1e-9  # answers are floats, whose last digits depend on the machine
FILES = golden_files()
# Whose error bars are better than that version stated them: bias by what the sums show, not by the worst records; means
# whose count errs together with their sum; embeddings that err beyond where a mean harmonic changes its sign.
NEW_BARS = ("0.1.0/central/grid", "0.1.0/distances/sqeuclidean-published", "0.1.0/distances/hat_l2")


@pytest.fixture(autouse=True)
def _fresh_calibrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", "")


def recorded(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads((folder / VALUES).read_text())
    return {name: numbers for name, numbers in found.items() if name not in cases.NUMBERS}


def agree(found: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(found, expected, rtol=RELATIVE, atol=1e-12)


KEPT = {f"{folder.name}/{name}": numbers for folder in VERSIONS for name, numbers in recorded(folder).items()}
PROTOCOLS: dict[str, Any] = {"local": LocalProtocol, "shuffled": ShuffledProtocol}
each_version = pytest.mark.parametrize("old", VERSIONS, ids=lambda folder: folder.name)


@pytest.mark.parametrize("name", KEPT)
def test_files_of_a_version_answer_as_they_did(name: str) -> None:
    found, expected = (np.array(numbers) for numbers in (answers(opened(GOLDEN.parent / name)), KEPT[name]))
    if name.startswith(NEW_BARS):
        found, expected = (numbers.reshape(2, 2, -1)[:, 0].ravel() for numbers in (found, expected))
    agree(found.tolist(), expected.tolist())


@each_version
def test_every_file_of_a_version_is_asked(old: Path) -> None:
    found = {path.relative_to(old).as_posix() for path in old.rglob("*.sfm")}
    assert found - {SKETCH} == set(recorded(old)) and len(found) > 180


@each_version
def test_releases_of_a_version_verify(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted(old.rglob("*.sfm")):
        if path.parent.name != "classifier" and path != old / SKETCH:
            verify(path, as_json=True)
            assert json.loads(capsys.readouterr().out)["intact"], path


@each_version
def test_a_raw_sketch_of_a_version_goes_on(old: Path) -> None:
    found = RaceSketch.load(old / SKETCH).release(epsilon=8, random_state=SEED)
    assert np.array_equal(found.values, opened(old / "sketch/race.seeded.sfm").values)  # type: ignore[union-attr]


@each_version
def test_a_ledger_of_a_version_is_read(old: Path) -> None:
    account = Ledger(old / LEDGER).account("survey")
    assert account.rule == "gdp" and [charge.mechanism for charge in account.charges] == ["fourier"]


@each_version
def test_protocols_of_a_version_and_their_reports_are_read_or_refused_by_name(old: Path) -> None:
    for path in sorted(old.glob("*/*.json")):
        document, made = json.loads(path.read_text()), PROTOCOLS[path.parent.name]
        if document["version"] == 1:  # documents of 0.1.0, which no device takes any more
            with pytest.raises(InputError, match="version 1 and this sfumato reads 2"):
                made.from_document(document)
        else:
            protocol = made.from_document(document)
            assert protocol.document == document
            if (reports := path.with_suffix(".reports")).exists():
                assert protocol.collector().add(reports).accepted == REPORTS, path


def test_this_version_is_kept() -> None:
    assert __version__ in {folder.name for folder in VERSIONS}


@pytest.mark.parametrize("name", FILES)
def test_what_is_made_from_seeds_is_the_same_byte_for_byte(name: str) -> None:
    """If a change is meant: ``python -m tests.corpus.make`` writes the folder `golden` anew."""
    assert FILES[name]() == (GOLDEN / name).read_bytes(), f"{name} is not what it was"


@pytest.mark.parametrize("name", cases.NUMBERS)
def test_numbers_from_seeds_are_the_same(name: str) -> None:
    agree(cases.NUMBERS[name](SEED), json.loads((GOLDEN / VALUES).read_text())[name])


def test_golden_files_answer_as_recorded() -> None:
    for name, expected in recorded(GOLDEN).items():
        agree(answers(opened(GOLDEN / name)), expected)


def test_nothing_else_is_in_the_golden_folder() -> None:
    found = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.is_file()}
    assert found == {*FILES, VALUES}


def test_every_registered_mechanism_is_in_the_corpus() -> None:
    for known, made in (
        (METHODS, cases.CENTRAL),
        (DISTANCES, cases.DISTANCES),
        (mechanisms(), cases.LOCAL),
        (NAMES, cases.SHUFFLED),
    ):
        assert not set(known) - {name.split(" ")[0] for name in made}
