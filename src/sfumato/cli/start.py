"""`sfumato start`: a first release of one's own file, one question at a time.

Every choice is explained in a sentence and checked at once. None is read off the rows: until the look before the charge
the file is opened for the names of its columns alone, and what is offered follows from earlier answers. What was passed
as a flag is not asked for, so that the same command runs where nobody sits at a terminal. It ends with the commands
that do the same without questions.
"""

from __future__ import annotations

import csv
import io
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from sfumato.cli import flags, release
from sfumato.cli import map as map_
from sfumato.cli.console import complain, err, facts, in_flags, out, say
from sfumato.cli.flags import NEEDED, RUN, flag
from sfumato.cli.ledger import account_to_charge, standing_text
from sfumato.cli.ledger import budget as set_budget
from sfumato.cli.outputs import refuse_existing, refuse_inputs
from sfumato.cli.typed import parse_bandwidth, parse_bounds, parse_columns
from sfumato.deferred import missing
from sfumato.errors import InputError, StorageError
from sfumato.privacy.datasets import identity_of
from sfumato.public.shown import shown

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Account
    from sfumato.sources import Source

EXAMPLES = (
    "[bold]Examples[/]: sfumato start trips.csv\n\n"
    "sfumato start trips.csv --columns lon,lat --bounds lon=4.7,5.1 --bounds lat=52.2,52.5 --n-hint 100000 --epsilon 1 "
    "--yes"
)
STEPS_ACROSS = 20  # the bandwidth that is offered, as a part of the bounds
MOST_DRAWN = 2  # columns of a map
Read = TypeVar("Read")


@dataclass(frozen=True)
class Choice:
    """Something that only the curator can decide: its flag, why it matters, and what to type."""

    flag: str
    why: str
    form: str


COLUMNS = Choice("--columns", "A point is made of one or more columns of numbers; others are not read.", "A,B,...")
BOUNDS = Choice(
    "--bounds",
    "Values beyond the bounds are moved onto them, and the bounds are published: take them from what everybody knows, "
    "such as the edges of a city, and not from the rows, of which they would show the outermost.",
    "LO,HI",
)
BANDWIDTH = Choice(
    "--bandwidth",
    "Two points nearer than this count as alike: a smaller length shows more detail, and more noise. What is offered "
    f"is one {STEPS_ACROSS}th of your bounds.",
    "one length, or one a column",
)
HINT = Choice(
    "--n-hint",
    "How many rows there are is private, and is not counted here; a public guess of the order of magnitude sets sizes.",
    "such as 100000",
)
EPSILON = Choice(
    "--epsilon",
    "What anyone may learn about one person grows with epsilon: odds change by a factor of at most e to the epsilon, "
    "2.7 at 1 and 1.1 at 0.1, and smaller ones need more noise.",
    "such as 1",
)
BUDGET = Choice(
    "--budget",
    "Releases add up, so the ledger refuses those beyond a budget for all releases of these people together, which you "
    "can raise later.",
    "epsilon in all",
)
OUTPUT = Choice("--output", "The release is one file: publish it, and nothing else.", "OUT.sfm")


class Guide:
    """Takes what was passed and asks for the rest, where somebody sits at a terminal."""

    def __init__(self) -> None:
        self.asks = sys.stdin is not None and sys.stdin.isatty()

    def choose(
        self, choice: Choice, given: str | None, read: Callable[[str], Read], offered: str | None = None, of: str = ""
    ) -> tuple[str, Read]:
        """Return a choice as typed and as read; a wrong answer is asked for again, a wrong flag is refused."""
        if given is not None:
            return given, read(given)
        if not self.asks:
            if offered is None:
                raise InputError(f"{choice.flag}{of} is missing: {choice.why} Pass {choice.flag} ({choice.form})")
            return offered, read(offered)
        complain("")
        complain(choice.why)
        while True:
            answer = self._answer(f"{choice.flag.removeprefix('--')}{of} ({choice.form})", offered)
            try:
                return answer, read(answer)
            except InputError as error:
                complain(in_flags(str(error), typed=[answer]))

    def _answer(self, question: str, offered: str | None) -> str:
        while True:
            # It may name a column or a file, and whoever wrote the file gave the names.
            err().print(shown(f"{question}{f' [{offered}]' if offered else ''}: "), end="", markup=False)
            line = sys.stdin.readline()
            if not line:
                raise InputError("stopped before anything was charged or released: there was no answer")
            if line.strip() or offered is not None:
                return line.strip() or str(offered)


def start(
    data: flags.Data,
    output: flags.Target = None,
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    bounds: flags.Bounds = None,
    bandwidth: release.BandwidthOption = None,
    n_hint: release.HintOption = None,
    epsilon: release.EpsilonOption = None,
    budget: Annotated[
        str | None, flag("Epsilon of all releases of these people together; by default this one's.", "E", panel=NEEDED)
    ] = None,
    dataset: flags.Dataset = None,
    ledger: flags.CuratorsLedger = None,
    yes: Annotated[bool, flag("Do not ask before the budget is spent.", None, "--yes", "-y", panel=RUN)] = False,
    look: flags.Look = None,
    force: flags.ForceRun = False,
) -> None:
    """Make a first release of your own file, step by step, with a map of it.

    Asks for what was not passed: columns, public bounds, bandwidth, a guess of the number of rows, epsilon, budget.
    Then it shows what the release will cost, looks at the first rows for your eyes only, releases and draws. Nothing is
    suggested from the rows, and nothing is spent before you agree.
    """
    guide = Guide()
    marks: dict[str, Any] = {"separator": separator, "decimal": decimal}
    source, columns = _points(guide, data, columns, marks)
    bounds, lengths = _bounds(guide, bounds, source)
    bandwidth, _ = guide.choose(BANDWIDTH, bandwidth, lambda text: _lengths(text, source), _part_of(lengths))
    rows, _ = guide.choose(HINT, None if n_hint is None else str(n_hint), _whole)
    epsilon, _ = guide.choose(EPSILON, epsilon, _epsilon)
    account = account_to_charge(data, dataset, ledger, no_ledger=False, seed=None)
    assert account is not None
    budget = _budget(guide, account, budget, epsilon)
    offered = f"{Path(identity_of(data)).stem}.sfm"  # of a pattern the folder's name
    target = Path(guide.choose(OUTPUT, None if output is None else str(output), str, offered)[0])
    choices: dict[str, Any] = {
        "columns": columns,
        **marks,
        "bounds": bounds,
        "bandwidth": bandwidth,
        "epsilon": epsilon,
        "n_hint": int(rows),
    }
    whose: dict[str, Any] = {"dataset": dataset, "ledger": ledger}
    drawn = target.with_suffix(".html") if source.dimension <= MOST_DRAWN and not missing("plot") else None
    for made in (target, drawn):
        if made is not None:  # before the budget is set and spent
            refuse_inputs(made, data, account.ledger.path)
            refuse_existing(made, force)
    _show_cost(source, choices)
    holder = _holder(account, data, dataset)
    _show_commands(_commands(data, target, drawn, choices, whose, holder, budget, force))
    _agree(guide, yes, epsilon, data)
    if budget is not None:
        set_budget(holder, budget, ledger=ledger)
    release.release(data=[data], output=target, **choices, **whose, look=look, force=force)
    _draw(target, drawn, source, force)


def _points(guide: Guide, data: str, columns: str | None, marks: dict[str, Any]) -> tuple[Source, str | None]:
    """Open the points, and name their columns one by one where they have names."""
    from sfumato.sources import open_source

    def opened(text: str) -> Source:
        return open_source(data, None if text == "all" else parse_columns(text, data), **marks)

    given, source = guide.choose(COLUMNS, columns, opened, "all")
    if source.column_names is None:
        return source, None if given == "all" else given
    names = io.StringIO()
    csv.writer(names, lineterminator="").writerow(source.column_names)
    return source, names.getvalue() if given == "all" else given


def _bounds(guide: Guide, given: list[str] | None, source: Source) -> tuple[list[str], list[float]]:
    """Return the bounds as flags, and the length of each column's."""
    from sfumato.quantizers.box import Box

    def read(text: str) -> Box:
        return Box.from_bounds(parse_bounds([text], source), 1)

    if given is None:
        names = source.column_names or tuple(f"column {place}" for place in range(source.dimension))
        pairs = [guide.choose(BOUNDS, None, read, of=f" of {name}")[0] for name in names]
        named = source.column_names is not None
        given = [f"{name}={pair}" for name, pair in zip(names, pairs, strict=True)] if named else [";".join(pairs)]
    box = Box.from_bounds(parse_bounds(given, source), source.dimension)
    return given, [high - low for low, high in zip(box.lower, box.upper, strict=True)]


def _part_of(lengths: list[float]) -> str:
    """Bandwidths that follow from the bounds alone.

    Examples
    --------
    >>> _part_of([10.0, 10.0]), _part_of([0.4, 10.0])
    ('0.5', '0.02,0.5')
    """
    offered = [f"{length / STEPS_ACROSS:.3g}" for length in lengths]
    return offered[0] if len(set(offered)) == 1 else ",".join(offered)


def _lengths(text: str, source: Source) -> float | list[float]:
    from sfumato.kernels import get_kernel

    lengths = parse_bandwidth(text)
    if isinstance(lengths, list) and len(lengths) != source.dimension:
        raise InputError(f"--bandwidth gives {len(lengths)} lengths for {source.dimension} columns; pass one, or all")
    get_kernel("gaussian", lengths)  # refuses what is no length
    return lengths


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise InputError(f"--n-hint must be a whole number such as 100000, got {text!r}") from None
    if number < 1:
        raise InputError(f"--n-hint must be 1 or more, got {number}")
    return number


def _epsilon(text: str) -> Any:
    from sfumato.privacy.guarantee import promised_epsilon

    return promised_epsilon(text)


def _budget(guide: Guide, account: Account, given: str | None, epsilon: str) -> str | None:
    """Return the budget to set; None where the people have one already and no other was asked for."""
    if given is None and account.budget is not None:
        facts([("ledger", standing_text(account))])
        return None
    return guide.choose(BUDGET, given, _epsilon, offered=epsilon)[0]


def _holder(account: Account, data: str, dataset: str | None) -> str:
    """Return how `ledger budget` calls the account: as the data are called, unless a data set has that for a name."""
    is_name = account.ledger.account(data).dataset in account.ledger.datasets
    return dataset or (account.dataset if is_name else data)


def _show_cost(source: Source, choices: dict[str, Any]) -> None:
    """Tell the error and the size before anything is spent; `sfumato plan` compares all methods."""
    from sfumato.methods import plan

    made = plan(
        dimension=source.dimension,
        bandwidth=parse_bandwidth(choices["bandwidth"]),
        epsilon=choices["epsilon"],
        n_hint=choices["n_hint"],
        bounds=parse_bounds(choices["bounds"], source),
    )
    say("\nWhat it will cost, from public facts alone:")
    facts(
        [
            ("spends", f"epsilon = {choices['epsilon']}, count included"),
            ("method", f"{made.method}, which has the least predicted error (sfumato plan compares them all)"),
        ]
    )
    say(made.judgement())


def _commands(
    data: str,
    target: Path,
    drawn: Path | None,
    choices: dict[str, Any],
    whose: dict[str, Any],
    holder: str,
    budget: str | None,
    force: bool,
) -> list[list[str]]:
    """Give the commands that do the same without questions."""

    def written(named: dict[str, Any]) -> list[str]:
        many = ((name, value if isinstance(value, list) else [value]) for name, value in named.items())
        # With an equals sign, for bounds may begin with a minus.
        return [f"--{name.replace('_', '-')}={one}" for name, ones in many for one in ones if one is not None]

    last = ["--force"] if force else []
    account = ["ledger", "budget", holder, *written({"epsilon": budget, "ledger": whose["ledger"]})]
    made = ["release", data, "-o", str(target), *written(choices | whose), *last]
    page = [] if drawn is None else [["map", str(target), "-o", str(drawn), *last]]
    return [["sfumato", *words] for words in ([account] if budget is not None else []) + [made] + page]


def _show_commands(commands: list[list[str]]) -> None:
    say("\nThe same without questions:")
    for words in commands:
        out().print(typed(words), soft_wrap=True, markup=False)


def typed(words: list[str]) -> str:
    r"""Write a command to be copied into a shell, with nothing in it that a terminal would obey.

    Examples
    --------
    >>> print(typed(["sfumato", "check", "my trips.csv"]))
    sfumato check 'my trips.csv'
    >>> print(typed(["--columns=lon\x1b[31m"]))
    $'--columns=lon\x1b[31m'
    """
    return " ".join(shlex.quote(word) if shown(word) == word else f"$'{_escaped(word)}'" for word in words)


def _escaped(word: str) -> str:
    """Write a word as it stands between $' and ', byte by byte where a character is not to be shown."""

    def one(letter: str) -> str:
        if shown(letter) == letter:
            return f"\\{letter}" if letter in "\\'" else letter
        # A byte of a path that is no text came as a surrogate, and goes back as that byte.
        way = "surrogateescape" if "\udc80" <= letter <= "\udcff" else "surrogatepass"
        return "".join(f"\\x{byte:02x}" for byte in letter.encode(errors=way))

    return "".join(map(one, word))


def _agree(guide: Guide, yes: bool, epsilon: str, data: str) -> None:
    """Go on only if the curator wants to spend."""
    from sfumato.central.survey import answered_yes

    if yes:
        return
    if not guide.asks:
        raise InputError("nothing was spent: pass --yes to release without being asked, or run this on a terminal")
    complain("")
    complain(f"This spends epsilon = {epsilon} of {data}, and a release that was published cannot be called back.")
    if not answered_yes("Release? [y/N] "):
        raise InputError("stopped before anything was charged or released, as the answer was no")


def _draw(target: Path, drawn: Path | None, source: Source, force: bool) -> None:
    if drawn is not None:
        before = _file_of(drawn)
        try:
            map_.map_release(target, drawn, force=force)
        except StorageError as error:
            if _file_of(drawn) != before:  # the map is written: only what was to be said of it is lost
                raise
            failure = StorageError(f"{error}; the release is in {str(target)!r}: draw it later, with sfumato map")
            failure.errno = error.errno
            raise failure from error
    elif source.dimension <= MOST_DRAWN:
        words = ["sfumato", "map", str(target), "-o", str(target.with_suffix(".html"))]
        say(f"\nFor a map: pip install 'sfumato[plot]', then {typed(words)}")
    else:
        words = ["sfumato", "map", str(target), "-o", "MAP.html", "--columns", "A,B", "--at", "C=VALUE"]
        say(f"\nA map shows one or two columns: {typed(words)}")


def _file_of(path: Path) -> int | None:
    """Tell which file has a name: one that is written has another one than what it replaces."""
    try:
        return path.stat().st_ino
    except OSError:
        return None
