"""What a curator should know about points before anything is paid for, and the pre-flight that tells and asks them.

Everything here is computed from private points without payment, for the curator's eyes only: rows that will be dropped,
values out of bounds. It may stop a curator who looks at it; nothing that is published may depend on it.

Only a curator who is there is told and asked: `look=True` in Python, a terminal or ``--look`` on the command line. The
answer is the curator's, and "no" leaves the ledger as it was. A look draws no noise and changes nothing that is
released afterwards. Whoever is not asked by it learns one thing, that a release was or was not made, which is the
curator's decision as it always is.

Without a terminal the answer is read from standard input if one arrives at once; otherwise it is no: nothing waits.
"""

from __future__ import annotations

import io
import math
import select
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.kernels.shift_invariant import ShiftInvariantKernel
from sfumato.methods.outlook import FLAT_DENSITY, SMALL_DENSITY, apart_text
from sfumato.public.shown import shown
from sfumato.quantizers.box import Box
from sfumato.quantizers.phases import NARROWEST_DEFAULT_REACH
from sfumato.sources import Source

FOR_THE_CURATOR = (
    "For the curator's eyes only: these figures are not private. Do not publish them, and do not set bounds, bandwidth "
    "or n from them; use what is public."
)
TIGHT_SHARE = 0.01  # of the values beyond the bounds
WIDE_SHARE = 0.1  # of the bounds' width that the values use
FIRST_ROWS = 100_000  # rows that a look takes, and among which repetitions are looked for
PAIRED_ROWS = 1000  # rows whose pairs are compared


@dataclass
class ColumnFindings:
    """What one column holds."""

    name: str
    missing: int = 0
    infinite: int = 0
    minimum: float | None = None
    maximum: float | None = None
    below: int = 0
    above: int = 0


@dataclass
class Findings:
    """What a source holds; private."""

    columns: list[ColumnFindings]
    rows: int = 0
    dropped: int = 0
    repeated: int = 0
    labels: dict[str, int] | None = None
    warnings: list[str] = field(default_factory=list)

    def to_document(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return asdict(self) | {"note": FOR_THE_CURATOR}


def survey(source: Source, box: Box | None = None, kernel: Kernel | None = None, rows: int | None = None) -> Findings:
    """Read the rows once and gather what a curator should know.

    Parameters
    ----------
    source : Source
        The points.
    box : Box, optional
        Declared bounds, of the columns that are numbers.
    kernel : Kernel, optional
        Whose bandwidth is judged.
    rows : int, optional
        How many to read; all by default.

    Examples
    --------
    >>> from sfumato.sources import open_source
    >>> survey(open_source([[1.0, 5.0], [2.0, 5.0], [None, 5.0]])).warnings[0]
    '1 of 3 (33.33%) rows hold a value that is not a finite number or a known category; a release drops them'
    """
    names = source.column_names or tuple(map(str, range(source.dimension)))
    numbers = [place for place in range(source.dimension) if place not in source.categories]
    findings = Findings([ColumnFindings(names[place]) for place in numbers])
    first: list[NDArray[Any]] = []
    for batch in source.batches():
        batch = batch if rows is None else batch[: rows - findings.rows]
        if findings.rows < FIRST_ROWS:
            first.append(batch[: FIRST_ROWS - findings.rows])
        findings.rows += len(batch)
        findings.dropped += int((~np.isfinite(batch).all(axis=1)).sum())
        for number, (place, column) in enumerate(zip(numbers, findings.columns, strict=True)):
            edges = None if box is None else (box.lower[number], box.upper[number])
            _add(column, batch[:, place], edges)
        if rows is not None and findings.rows >= rows:
            break
    kept = np.concatenate(first) if first else np.empty((0, source.dimension))
    kept = kept[np.isfinite(kept).all(axis=1)]
    findings.repeated = len(kept) - len(np.unique(kept, axis=0))
    findings.warnings = [*_warnings(findings, box), *_kernel_warnings(kept, findings, box, kernel)]
    return findings


def _add(column: ColumnFindings, values: NDArray[Any], edges: tuple[float, float] | None) -> None:
    finite = values[np.isfinite(values)]
    column.missing += int(np.isnan(values).sum())
    column.infinite += int(np.isinf(values).sum())
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        column.minimum = low if column.minimum is None else min(low, column.minimum)
        column.maximum = high if column.maximum is None else max(high, column.maximum)
    if edges is not None:
        column.below += int((finite < edges[0]).sum())
        column.above += int((finite > edges[1]).sum())


def _warnings(findings: Findings, box: Box | None) -> Iterator[str]:
    if findings.rows == 0:
        yield "there are no rows"
        return
    if findings.dropped:
        share = share_text(findings.dropped, findings.rows)
        yield f"{share} rows hold a value that is not a finite number or a known category; a release drops them"
    if findings.repeated:
        looked_at = min(findings.rows, FIRST_ROWS)
        yield (
            f"{findings.repeated} of the first {looked_at} rows repeat another row; a person with several rows is "
            "protected less than the guarantee says for one record"
        )
    for number, column in enumerate(findings.columns):
        if column.minimum is None or column.maximum is None:
            yield f"column {column.name} has no finite number"
            continue
        if column.minimum == column.maximum:
            yield f"column {column.name} holds one value only"
        if box is not None:
            edges = box.lower[number], box.upper[number]
            yield from _bounds_warnings(column, findings.rows, column.minimum, column.maximum, *edges)


def _bounds_warnings(
    column: ColumnFindings, rows: int, low: float, high: float, lower: float, upper: float
) -> Iterator[str]:
    if column.below or column.above:
        beyond = column.below + column.above
        tight = "; the bounds look too tight" if beyond > TIGHT_SHARE * rows else ""
        where = f"{column.below} values lie below {lower:g} and {column.above} above {upper:g}"
        yield f"column {column.name}: {where} ({beyond / rows:.1%} of the rows){tight}"
    used = (min(high, upper) - max(low, lower)) / (upper - lower)
    if used < 0:
        yield f"column {column.name}: no value lies within the bounds {lower:g} to {upper:g}; are the columns in order?"
    elif used < WIDE_SHARE:
        wide = f"the bounds {lower:g} to {upper:g} look too wide"
        yield f"column {column.name}: {wide}, the values use {used:.2%} of them"


def _kernel_warnings(kept: NDArray[Any], findings: Findings, box: Box | None, kernel: Kernel | None) -> Iterator[str]:
    """Judge a bandwidth as a plan does, by the mean similarity of two records; here by that of the records."""
    if not isinstance(kernel, ShiftInvariantKernel) or len(kept) < 2:
        return
    if box is None:
        yield from _reach_warnings(findings, kernel)
    else:
        kept = np.clip(kept, np.array(box.lower), np.array(box.upper))
    some = kept[np.random.default_rng(0).choice(len(kept), min(len(kept), PAIRED_ROWS), replace=False)]
    values = kernel.value(some, some)
    density = float((values.sum() - np.trace(values)) / (len(some) * (len(some) - 1)))
    if density > FLAT_DENSITY:
        yield f"the bandwidth is wide for these points: two are alike by {density:.2g}, so the density will look flat"
    elif density < SMALL_DENSITY:
        lengths = kernel.column_scales(some.shape[1])
        apart = math.sqrt(2 * float(np.square((some - some.mean(axis=0)) / lengths).sum(axis=1).mean()))
        yield (
            f"the bandwidth is too small for these points: {apart_text(apart)}, and the mean similarity of two is "
            f"{density:.2g}, which private answers can hardly tell from 0"
        )


def _reach_warnings(findings: Findings, kernel: ShiftInvariantKernel) -> Iterator[str]:
    safe = 2**NARROWEST_DEFAULT_REACH
    for column, length in zip(findings.columns, kernel.column_scales(len(findings.columns)), strict=True):
        reach = max(abs(column.minimum or 0.0), abs(column.maximum or 0.0)) / length
        if reach > safe:
            yield (
                f"column {column.name}: values lie up to {reach:.3g} bandwidths from 0, and the box used without "
                f"--bounds may reach only {safe}; pass --bounds"
            )


def share_text(part: int, whole: int) -> str:
    """Show a share for people.

    Examples
    --------
    >>> share_text(1, 8)
    '1 of 8 (12.50%)'
    """
    return f"{part} of {whole} ({part / whole:.2%})"


PATIENCE = 2.0  # seconds that an answer may take to arrive through a pipe

Ask = Callable[[Findings], bool]


def check_readable(source: Source) -> None:
    """Refuse to look at what can be read only once."""
    if not source.repeatable:
        raise InputError("look=True reads the first rows twice, and this source can be read only once: leave it out")


def look_at(source: Source, box: Box | None, kernel: Kernel | None = None) -> None:
    """Look at the first rows, and ask the curator where something is odd."""
    check_readable(source)
    go_on(survey(source, box, kernel, FIRST_ROWS))


def go_on(findings: Findings, ask: Ask | None = None) -> None:
    """Ask the curator about what was found, if anything was; a no ends the run, unpaid."""
    if findings.warnings and not (ask or asked_in_words)(findings):
        raise InputError("stopped before anything was charged or released, as the answer was no")


def asked_in_words(findings: Findings) -> bool:
    """Print what was found on standard error, and read the answer."""
    looked = "first " if findings.rows >= FIRST_ROWS else ""
    _print_aside(f"{FOR_THE_CURATOR}\nIn the {looked}{findings.rows} rows:")
    for text in findings.warnings:
        _print_aside(f"- {shown(text)}")
    return answered_yes("Go on, and spend the budget? [y/N] ")


def answered_yes(question: str) -> bool:
    """Ask on standard error; what is not a yes is a no, and so is silence where there is no terminal.

    Examples
    --------
    >>> kept, sys.stdin = sys.stdin, io.StringIO("yes")
    >>> answered_yes("Go on? ")
    True
    >>> sys.stdin = kept
    """
    _print_aside(question, end="")
    answer = sys.stdin.readline() if sys.stdin is not None and _answers(sys.stdin) else ""
    if not answer.endswith("\n"):
        _print_aside("")
    return answer.strip().lower() in ("y", "yes")


def _print_aside(text: str, end: str = "\n") -> None:
    if sys.stderr is not None:  # where there is none, `print` would take standard output, which may be published
        print(text, end=end, file=sys.stderr, flush=True)


def _answers(stream: TextIO) -> bool:
    """Tell whether reading a line will not wait for ever."""
    try:
        return stream.isatty() or bool(select.select([stream.fileno()], [], [], PATIENCE)[0])
    except (io.UnsupportedOperation, OSError, ValueError):
        return isinstance(stream, io.TextIOBase) and not stream.closed  # in memory: nothing to wait for
