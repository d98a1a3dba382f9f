"""A small share of the fuzzing in every run of the tests, and proof that the fuzzer catches what it is there for."""

from __future__ import annotations

import copy
import json
import math
import os
import signal
import time
import unicodedata
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.fuzz.case import Case, Format, UnsoundError, check_numbers, made
from tests.fuzz.child import Limits
from tests.fuzz.formats import FORMATS
from tests.fuzz.formats.containers import CORPUS, use_release
from tests.fuzz.formats.geometry import Regions
from tests.fuzz.grammar import altered_bytes, lengthened, named, scaled, squared
from tests.fuzz.library import DensityClassifier, Release, SfumatoError, decode, encode, from_content, load
from tests.fuzz.runner import Figures, fuzz, is_defect, report, table

SEED = int(os.environ.get("SFUMATO_FUZZ_SEED", "0"))
CASES = int(os.environ.get("SFUMATO_FUZZ_CASES", "80"))
COSTLY = {
    "commands": 8,
    "csv": 40,
    "csv.gz": 20,
    "shuffled-protocols": 12,
    "npz": 40,
    "reports": 30,
    "classifiers": 30,
    "parts": 30,
}


@pytest.mark.parametrize("name", FORMATS)
def test_only_refusals_come_out(name: str) -> None:
    figures = fuzz([FORMATS[name]], {name: min(CASES, COSTLY.get(name, CASES))}, SEED)
    defects = [failure for failure in figures[name].failures.values() if is_defect(failure)]
    assert figures[name].summary.cases and figures[name].summary.outcomes.get("accepted")
    assert not defects, "\n".join(report(figures))


@pytest.mark.parametrize("name", FORMATS)
def test_altered_files_are_refused_and_some_get_through(name: str) -> None:
    """A fuzzer whose cases all fail at the door tests the door alone."""
    contents = {made_or_refused(FORMATS[name], Case(name, 1, number)) for number in range(1, 30)}
    assert len(contents) > 10


def made_or_refused(form: Format[object], case: Case) -> bytes:
    try:
        return made(form, case)[1]
    except SfumatoError:
        return b""


class Planted(Format[bytes]):
    """A format whose target has a defect in some of its cases."""

    name = "planted"

    def __init__(self, target: Callable[[bytes], object]) -> None:
        self.target = target

    def make_seeds(self) -> Iterable[tuple[str, bytes]]:
        """One file."""
        return [("zeros", bytes(16))]

    def copy(self, seed: bytes) -> bytes:
        """Bytes are not altered in place."""
        return seed

    def alter(self, content: bytes, random: Random) -> bytes:
        """Change any bytes."""
        return altered_bytes(content, random)

    def encode(self, content: bytes, random: Random) -> bytes:
        """There is no checksum."""
        return content

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Fail where the first byte was altered."""
        if content[:1] > b"\x00":
            self.target(content)


def caught(target: Callable[[bytes], object], cases: int = 200) -> Figures:
    return fuzz([Planted(target)], {"planted": cases}, 2, limits=Limits(0.3, 300))["planted"]


def compiled_loop(content: bytes) -> None:
    sum(range(10**12))  # one call that no signal interrupts


CASES_PLANTED = 16
PLANTED: dict[str, tuple[Callable[[bytes], object], str]] = {
    "another exception": (lambda content: {}["a"], "KeyError"),
    "a hang": (lambda content: [None for _ in iter(int, 1)], "OverTime"),
    "a hang in compiled code": (compiled_loop, "OverTime"),
    "memory": (lambda content: np.ones(1 << 29), "MemoryError"),
    "memory bit by bit": (lambda content: [np.empty(1 << 23) for _ in range(60)], "MemoryError"),
    "NaN": (lambda content: check_numbers("answer", [math.nan]), "UnsoundError"),
    "infinity": (lambda content: check_numbers("answer", [math.inf]), "UnsoundError"),
    "endless recursion": (lambda content: recursion(content), "RecursionError"),
    "a crash": (lambda content: os.kill(os.getpid(), signal.SIGSEGV), "Crash: SIGSEGV"),
    "an exit": (lambda content: os._exit(3), "Crash: exit status 3"),
}


def recursion(content: bytes) -> object:
    return recursion(content)


@pytest.mark.parametrize("defect", PLANTED)
def test_planted_defects_are_caught(defect: str) -> None:
    target, expected = PLANTED[defect]
    found = caught(target, cases=CASES_PLANTED)
    failure = next(one for one in found.failures.values() if one.problem.startswith(expected))
    assert failure.alone is not None and f"--case {failure.alone.number}" in failure.alone.reproduction()
    assert found.summary.cases == CASES_PLANTED  # the cases after a crash are run too


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    found = caught(lambda content: None)
    assert not found.failures and found.summary.outcomes == {"accepted": 200}
    assert "| planted | 200 | 100% |" in table({"planted": found})


def test_refusals_are_no_defects() -> None:
    def refuse(content: bytes) -> None:
        raise SfumatoError("no")

    found = caught(refuse)
    assert not found.failures and found.summary.outcomes["refused"] > 10


class SlowlyMade(Planted):
    """Cases that the fuzzer is slow to make, now and then endlessly."""

    def encode(self, content: bytes, random: Random) -> bytes:
        """Take most of the time that a case has, or more."""
        end = time.process_time() + (60.0 if random.random() < 0.3 else 0.2)
        while time.process_time() < end:
            pass
        return content


def test_the_time_of_making_a_case_is_not_the_librarys() -> None:
    def slow(content: bytes) -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    found = fuzz([SlowlyMade(slow)], {"planted": 12}, 2, limits=Limits(0.3, 300))["planted"]
    assert not found.failures and found.summary.cases == 12
    assert found.summary.outcomes["unmade"] and found.summary.outcomes["accepted"]
    assert 0.15 < found.summary.slowest <= 0.3


def test_cases_are_made_smaller() -> None:
    found = caught(lambda content: {}["a"])
    (failure,) = found.failures.values()
    assert failure.alone is not None
    kept = failure.alone.steps if failure.alone.only is None else failure.alone.only
    assert len(kept) == 1


def test_time_that_is_not_needed_alone_is_no_defect() -> None:
    marks = Path(f"/tmp/sfumato-fuzz-{os.getpid()}")

    def slow_once(content: bytes) -> None:
        try:
            marks.touch(exist_ok=False)
        except FileExistsError:
            return
        end = time.process_time() + 1
        while time.process_time() < end:
            pass

    try:
        found = caught(slow_once)
    finally:
        marks.unlink(missing_ok=True)
    (failure,) = found.failures.values()
    assert failure.alone is None and not is_defect(failure)


def test_a_run_goes_on_from_its_notes(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    whole = fuzz([Planted(lambda content: None)], {"planted": 30}, 2, notes=notes)["planted"]
    notes.write_text(notes.read_text() + '\n{"format": "planted", "se')  # a line that was being written
    again = fuzz([Planted(lambda content: {}["a"])], {"planted": 30}, 2, notes=notes)["planted"]
    assert again.summary == whole.summary and not again.failures  # nothing was run twice
    more = fuzz([Planted(lambda content: {}["a"])], {"planted": 90}, 2, notes=notes)["planted"]
    assert more.failures and more.summary.cases == 90
    mended = fuzz([Planted(lambda content: None)], {"planted": 90}, 2, notes=notes)["planted"]
    assert not mended.failures and mended.summary.cases == 90  # what failed was run again


def test_a_case_is_the_same_in_every_run() -> None:
    for name in ("releases", "local-protocols", "ledgers", "csv", "npy"):
        cases = [Case(name, 3, number) for number in range(20)]
        first = [made_or_refused(FORMATS[name], case) for case in cases]
        assert first == [made_or_refused(FORMATS[name], case) for case in cases]


def many(step: Callable[[Random], Any], cases: int = 200) -> list[Any]:
    return [step(Random(case)) for case in range(cases)]


DOCUMENT: dict[str, Any] = {
    "columns": None,
    "kernel": {"bandwidth": 0.5},
    "box": {"lower": [0.0, 0.0], "upper": [1.0, 1.0]},
    "rates": ["1/3", "1/7"],
    "version": 2,
}


def test_sizes_grow_together() -> None:
    made = many(lambda random: scaled(DOCUMENT, {"values": np.arange(12)}, random))
    columns = [(len(document["box"]["lower"]), len(document["box"]["upper"])) for document, _ in made]
    assert all(lower == upper for lower, upper in columns) and max(columns)[0] == 2 * 4096
    assert all(document["version"] == 2 for document, _ in made)
    grown = [(lower // 2, len(arrays["values"]) // 12) for (lower, _), (_, arrays) in zip(columns, made, strict=True)]
    assert {(4096, 4096), (4096, 1), (1, 4096)} <= set(grown)


def test_names_are_of_every_kind_of_letter() -> None:
    names = "".join(
        name for one in many(lambda random: named(copy.deepcopy(DOCUMENT), random)) for name in one["columns"] or ()
    )
    assert {"\uffff", "\xa0", "\u202e"} <= set(names)
    assert {"Cn", "Co", "Zs", "Cf"} <= {unicodedata.category(letter) for letter in names}


def test_fractions_get_long_and_bandwidths_matrices() -> None:
    rates = [rate for one in many(lambda random: lengthened(DOCUMENT, random), 30) for rate in one["rates"]]
    longest = max(rates, key=len)
    assert len(longest) > 4000 and any(1000 < len(rate) < 2200 and Fraction(rate) > 0 for rate in rates)
    matrices = many(lambda random: squared(copy.deepcopy(DOCUMENT), random)["kernel"]["bandwidth"])
    assert {np.shape(matrix) for matrix in matrices} == {(2, 2)} and [[1.0, 0.0], [0.0, 1.0]] in matrices


def ask_often() -> None:
    """Ask a good release as every release is asked, until something comes out."""
    release = load(CORPUS / "golden/central/grid.seeded.sfm")
    for case in range(300):
        use_release(release, Random(case))


@pytest.mark.parametrize(
    ("question", "met", "expected"),
    [
        ("query", lambda points: len(points) > 1000, "query is NaN"),
        ("total", lambda points: len(points) < 9 and np.abs(points).max() == 1e60, "total is NaN"),
    ],
)
def test_crowds_and_far_points_are_asked(
    question: str, met: Callable[[Any], bool], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = getattr(Release, question)

    def defective(self: Release, points: Any, **more: Any) -> Any:
        answers = honest(self, points, **more)
        return (answers[0] * math.nan, answers[1]) if more.get("return_std") and met(points) else answers

    monkeypatch.setattr(Release, question, defective)
    with pytest.raises(UnsoundError, match=expected):
        ask_often()


@pytest.mark.parametrize("question", ["evaluate", "people", "sharp_people"])
def test_maps_are_drawn_and_people_counted(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"tests.fuzz.formats.containers.{question}", lambda *given, **more: {}["planted"])
    with pytest.raises(KeyError, match="planted"):
        ask_often()


def test_regions_are_small_round_and_in_empty_places() -> None:
    form = Regions()
    seeds = dict(form.seeds)
    assert {"grid", "lattice", "histogram", "fourier"} <= set(seeds)
    shapes = many(lambda random: form.alter(form.copy(seeds["grid"]), random), 100)
    corners = [len(shape["coordinates"][0]) for shape in shapes if isinstance(shape, dict)]
    assert max(corners) > 1000 and len({json.dumps(shape) for shape in shapes}) > 70


def without_columns(part: Any) -> Any:
    """Empty every list that has one entry for each column."""
    if isinstance(part, list):
        return [without_columns(one) for one in part]
    if not isinstance(part, dict):
        return part
    by_column = {"lower", "upper", "exponents", "units", "columns", "origin", "scales"}
    emptied = {name: [] if isinstance(one, list) and name in by_column else one for name, one in part.items()}
    return {name: without_columns(one) for name, one in emptied.items()}


# A table of categories has no numbers to begin with.
WITH_NUMBERS = [path for path in sorted(CORPUS.glob("golden/*/*.sfm")) if not path.stem.startswith("cells_table")]


@pytest.mark.parametrize("path", WITH_NUMBERS, ids=lambda path: path.stem)
def test_nothing_is_read_without_columns(path: Path, tmp_path: Path) -> None:
    header, arrays = decode(path)
    (tmp_path / "a.sfm").write_bytes(encode(without_columns(header), arrays))
    with pytest.raises(SfumatoError):
        (DensityClassifier.load if "classifier" in header else load)(tmp_path / "a.sfm")


@pytest.mark.parametrize("gain", ["0.0", "5e-324", "1e-308"])
def test_a_gain_that_leaves_no_numbers_is_refused(gain: str) -> None:
    header, arrays = decode(CORPUS / "golden/local/vector.seeded.sfm")
    header["quantizer"]["protocol"]["mechanism"]["gain"] = {"decimal": gain}
    with pytest.raises(SfumatoError, match="gain"):
        from_content(header, arrays)


def test_a_release_is_of_the_kernel_of_its_protocol() -> None:
    header, arrays = decode(CORPUS / "golden/local/vector.seeded.sfm")
    header["kernel"]["radius"] = 3.0
    with pytest.raises(SfumatoError, match="kernel is not that of its protocol"):
        from_content(header, arrays)
