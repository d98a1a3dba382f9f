"""`sfumato bandwidth`: a bandwidth from public points, or bought from private ones."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.arguments import (
    LEDGER_HELP,
    BoundsOption,
    ColumnsOption,
    DataArgument,
    JsonOption,
    dataset_name,
    open_ledger,
    parse_bounds,
    parse_columns,
)
from sfumato.cli.console import facts, print_json, say, warn
from sfumato.cli.ledger import account_document, standing_text
from sfumato.cli.release import Neighbours, Outside
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.bandwidth import PrivateBandwidth
    from sfumato.privacy.ledger import Account

EXAMPLES = (
    "[bold]Examples[/]: sfumato bandwidth last-year.csv --public --columns lon,lat\n\n"
    "sfumato bandwidth trips.csv --private --epsilon 0.1 --n-hint 100000 --columns lon,lat --bounds lon=4.7,5.1 "
    "--bounds lat=52.2,52.5"
)

CHOICE, PRIVACY = "How to choose", "Private points"


class Rule(StrEnum):
    """Rules of thumb, as flags' values."""

    SCOTT = "scott"
    SILVERMAN = "silverman"


def bandwidth(
    data: DataArgument,
    public: Annotated[
        bool, typer.Option("--public", help="The points are public: nothing is spent.", rich_help_panel=CHOICE)
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="The points are private: epsilon is spent.", rich_help_panel=CHOICE)
    ] = False,
    target_density: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Wanted mean similarity of two records; 0.02 unless a rule is given.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    rule: Annotated[
        Rule | None,
        typer.Option(help="Rule of thumb, one length a column; good in one to three columns.", rich_help_panel=CHOICE),
    ] = None,
    kernel: Annotated[str, typer.Option(metavar="NAME", help="As in release.", rich_help_panel=CHOICE)] = "gaussian",
    columns: ColumnsOption = None,
    bounds: BoundsOption = None,
    epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="What the bandwidth may cost.", rich_help_panel=PRIVACY)
    ] = None,
    n_hint: Annotated[
        int | None, typer.Option(metavar="N", help="Public guess of the number of rows.", rich_help_panel=PRIVACY)
    ] = None,
    neighbours: Annotated[Neighbours, typer.Option(help="As in release.", rich_help_panel=PRIVACY)] = (
        Neighbours.ADD_REMOVE
    ),
    outside: Annotated[Outside, typer.Option(help="As in release.", rich_help_panel=PRIVACY)] = Outside.CLIP,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The data's account in the ledger, as in release.", rich_help_panel=PRIVACY),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="PATH", help=LEDGER_HELP, show_default=False, rich_help_panel=PRIVACY)
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Keep no record of the spending.", rich_help_panel=PRIVACY)
    ] = False,
    seed_noise_not_private: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Seed the noise, for tests: the bandwidth is NOT PRIVATE and nothing is charged.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose a bandwidth for DATA: free from public points, or bought from the private ones.

    A bandwidth that follows private points without payment would leak them. Say with --public or --private which kind
    the points in DATA are; a bandwidth bought from private points is as public as a release.
    """
    from sfumato.bandwidth import from_public
    from sfumato.bandwidth import private as buy
    from sfumato.sources import open_source

    if public == private:
        raise InputError("say whether the points are public or private: pass either --public or --private")
    source = open_source(data, parse_columns(columns, data))
    choice: dict[str, Any] = {
        "target_density": target_density,
        "rule": None if rule is None else rule.value,
        "kernel": kernel,
    }
    if public:
        lengths = from_public(source, **choice)
        document = {"bandwidth": lengths if isinstance(lengths, float) else lengths.tolist()}
        print_json(document) if as_json else facts([("bandwidth", lengths_text(document["bandwidth"]))])
        return
    _check_needed(epsilon, n_hint, bounds)
    account = None
    if not no_ledger and seed_noise_not_private is None:
        account = open_ledger(ledger).account(dataset or dataset_name(data))
    bought = buy(
        source,
        epsilon=epsilon,
        bounds=parse_bounds(bounds, source),
        n_hint=int(n_hint or 0),
        neighbours=neighbours.value,
        outside=outside.value,
        ledger=account,
        random_state=seed_noise_not_private,
        **choice,
    )
    _report(bought, account, as_json)


def _check_needed(epsilon: str | None, n_hint: int | None, bounds: list[str] | None) -> None:
    for flag, value in (("--epsilon E", epsilon), ("--n-hint N", n_hint), ("--bounds LO,HI", bounds)):
        if value is None:
            name = flag.split()[0]
            raise InputError(
                f"{name} is missing: a bandwidth from private points needs {flag}, chosen from what is public"
            )


def lengths_text(lengths: Any) -> str:
    """Write a bandwidth as --bandwidth takes it.

    Examples
    --------
    >>> lengths_text(0.25), lengths_text([1.5, 2.0])
    ('0.25', '1.5,2')
    """
    return f"{lengths:.6g}" if isinstance(lengths, float) else ",".join(f"{length:.6g}" for length in lengths)


def _report(bought: PrivateBandwidth, account: Account | None, as_json: bool) -> None:
    if not bought.guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed. Do not publish this bandwidth. Nothing was charged.")
    if as_json:
        ledger = None if account is None else account_document(account)
        print_json(bought.to_document() | {"ledger": ledger, "statement": bought.guarantee.statement()})
        return
    facts(
        [
            (
                "bandwidth",
                f"{lengths_text(bought.bandwidth)} (noise: {bought.predicted_error:.0%} at three deviations)",
            ),
            ("guarantee", str(bought.guarantee)),
            ("ledger", "no record was kept" if account is None else standing_text(account)),
        ]
    )
    say(f"\n{bought.guarantee.statement()}")
