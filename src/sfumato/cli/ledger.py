"""`sfumato ledger`: what each data set may spend and has spent."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.arguments import JsonOption, LedgerOption, dataset_name, open_ledger
from sfumato.cli.console import facts, out, print_json, warn
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Account, Ledger

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="See and set what each data set may spend.\n\n"
    "A data set without a budget is recorded and never refused; with one, a release that does not fit is refused.",
)


class Rule(StrEnum):
    """How charges add up; the names that the ledger knows."""

    BASIC = "basic"
    GDP = "gdp"
    ZCDP = "zcdp"
    PLD = "pld"


DATASET_HELP = "The data set's name, or the path of its file."


@app.command(epilog="[bold]Example[/]: sfumato ledger show trips.csv")
def show(
    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help=DATASET_HELP, show_default=False)] = None,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every data set's spending, or all charges of one."""
    book = open_ledger(ledger)
    if dataset is None:
        documents = [account_document(book.account(name)) for name in book.datasets]
        print_json({"ledger": str(book.path), "datasets": documents}) if as_json else _print_overview(book, documents)
        return
    account = book.account(find_dataset(book, dataset))
    if account.dataset not in book.datasets:
        known = ", ".join(map(repr, book.datasets)) or "none"
        raise InputError(f"the ledger knows no data set {dataset!r}; its data sets are: {known}")
    if as_json:
        print_json(account_document(account) | {"charges": _charge_documents(account)})
    else:
        _print_account(account)


@app.command(epilog="[bold]Example[/]: sfumato ledger budget trips.csv --epsilon 3")
def budget(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=DATASET_HELP, show_default=False)],
    epsilon: Annotated[str, typer.Option(metavar="E", help="Epsilon that may be spent in all, spent parts included.")],
    delta: Annotated[float, typer.Option(metavar="D", help="Delta that may be spent in all.")] = 0.0,
    rule: Annotated[
        Rule,
        typer.Option(
            help="How spending adds up: basic sums; gdp and zcdp are tighter for releases with delta > 0; pld is "
            "tightest, for lists of releases fixed in advance."
        ),
    ] = Rule.BASIC,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set what a data set may spend in all; releases beyond it are refused."""
    from sfumato.privacy.accounting import CONDITIONS

    book = open_ledger(ledger)
    account = book.account(find_dataset(book, dataset))
    account.set_budget(epsilon, delta, rule=rule.value)
    if rule.value in CONDITIONS:
        warn(f"the rule {rule.value} holds on one condition: {CONDITIONS[rule.value]}")
    if as_json:
        print_json(account_document(account))
    else:
        facts([("ledger", standing_text(account))])


@app.command()
def path(as_json: JsonOption = False) -> None:
    """Show where the default ledger is; the environment variable SFUMATO_LEDGER moves it."""
    where = str(open_ledger(None).path)
    print_json({"ledger": where}) if as_json else typer.echo(where)


def find_dataset(book: Ledger, text: str) -> str:
    """Account that a name or a file's path means; a name that the ledger knows comes first."""
    if book.account(text).dataset not in book.datasets and os.path.exists(text):
        return dataset_name(text)
    return text


def account_document(account: Account) -> dict[str, Any]:
    """Budget, spending and rest of one data set as JSON values; epsilons are text, so that no digit is lost."""

    def pair(amounts: tuple[Any, float] | None) -> dict[str, Any] | None:
        return None if amounts is None else {"epsilon": str(amounts[0]), "delta": amounts[1]}

    return {
        "path": str(account.ledger.path),
        "dataset": account.dataset,
        "rule": account.rule,
        "budget": pair(account.budget),
        "spent": pair(account.spent),
        "remaining": pair(account.remaining),
    }


def _charge_documents(account: Account) -> list[dict[str, Any]]:
    return [charge.to_document() for charge in account.charges]


def standing_text(account: Account) -> str:
    """Say in one line what a data set has spent and has left."""
    from decimal import ROUND_FLOOR

    from sfumato.privacy.guarantee import amount_text

    epsilon, delta = account.spent
    spent = f"data set {account.dataset!r} has spent epsilon = {amount_text(epsilon)}, delta = {delta!r}"
    if account.rule != "basic":
        spent += f" by the rule {account.rule}"
    budget, remaining = account.budget, account.remaining
    if budget is None or remaining is None:
        return f"{spent}; no budget is set (sfumato ledger budget DATASET --epsilon E sets one)"
    left = f"epsilon = {amount_text(remaining[0], ROUND_FLOOR)}, delta = {remaining[1]!r}"
    return f"{spent}; {left} remains of {amount_text(budget[0], ROUND_FLOOR)}, {budget[1]!r}"


def _amounts(pair: dict[str, Any] | None, rounding: str) -> str:
    from fractions import Fraction

    from sfumato.privacy.guarantee import amount_text

    if pair is None:
        return "no limit"
    epsilon = amount_text(Fraction(pair["epsilon"]), rounding)
    return f"{epsilon}, {pair['delta']!r}" if pair["delta"] else epsilon


def _print_overview(book: Ledger, documents: list[dict[str, Any]]) -> None:
    from decimal import ROUND_CEILING, ROUND_FLOOR

    from rich.table import Table
    from rich.text import Text

    facts([("ledger", str(book.path))])
    if not documents:
        out.print("No data set has a budget or a charge yet.")
        return
    table = Table("data set", "spent", "remains", "budget", caption="epsilon, and delta where it is not 0")
    for document in documents:
        table.add_row(
            Text(document["dataset"], overflow="fold"),
            _amounts(document["spent"], ROUND_CEILING),
            _amounts(document["remaining"], ROUND_FLOOR),
            _amounts(document["budget"], ROUND_FLOOR),
        )
    out.print(table)


def _print_account(account: Account) -> None:
    from rich.table import Table
    from rich.text import Text

    from sfumato.privacy.guarantee import amount_text

    facts([("ledger", str(account.ledger.path)), ("standing", standing_text(account))])
    table = Table("charge", "epsilon", "delta", "relation", "note")
    for charge in account.charges:
        relation = f"{charge.neighbours}, {charge.unit}"
        table.add_row(charge.mechanism, amount_text(charge.epsilon), repr(charge.delta), relation, Text(charge.note))
    out.print(table)
