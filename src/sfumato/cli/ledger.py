"""`sfumato ledger`: what each data set may spend and has spent; and whose account a command charges.

A data set without a name of its own is its file or folder (`privacy.datasets`): the path without links, whatever
array, columns, pattern or spelling was asked for.

A budget must not vanish with the ledger that held it. Whenever one is set, the ledger's path and the data set are noted
in the user's configuration folder (``XDG_CONFIG_HOME``, by default ``~/.config``, below ``sfumato/budgets``). A ledger
that has such a note and is gone, or has lost the budget, refuses every charge until it is put back or the note deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import flags
from sfumato.cli.console import facts, out, print_json, tell, warn
from sfumato.cli.flags import argument, flag
from sfumato.errors import InputError, LedgerError, StorageError
from sfumato.owner import private_folder, user_folder
from sfumato.privacy.datasets import account_among, identity_of, is_pattern, kind_of, related
from sfumato.public.canonical_json import parse
from sfumato.public.shown import shown
from sfumato.storage import AtomicFile

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


DATASET = argument("The data set's name, or the path of its file.", "DATASET")


@app.command(epilog="[bold]Example[/]: sfumato ledger show trips.csv")
def show(
    dataset: Annotated[str | None, DATASET] = None, ledger: flags.Ledger = None, as_json: flags.Json = False
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
    dataset: Annotated[str, DATASET],
    epsilon: Annotated[str, flag("Epsilon that may be spent in all, spent parts included.", "E")],
    delta: Annotated[float, flag("Delta that may be spent in all.", "D")] = 0.0,
    rule: Annotated[
        Rule,
        flag(
            "How spending adds up: basic sums; gdp and zcdp are tighter for releases with delta > 0; pld is "
            "tightest, for lists of releases fixed in advance."
        ),
    ] = Rule.BASIC,
    ledger: flags.Ledger = None,
    as_json: flags.Json = False,
) -> None:
    """Set what a data set may spend in all; releases beyond it are refused."""
    from sfumato.privacy.accounting import CONDITIONS

    book = open_ledger(ledger)
    account = book.account(find_dataset(book, dataset))
    check_noted(account)
    account.set_budget(epsilon, delta, rule=rule.value)
    note_budget(account)
    if rule.value in CONDITIONS:
        warn(f"the rule {rule.value} holds on one condition: {CONDITIONS[rule.value]}")
    tell(account_document(account), [("ledger", standing_text(account))], as_json=as_json)


@app.command()
def path(as_json: flags.Json = False) -> None:
    """Show where the default ledger is; the environment variable SFUMATO_LEDGER moves it."""
    where = str(open_ledger(None).path)
    print_json({"ledger": where}) if as_json else typer.echo(where)


def open_ledger(path: Path | None) -> Ledger:
    """Open the ledger at `path`, or the default one."""
    from sfumato.privacy.ledger import Ledger, default_ledger_path

    return Ledger(default_ledger_path() if path is None else path)


def account_to_charge(
    data: str, dataset: str | None, ledger: Path | None, no_ledger: bool, seed: int | None
) -> Account | None:
    """Account that a command charges; None where nothing is kept, or nothing spent because the noise has a seed."""
    if no_ledger or seed is not None:
        return None
    book = open_ledger(ledger)
    account = book.account(find_dataset(book, dataset)) if dataset else book.account_of(data)
    check_noted(account)
    return account


def _notes(ledger: Ledger) -> list[Path]:
    """Where the budgets of a ledger are noted; beside it where the user has no folder for configuration.

    There is a note for each of its names: the link by which it is reached may go, and the file stay.
    """
    chosen = user_folder("XDG_CONFIG_HOME", ".config")
    return [
        (chosen or name.parent) / "sfumato" / "budgets" / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}.json"
        for name in ledger.names
    ]


def _noted(note: Path) -> set[str]:
    try:
        names = parse(note.read_bytes())["datasets"]
        if not all(isinstance(name, str) for name in names):
            raise TypeError("its names are no text")
        return set(names)
    except FileNotFoundError:
        return set()
    except (OSError, InputError, KeyError, TypeError) as error:
        raise StorageError(
            f"the note of the ledger's budgets {str(note)!r} cannot be read ({error}); set the budgets again after "
            "deleting it"
        ) from error


def note_budget(account: Account) -> None:
    """Note that a data set has a budget, so that the ledger cannot vanish unnoticed."""
    try:
        for note in _notes(account.ledger):
            private_folder(note.parent)
            with account.ledger.locked():  # another run may note a budget too
                document = {"ledger": str(account.ledger.path), "datasets": sorted(_noted(note) | {account.dataset})}
                with AtomicFile(note, overwrite=True, private=True) as file:
                    file.write(json.dumps(document).encode())
    except (OSError, RuntimeError, StorageError, LedgerError) as error:  # a read-only or homeless machine
        warn(f"the budget is set; should the ledger be moved away nobody will notice, for no note was written: {error}")


def check_noted(account: Account) -> None:
    """Refuse to charge where a budget was set and its ledger is gone, or has forgotten it."""
    path = account.ledger.path
    if path is None:
        return
    try:
        noted = {note: found for note in _notes(account.ledger) if (found := _noted(note))}
    except RuntimeError:  # nobody's home
        return
    if not noted:
        return
    if path.exists():
        forgotten = _forgotten(account, set().union(*noted.values()))
        if forgotten is None:
            if len(noted) < len(account.ledger.names) and account.budget is not None:
                note_budget(account)  # by the other name too
            return
        problem = f"data set {forgotten!r} was given a budget, and the ledger {str(path)!r} does not know it"
    else:
        problem = f"the ledger {str(path)!r} has held budgets and is not there any more"
    raise LedgerError(
        f"{problem}. Put the ledger back, or pass --ledger with its new place; if it is gone for good, set the "
        f"budgets again after deleting the note {' and '.join(repr(str(note)) for note in noted)}"
    )


def _forgotten(account: Account, noted: set[str]) -> str | None:
    """Return the data set, this one or one that shares records with it, whose noted budget the ledger does not know."""
    unknown = sorted(name for name in noted if account.ledger.account(name).budget is None)
    if account.dataset in unknown:
        return account.dataset
    shared = related(unknown, account.dataset) if os.path.isabs(account.dataset) else []
    return shared[0] if shared else None


def find_dataset(book: Ledger, text: str) -> str:
    """Account that a name or a file's path means; a name that the ledger knows comes first."""
    looks_like_file = os.path.isabs(text) or kind_of(text) is not None or ".npz:" in f"{text.lower()}:"
    # A name may hold what a pattern does, and then stands for no folder.
    is_there = (looks_like_file or os.sep in text or not is_pattern(text)) and os.path.exists(identity_of(text))
    if book.account(text).dataset in book.datasets:
        if is_there and looks_like_file and not os.path.isabs(text):
            warn(f"{text!r} is taken for the name of a data set in the ledger; write './{text}' for the file")
        return text
    if is_there:
        return account_among(book.datasets, text)
    if looks_like_file:
        if (path := identity_of(text)) in book.datasets:  # the file is away, and its account is not
            return path
        raise InputError(
            f"{text!r} is no file, and no data set that the ledger knows: a release of the file would be charged to "
            "another account. Check the path, or choose a name that does not look like one"
        )
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


def spending(account: Account | None) -> tuple[dict[str, Any] | None, str]:
    """Say what a run leaves in the ledger: as a document, and in one line."""
    return (None, "no record was kept") if account is None else (account_document(account), standing_text(account))


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
        out().print("No data set has a budget or a charge yet.")
        return
    table = Table("data set", "spent", "remains", "budget", caption="epsilon, and delta where it is not 0")
    for document in documents:
        table.add_row(
            Text(shown(document["dataset"]), overflow="fold"),
            _amounts(document["spent"], ROUND_CEILING),
            _amounts(document["remaining"], ROUND_FLOOR),
            _amounts(document["budget"], ROUND_FLOOR),
        )
    out().print(table)


def _print_account(account: Account) -> None:
    from rich.table import Table
    from rich.text import Text

    from sfumato.privacy.guarantee import amount_text

    facts([("ledger", str(account.ledger.path)), ("standing", standing_text(account))])
    table = Table("charge", "epsilon", "delta", "relation", "note")
    for charge in account.charges:
        relation = f"{charge.neighbours}, {charge.unit}"
        cells = (charge.mechanism, amount_text(charge.epsilon), repr(charge.delta), relation, charge.note)
        table.add_row(*(Text(shown(cell)) for cell in cells))
    out().print(table)
