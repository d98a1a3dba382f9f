"""`sfumato check`: what a curator should know about a file before releasing it. Its findings are private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import flags
from sfumato.cli.console import facts, out, print_json, say, warn
from sfumato.cli.flags import flag, parse_bandwidth, parse_bounds, parse_columns
from sfumato.public.shown import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.quantizers.box import Box
    from sfumato.sources import Source

EXAMPLES = "[bold]Example[/]: sfumato check trips.csv --columns lon,lat --bounds lon=4.7,5.1 --bounds lat=52.2,52.5"

FOR_THE_CURATOR = (
    "For the curator's eyes only: these figures are not private. Do not publish them, and do not set bounds, bandwidth "
    "or n from them; use what is public."
)
TIGHT_SHARE = 0.01  # of the values beyond the bounds
WIDE_SHARE = 0.1  # of the bounds' width that the values use
DUPLICATE_ROWS = 100_000  # rows among which repetitions are looked for


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
    warnings: list[str] = field(default_factory=list)


def check(
    data: flags.Data,
    columns: flags.Columns = None,
    bounds: flags.Bounds = None,
    bandwidth: Annotated[str | None, flag("Also see whether this bandwidth suits the points' extent.", "B")] = None,
    as_json: flags.Json = False,
) -> None:
    """Tell the curator, and nobody else, what is wrong with a file: rows that will be dropped, values out of bounds.

    Reads the file once, writes nothing, spends nothing. Warnings do not change the exit code.
    """
    from sfumato.quantizers.box import Box
    from sfumato.sources import open_source

    source = open_source(data, parse_columns(columns, data))
    given = parse_bounds(bounds, source)
    box = None if given is None else Box.from_bounds(given, source.dimension)
    lengths = None if bandwidth is None else _column_lengths(bandwidth, source.dimension)
    findings = survey(source, box, lengths)
    if as_json:
        print_json(asdict(findings) | {"note": FOR_THE_CURATOR})
    else:
        print_findings(findings, box)


def _column_lengths(bandwidth: str, dimension: int) -> list[float]:
    from sfumato.kernels import Gaussian

    lengths: list[float] = Gaussian(parse_bandwidth(bandwidth)).column_scales(dimension).tolist()
    return lengths


def survey(source: Source, box: Box | None = None, lengths: Sequence[float] | None = None) -> Findings:
    """Read all rows once and gather what a curator should know.

    Parameters
    ----------
    source : Source
        The points.
    box : Box, optional
        Declared bounds.
    lengths : sequence of float, optional
        The bandwidth of each column.
    """
    import numpy as np

    names = source.column_names or tuple(map(str, range(source.dimension)))
    findings = Findings([ColumnFindings(name) for name in names])
    first: list[NDArray[Any]] = []
    for batch in source.batches():
        if findings.rows < DUPLICATE_ROWS:
            first.append(batch[: DUPLICATE_ROWS - findings.rows])
        findings.rows += len(batch)
        findings.dropped += int((~np.isfinite(batch).all(axis=1)).sum())
        for number, column in enumerate(findings.columns):
            edges = None if box is None else (box.lower[number], box.upper[number])
            _add(column, batch[:, number], edges)
    findings.repeated = _repetitions(first)
    findings.warnings = list(_warnings(findings, box, lengths))
    return findings


def _add(column: ColumnFindings, values: NDArray[Any], edges: tuple[float, float] | None) -> None:
    import numpy as np

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


def _repetitions(blocks: list[NDArray[Any]]) -> int:
    import numpy as np

    rows = np.concatenate(blocks) if blocks else np.empty((0, 1))
    finite = rows[np.isfinite(rows).all(axis=1)]
    return len(finite) - len(np.unique(finite, axis=0))


def _warnings(findings: Findings, box: Box | None, lengths: Sequence[float] | None) -> Iterator[str]:
    if findings.rows == 0:
        yield "there are no rows"
        return
    if findings.dropped:
        share = _share(findings.dropped, findings.rows)
        yield f"{share} rows hold a value that is not a finite number; a release drops them"
    if findings.repeated:
        looked_at = min(findings.rows, DUPLICATE_ROWS)
        yield (
            f"{findings.repeated} of the first {looked_at} rows repeat another row; a person with several rows is "
            "protected less than the guarantee says for one record"
        )
    for number, column in enumerate(findings.columns):
        if column.minimum is None or column.maximum is None:
            yield f"column {column.name} has no finite number"
        else:
            length = None if lengths is None else lengths[number]
            yield from _extent_warnings(column, column.minimum, column.maximum, length, box is None)
            if box is not None:
                edges = box.lower[number], box.upper[number]
                yield from _bounds_warnings(column, findings.rows, column.minimum, column.maximum, *edges)


def _extent_warnings(
    column: ColumnFindings, low: float, high: float, length: float | None, boundless: bool
) -> Iterator[str]:
    from sfumato.quantizers.phases import NARROWEST_DEFAULT_REACH

    if low == high:
        yield f"column {column.name} holds one value only"
    if length is None:
        return
    if length > high - low:
        yield f"column {column.name}: the bandwidth {length:g} exceeds the values' extent; the density will look flat"
    reach, safe = max(abs(low), abs(high)) / length, 2**NARROWEST_DEFAULT_REACH
    if boundless and reach > safe:
        yield (
            f"column {column.name}: values lie up to {reach:.3g} bandwidths from 0, and the box used without --bounds "
            f"may reach only {safe}; pass --bounds"
        )


def _bounds_warnings(
    column: ColumnFindings, rows: int, low: float, high: float, lower: float, upper: float
) -> Iterator[str]:
    if column.below or column.above:
        tight = "; the bounds look too tight" if column.below + column.above > TIGHT_SHARE * rows else ""
        beyond = f"{column.below} values lie below {lower:g} and {column.above} above {upper:g}"
        yield f"column {column.name}: {beyond}{tight}"
    used = (min(high, upper) - max(low, lower)) / (upper - lower)
    if used < WIDE_SHARE:
        share = f"the values use {max(used, 0):.2%} of them"
        yield f"column {column.name}: the bounds {lower:g} to {upper:g} look too wide, {share}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.2%})"


def print_findings(findings: Findings, box: Box | None) -> None:
    """Print what was found as a table, with the warnings below it."""
    from rich.table import Table
    from rich.text import Text

    warn(FOR_THE_CURATOR)
    facts([("rows", str(findings.rows)), ("dropped", _dropped_text(findings)), ("repeated", str(findings.repeated))])
    table = Table("column", "smallest", "largest", "missing or text", "infinite", *(["below", "above"] if box else []))
    for column in findings.columns:
        extent = [f"{value:.6g}" if value is not None else "-" for value in (column.minimum, column.maximum)]
        counts = [column.missing, column.infinite, *([column.below, column.above] if box else [])]
        table.add_row(Text(shown(column.name)), *extent, *map(str, counts))
    out.print(table)
    for text in findings.warnings:
        out.print(Text.assemble(("warning ", "yellow"), shown(text)), soft_wrap=True)
    if not findings.warnings:
        say("Nothing to warn about.")


def _dropped_text(findings: Findings) -> str:
    return _share(findings.dropped, findings.rows) if findings.rows else "0"
