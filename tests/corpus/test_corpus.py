"""What 0.1.0 wrote is read for ever, and what is made from seeds does not change unless that is meant."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger, RaceSketch
from sfumato.cli.inspect import verify
from sfumato.local.device import mechanisms
from sfumato.methods.registry import DISTANCES, METHODS
from sfumato.shuffled.bitsum.calibration import NAMES
from tests.corpus import cases
from tests.corpus.make import GOLDEN, LEDGER, SEED, SKETCH, VALUES, answers, golden_files, opened

OLD = Path(__file__).with_name("0.1.0")
EARLIER = Path(__file__).with_name("earlier")
RELATIVE = 1e-9  # answers are floats, whose last digits depend on the machine
FILES = golden_files()
# Whose error bars are better than 0.1.0 stated them: bias by what the sums show, not by the worst records.
NEW_BARS = "central/grid"


@pytest.fixture(autouse=True)
def _fresh_calibrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", "")


def recorded(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads((folder / VALUES).read_text())
    return {name: numbers for name, numbers in found.items() if name not in cases.NUMBERS}


def agree(found: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(found, expected, rtol=RELATIVE, atol=1e-12)


@pytest.mark.parametrize("name", recorded(OLD))
def test_files_of_0_1_0_answer_as_they_did(name: str) -> None:
    found, expected = (np.array(numbers) for numbers in (answers(opened(OLD / name)), recorded(OLD)[name]))
    if name.startswith(NEW_BARS):
        found, expected = (numbers.reshape(2, 2, -1)[:, 0].ravel() for numbers in (found, expected))
    agree(found.tolist(), expected.tolist())


def test_every_file_of_0_1_0_is_asked() -> None:
    found = {path.relative_to(OLD).as_posix() for path in OLD.rglob("*.sfm")}
    assert found - {SKETCH} == set(recorded(OLD)) and len(found) > 180


@pytest.mark.parametrize("folder", [path.name for path in sorted(OLD.iterdir()) if path.is_dir()])
def test_releases_of_0_1_0_verify(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((OLD / folder).glob("*.sfm")):
        if folder != "classifier" and path != OLD / SKETCH:
            verify(path, as_json=True)
            assert json.loads(capsys.readouterr().out)["intact"], path


def test_a_raw_sketch_of_0_1_0_goes_on() -> None:
    found = RaceSketch.load(OLD / SKETCH).release(epsilon=8, random_state=SEED)
    assert np.array_equal(found.values, opened(OLD / "sketch/race.seeded.sfm").values)  # type: ignore[union-attr]


def test_a_ledger_of_0_1_0_is_read() -> None:
    account = Ledger(OLD / LEDGER).account("survey")
    assert account.rule == "gdp" and [charge.mechanism for charge in account.charges] == ["fourier"]


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


@pytest.mark.parametrize("name", recorded(EARLIER))
def test_what_was_made_in_another_way_answers_as_it_did(name: str) -> None:
    """Series by a table look-up for each mode, before they were products of columns."""
    agree(answers(opened(EARLIER / name)), recorded(EARLIER)[name])


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
