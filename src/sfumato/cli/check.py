"""`sfumato check`: what a curator should know about a file before releasing it. Its findings are private."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sfumato.cli import flags
from sfumato.cli.console import facts, out, print_json, say, warn
from sfumato.cli.flags import flag
from sfumato.cli.typed import one_column, parse_bandwidth, parse_bounds, parse_classes, parse_columns
from sfumato.errors import InputError
from sfumato.public.shown import shown

if TYPE_CHECKING:
    from sfumato.central.survey import Findings
    from sfumato.quantizers.box import Box

EXAMPLES = "[bold]Example[/]: sfumato check trips.csv --columns lon,lat --bounds lon=4.7,5.1 --bounds lat=52.2,52.5"


def check(
    data: flags.Data,
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    bounds: flags.Bounds = None,
    bandwidth: Annotated[str | None, flag("Also see whether this bandwidth suits the points.", "B")] = None,
    kernel: Annotated[str, flag("As in release.", "NAME")] = "gaussian",
    label_column: Annotated[str | None, flag("With --classes: the column of the labels.", "NAME")] = None,
    classes: Annotated[str | None, flag("The classes, as in classify fit.", "A,B,...")] = None,
    as_json: flags.Json = False,
) -> None:
    """Tell the curator, and nobody else, what is wrong with a file: rows that will be dropped, values out of bounds.

    Reads the file once (twice with labels), writes nothing, spends nothing. Warnings do not change the exit code.
    """
    from sfumato.central.survey import survey
    from sfumato.kernels import get_kernel
    from sfumato.quantizers.box import Box
    from sfumato.sources import arguments_named, open_source

    if (label_column is None) != (classes is None):
        raise InputError("labels are checked against classes: pass both --label-column NAME and --classes A,B,...")
    key = one_column(label_column, data)
    with arguments_named(key="--label-column"):
        source = open_source(data, parse_columns(columns, data), key=key, separator=separator, decimal=decimal)
    given = parse_bounds(bounds, source)
    box = None if given is None else Box.from_bounds(given, source.dimension)
    findings = survey(source, box, None if bandwidth is None else get_kernel(kernel, parse_bandwidth(bandwidth)))
    if classes is not None:
        from sfumato.learn.label_check import add_labels

        add_labels(findings, source, str(label_column), parse_classes(classes))
    if as_json:
        print_json(findings.to_document())
    else:
        print_findings(findings, box)


def print_findings(findings: Findings, box: Box | None) -> None:
    """Print what was found as a table, with the warnings below it."""
    from rich.table import Table
    from rich.text import Text

    from sfumato.central.survey import FOR_THE_CURATOR

    warn(FOR_THE_CURATOR)
    facts([("rows", str(findings.rows)), ("dropped", _dropped_text(findings)), ("repeated", str(findings.repeated))])
    table = Table("column", "smallest", "largest", "missing or text", "infinite", *(["below", "above"] if box else []))
    for column in findings.columns:
        extent = [f"{value:.6g}" if value is not None else "-" for value in (column.minimum, column.maximum)]
        counts = [column.missing, column.infinite, *([column.below, column.above] if box else [])]
        table.add_row(Text(shown(column.name)), *extent, *map(str, counts))
    out().print(table)
    if findings.labels is not None:
        facts([("labels", ", ".join(f"{name}: {count}" for name, count in findings.labels.items()))])
    for text in findings.warnings:
        out().print(Text.assemble(("warning ", "yellow"), shown(text)), soft_wrap=True)
    if not findings.warnings:
        say("Nothing to warn about.")


def _dropped_text(findings: Findings) -> str:
    from sfumato.central.survey import share_text

    return share_text(findings.dropped, findings.rows) if findings.rows else "0"
