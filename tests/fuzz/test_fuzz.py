"""A small share of the fuzzing in every run of the tests, and proof that the fuzzer catches what it is there for."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.fuzz.case import Case, Format, check_numbers, made
from tests.fuzz.child import Limits
from tests.fuzz.formats import FORMATS
from tests.fuzz.grammar import altered_bytes
from tests.fuzz.library import SfumatoError
from tests.fuzz.runner import Figures, fuzz, is_defect, report, table

SEED = int(os.environ.get("SFUMATO_FUZZ_SEED", "0"))
CASES = int(os.environ.get("SFUMATO_FUZZ_CASES", "150"))
COSTLY = {
    "commands": 15,
    "csv": 60,
    "csv.gz": 30,
    "shuffled-protocols": 30,
    "npz": 40,
    "reports": 60,
    "classifiers": 60,
}
# Formats in which defects are known and not mended yet; to be emptied.
OPEN = {"releases", "classifiers", "sketches", "shuffled-protocols", "batches", "keys", "accounts", "inboxes"}
OPEN |= {"csv", "csv.gz", "npy", "npz", "regions"}


@pytest.mark.parametrize("name", FORMATS)
def test_only_refusals_come_out(name: str) -> None:
    figures = fuzz([FORMATS[name]], {name: min(CASES, COSTLY.get(name, CASES))}, SEED)
    defects = [failure for failure in figures[name].failures.values() if is_defect(failure)]
    assert figures[name].summary.cases and figures[name].summary.outcomes.get("accepted")
    if defects and name in OPEN:  # decided here, so that a fuzzer that does not work is no known defect
        pytest.xfail("\n".join(report(figures)))
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
    "memory bit by bit": (lambda content: [bytearray(1 << 20) for _ in range(4000)], "MemoryError"),
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


def test_a_case_is_the_same_in_every_run() -> None:
    for name in ("releases", "local-protocols", "ledgers", "csv", "npy"):
        cases = [Case(name, 3, number) for number in range(20)]
        first = [made_or_refused(FORMATS[name], case) for case in cases]
        assert first == [made_or_refused(FORMATS[name], case) for case in cases]
