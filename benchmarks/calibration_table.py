"""The table of calibrations for `make audit`: every mechanism, every variant, what it gives away, and its twins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from sfumato.audit import AuditResult, CalibrationCase, audit
from sfumato.audit.cases.twins_calibrations import (
    GENEROUS,
    MADE,
    CalibrationTwin,
    harmless,
    made_twins,
    offered,
    slips,
    twins_of,
)
from sfumato.audit.cases.variants import SUBJECTS


@dataclass(frozen=True)
class Row:
    """One variant of a mechanism.

    Attributes
    ----------
    mechanism, variant : str
        Which.
    worst : AuditResult
        The request that gives away the largest part of its claim.
    requests : int
        How many were checked.
    caught, missed, harmless : tuple of str
        Mistakes that the check finds, those that it should find and does not, and those that give away no more than is
        stated.
    """

    mechanism: str
    variant: str
    worst: AuditResult
    requests: int
    caught: tuple[str, ...]
    missed: tuple[str, ...]
    harmless: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """Whether the claim is kept and no twin was missed."""
        return self.worst.holds and not self.missed


def rows() -> Iterator[Row]:
    """Check everything."""
    broken: dict[tuple[str, str], list[CalibrationTwin]] = {}
    for twin in slips():
        broken.setdefault((twin.mechanism, str(twin.variant)), []).append(twin)
    for method in SUBJECTS:
        twins: dict[str, list[CalibrationTwin]] = {}
        for twin in twins_of(method):
            twins.setdefault(str(twin.variant), []).append(twin)
        for variant, builds in offered(method).items():
            made = [*twins.get(str(variant), []), *broken.get((method, str(variant)), [])]
            found = {twin.mistake: _caught(twin.cases) for twin in made}
            known = {twin.mistake for twin in made if harmless(method, variant, twin.mistake)}
            yield _row(method, str(variant), [built.case() for built in builds], found, known)
    for mechanism in MADE:
        for right, wrong in made_twins(mechanism):
            known = {mistake for mistake in wrong if (mechanism, right.name, mistake) in GENEROUS}
            found = {mistake: _caught((case,)) for mistake, case in wrong.items()}
            yield _row(mechanism, right.name, [right], found, known)


def _caught(cases: tuple[CalibrationCase, ...]) -> bool:
    return any(not audit(case).holds for case in cases)


def _row(mechanism: str, variant: str, cases: list[CalibrationCase], found: dict[str, bool], known: set[str]) -> Row:
    worst = max(map(audit, cases), key=lambda result: result.lower_bound / result.claim.value)
    return Row(
        mechanism,
        variant,
        worst,
        len(cases),
        caught=tuple(mistake for mistake, caught in found.items() if caught),
        missed=tuple(mistake for mistake, caught in found.items() if not caught and mistake not in known),
        harmless=tuple(sorted(known)),
    )


def table(checked: list[Row]) -> Any:
    """Lay out the rows."""
    laid = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("mechanism", "variant", "claim", "gives away", "requests", "twins caught", "verdict"):
        laid.add_column(heading, justify="right" if heading in ("gives away", "requests", "verdict") else "left")
    for row in checked:
        notes = [*row.caught, *(f"({mistake}: harmless)" for mistake in row.harmless)]
        notes += [f"MISSED: {mistake}" for mistake in row.missed]
        verdict = row.worst.verdict if not row.missed else "MISSED"
        laid.add_row(
            row.mechanism,
            row.variant,
            str(row.worst.claim),
            f"{row.worst.lower_bound:.4f}",
            str(row.requests),
            "; ".join(notes),
            Text(verdict, style="green" if row.fine else "bold red"),
        )
    return laid
