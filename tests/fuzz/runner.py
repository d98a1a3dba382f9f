"""Runs many cases: a process for every thousand, failures again alone and made smaller, figures for each format."""

from __future__ import annotations

import json
import selectors
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.case import Case, Format
from tests.fuzz.child import Child, Limits, Summary

BATCH = 1000
USUAL = Limits()
SAMPLES = 3  # of each kind of failure are run again alone


@dataclass
class Failure:
    """One kind of failure in one format.

    Attributes
    ----------
    problem : str
        Exception and place.
    cases : list of int
        The first that failed so.
    count : int
        How many did.
    alone : Case or None
        The smallest case that fails in a process of its own; None if none of the samples does.
    """

    problem: str
    cases: list[int] = field(default_factory=list)
    count: int = 0
    alone: Case | None = None


@dataclass
class Figures:
    """What the cases of one format took, and what failed."""

    summary: Summary = field(default_factory=Summary)
    failures: dict[str, Failure] = field(default_factory=dict)

    def add(self, child: Child) -> None:
        """Add what a process did."""
        for number, problem in child.findings:
            # One defect has many texts; what is not sound has no place but its text.
            kind = problem if problem.startswith("UnsoundError") else problem.partition(": ")[0]
            failure = self.failures.setdefault(kind, Failure(problem))
            failure.count += 1
            if len(failure.cases) < SAMPLES:
                failure.cases.append(number)
        if child.summary is None:  # it died, and took its figures along
            self.summary.cases += child.begun
        else:
            self.add_summary(child.summary)

    def add_summary(self, part: Summary) -> None:
        """Add what the cases of a process took."""
        total = self.summary
        total.cases += part.cases
        total.seconds += part.seconds
        total.megabytes = max(total.megabytes, part.megabytes)
        for outcome, count in part.outcomes.items():
            total.outcomes[outcome] = total.outcomes.get(outcome, 0) + count
        if part.slowest > total.slowest:
            total.slowest, total.slowest_case = part.slowest, part.slowest_case


def shared(formats: Sequence[Format[Any]], cases: int) -> dict[str, int]:
    """Divide cases among formats."""
    total = sum(form.share for form in formats)
    return {form.name: max(1, round(cases * form.share / total)) for form in formats}


class Notes:
    """What was run, a line for every process in a file, so that a run that is stopped loses nothing.

    A run that goes on takes from it what left no failure; what did is run again, because it may be mended now.

    Parameters
    ----------
    path : Path or None
        The file, which need not exist; without one nothing is noted.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.done: list[dict[str, Any]] = []
        for line in path.read_text().splitlines() if path is not None and path.exists() else []:
            with suppress(ValueError):  # the line that was being written when the run was stopped
                self.done.append(json.loads(line))
        self.done = [note for note in self.done if not note["findings"]]

    def add(self, child: Child) -> None:
        """Note what a process did."""
        if self.path is None:
            return
        ran = [case.number for case in child.cases[: child.begun]]
        summary = None if child.summary is None else asdict(child.summary)
        note = {"format": child.form.name, "seed": child.cases[0].seed, "first": ran[0], "end": ran[-1] + 1}
        with self.path.open("a") as file:
            file.write("\n" + json.dumps({**note, "summary": summary, "findings": child.findings}))

    def of(self, name: str, seed: int) -> list[dict[str, Any]]:
        """Return what is known of a format."""
        return [note for note in self.done if note["format"] == name and note["seed"] == seed]


def fuzz(
    formats: Sequence[Format[Any]],
    counts: Mapping[str, int],
    seed: int,
    jobs: int = 1,
    limits: Limits = USUAL,
    notes: Path | None = None,
) -> dict[str, Figures]:
    """Run the first cases of each format.

    Parameters
    ----------
    formats : sequence of Format
        What is fuzzed.
    counts : mapping
        Cases by the format's name.
    seed : int
        Of all cases.
    jobs : int
        Processes at once.
    limits : Limits
        What a case may take.
    notes : Path, optional
        Where to note what was run, and go on from.
    """
    figures = {form.name: Figures() for form in formats}
    kept = Notes(notes)
    ran: dict[str, set[int]] = {}
    for form in formats:
        known = kept.of(form.name, seed)
        ran[form.name] = {number for note in known for number in range(note["first"], note["end"])}
        for note in known:
            figures[form.name].add_summary(Summary(**note["summary"]))
    batches = deque(_batches(formats, counts, seed, ran))
    for form in {id(form): form for form, _ in batches}.values():
        form.warm()
    for child in _children(batches, jobs, limits):
        figures[child.form.name].add(child)
        kept.add(child)
    for form in formats:
        for failure in figures[form.name].failures.values():
            failure.alone = _alone(form, failure, seed, limits)
    return figures


def _batches(
    formats: Sequence[Format[Any]], counts: Mapping[str, int], seed: int, ran: Mapping[str, set[int]]
) -> Iterator[tuple[Format[Any], list[Case]]]:
    """Give a batch of each format in turn, so that a run that is stopped has seen all of them."""
    for start in range(0, max(counts.values()), BATCH):
        for form in formats:
            numbers = range(start, min(start + BATCH, counts[form.name]))
            if left := [number for number in numbers if number not in ran[form.name]]:
                yield form, [Case(form.name, seed, number) for number in left]


def _children(waiting: deque[tuple[Format[Any], list[Case]]], jobs: int, limits: Limits) -> Iterator[Child]:
    """Keep so many processes at work, and give each when it has ended."""
    with selectors.DefaultSelector() as selector:
        running: set[Child] = set()
        while waiting or running:
            while waiting and len(running) < jobs:
                child = Child(*waiting.popleft(), limits)
                running.add(child)
                selector.register(child.read, selectors.EVENT_READ, child)
            for key, _ in selector.select(timeout=0.5):
                child = key.data
                if not child.receive():
                    selector.unregister(child.read)
                    running.remove(child)
                    if left := child.finish():
                        waiting.appendleft((child.form, left))
                    yield child
            for child in running:
                child.watch()


def fails(form: Format[Any], case: Case, limits: Limits) -> str | None:
    """Run a case in a process of its own; return the signature of its failure."""
    (child,) = _children(deque([(form, [case])]), 1, limits)
    return child.findings[0][1] if child.findings else None


def _alone(form: Format[Any], failure: Failure, seed: int, limits: Limits) -> Case | None:
    """Find a case that fails in a process of its own, and leave out the steps that it does not need."""
    for number in failure.cases:
        case = Case(form.name, seed, number)
        if fails(form, case, limits) is None:
            continue
        kept = case.steps
        for step in case.steps:
            fewer = tuple(other for other in kept if other != step)
            if fails(form, Case(form.name, seed, number, fewer), limits) is not None:
                kept = fewer
        return case if kept == case.steps else Case(form.name, seed, number, kept)
    return None


def is_defect(failure: Failure) -> bool:
    """Whether a failure counts: time that a busy machine took and that a case alone does not take is none."""
    return failure.alone is not None or not failure.problem.startswith("OverTime")


def table(figures: Mapping[str, Figures]) -> str:
    """Return the figures as a Markdown table."""
    rows = [
        "| format | cases | accepted | cases/s | slowest, s | MB | defects |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    total, seconds, defects = 0, 0.0, 0
    for name, found in figures.items():
        part, bad = found.summary, sum(map(is_defect, found.failures.values()))
        rate = part.cases / part.seconds if part.seconds else 0.0
        accepted = part.outcomes.get("accepted", 0) / max(part.cases, 1)
        rows.append(
            f"| {name} | {part.cases:,} | {accepted:.0%} | {rate:,.0f} | {part.slowest:.2f} "
            f"| {part.megabytes:.0f} | {bad} |"
        )
        total, seconds, defects = total + part.cases, seconds + part.seconds, defects + bad
    rows.append(f"| all | {total:,} | | {total / max(seconds, 1e-9):,.0f} | | | {defects} |")
    return "\n".join(rows)


def report(figures: Mapping[str, Figures]) -> Iterator[str]:
    """One line for each failure, with the arguments that run it again."""
    for name, found in figures.items():
        for failure in sorted(found.failures.values(), key=lambda one: -one.count):
            if failure.alone is not None:
                yield f"{failure.count} x {failure.problem}  [{failure.alone.reproduction()}]"
            elif is_defect(failure):
                yield f"{failure.count} x {failure.problem}  [{name}, only after other cases: {failure.cases}]"
            else:
                yield f"not again alone: {failure.count} x {failure.problem}  [{name}: {failure.cases}]"


def minutes(began: float) -> str:
    """Return the time since a moment."""
    return f"{(time.monotonic() - began) / 60:.1f} min"
