"""`sfumato audit`: attack the library's own mechanisms and compare what they leak with what they claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import flags
from sfumato.cli.console import complain, out, print_json
from sfumato.cli.flags import argument, flag

if TYPE_CHECKING:
    from sfumato.audit import AuditResult

EXAMPLES = "[bold]Examples[/]:\n\nsfumato audit\n\nsfumato audit fourier count --trials 1000000"

BROKEN = 1


def audit(
    methods: Annotated[list[str] | None, argument("Mechanisms by name; all by default.", "METHOD")] = None,
    trials: Annotated[int, flag("Runs on either of two neighbouring data sets, per case.", "N", min=1)] = 100_000,
    as_json: flags.Json = False,
) -> None:
    """Run mechanisms on worst-case neighbouring data sets and certify what they leak at least; exit code 1 if too much.

    A bound above the claim proves a mechanism broken; one that keeps its claim is accused once in a million audits.
    A bound below the claim is no proof of privacy: that stands beside each mechanism in its documentation. Cases named
    "calibration" compute the loss of every variant from its noise law and the worst records found; they are exact.
    """
    from sfumato.audit import audit as run_audit
    from sfumato.audit import load_library, registered

    load_library()

    results = [(mechanism, run_audit(case, trials)) for mechanism, case in registered(methods or ())]
    if as_json:
        print_json([{"mechanism": mechanism, **result.to_document()} for mechanism, result in results])
    else:
        out().print(results_table(results))
    broken = sum(not result.holds for _, result in results)
    if broken:
        complain(f"error: {broken} of {len(results)} audits leak more than their mechanism claims")
        raise typer.Exit(BROKEN)


def results_table(results: list[tuple[str, AuditResult]], wanted: bool = True) -> Any:
    """Lay out results; a verdict other than `wanted` stands out."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("mechanism", "case", "claim"):
        table.add_column(heading, no_wrap=heading == "mechanism")
    for heading in ("leaks at least", "samples", "seconds", "verdict"):
        table.add_column(heading, justify="right", no_wrap=heading == "samples")
    for mechanism, result in results:
        table.add_row(
            mechanism,
            result.name,
            str(result.claim),
            f"{result.lower_bound:.3f}",
            "exact" if result.exact else f"{result.samples:,}",
            f"{result.seconds:.1f}",
            Text(result.verdict, style="green" if result.holds == wanted else "bold red"),
        )
    return table
