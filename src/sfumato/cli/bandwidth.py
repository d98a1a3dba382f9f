"""`sfumato bandwidth`: a bandwidth from public points, or bought from private ones."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import engines, flags
from sfumato.cli.console import tell, warn_of_seed
from sfumato.cli.flags import LEDGER_HELP, Neighbours, Outside, flag
from sfumato.cli.ledger import account_to_charge, spending
from sfumato.cli.paid import wanted_look
from sfumato.cli.typed import parse_bandwidth, parse_bounds, parse_columns
from sfumato.errors import InputError, StorageError

if TYPE_CHECKING:
    from sfumato.bandwidth import PrivateBandwidth
    from sfumato.privacy.ledger import Account
    from sfumato.sources import Source

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


PublicOption = Annotated[bool, flag("The points are public: nothing is spent.", None, "--public", panel=CHOICE)]
PrivateOption = Annotated[bool, flag("The points are private: epsilon is spent.", None, "--private", panel=CHOICE)]
DensityOption = Annotated[
    float | None, flag("Wanted mean similarity of two records; 0.02 unless a rule is given.", "P", panel=CHOICE)
]
RuleOption = Annotated[
    Rule | None, flag("Rule of thumb, one length a column; good in one to three columns.", panel=CHOICE)
]
CandidatesOption = Annotated[
    str | None,
    flag(
        "With --private: compare these on the points, all for one epsilon, and choose: bandwidths, scott, silverman; "
        "lengths of one candidate are separated by commas.",
        "B;B;...",
        panel=CHOICE,
    ),
]
ReleaseEpsilonOption = Annotated[
    str | None, flag("With --candidates: epsilon of the release to come, whose noise then counts.", "E", panel=CHOICE)
]
KernelOption = Annotated[str, flag("As in release.", "NAME", panel=CHOICE)]
EpsilonOption = Annotated[str | None, flag("What the bandwidth may cost.", "E", panel=PRIVACY)]
HintOption = Annotated[int | None, flag("Public guess of the number of rows.", "N", panel=PRIVACY)]
NeighboursOption = Annotated[Neighbours, flag("As in release.", panel=PRIVACY)]
OutsideOption = Annotated[Outside, flag("As in release.", panel=PRIVACY)]
DatasetOption = Annotated[str | None, flag("The data's account in the ledger, as in release.", "NAME", panel=PRIVACY)]
LedgerOption = Annotated[Path | None, flag(LEDGER_HELP, "PATH", panel=PRIVACY, show_default=False)]
NoLedgerOption = Annotated[bool, flag("Keep no record of the spending.", None, "--no-ledger", panel=PRIVACY)]
SeedOption = Annotated[
    int | None,
    flag("Seed the noise, for tests: the bandwidth is NOT PRIVATE and nothing is charged.", "N", panel=PRIVACY),
]


def bandwidth(
    data: flags.Data,
    public: PublicOption = False,
    private: PrivateOption = False,
    target_density: DensityOption = None,
    rule: RuleOption = None,
    candidates: CandidatesOption = None,
    release_epsilon: ReleaseEpsilonOption = None,
    kernel: KernelOption = "gaussian",
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    bounds: flags.Bounds = None,
    epsilon: EpsilonOption = None,
    n_hint: HintOption = None,
    neighbours: NeighboursOption = Neighbours.ADD_REMOVE,
    outside: OutsideOption = Outside.CLIP,
    dataset: DatasetOption = None,
    ledger: LedgerOption = None,
    no_ledger: NoLedgerOption = False,
    seed_noise_not_private: SeedOption = None,
    look: flags.Look = None,
    engine: engines.EngineOption = engines.EngineName.THREADS,
    master: engines.MasterOption = None,
    as_json: flags.Json = False,
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
    source = open_source(data, parse_columns(columns, data), separator=separator, decimal=decimal)
    choice: dict[str, Any] = {
        "target_density": target_density,
        "rule": None if rule is None else rule.value,
        "kernel": kernel,
    }
    if candidates is not None and (public or target_density is not None or rule is not None):
        raise InputError("--candidates needs --private, and neither --target-density nor --rule")
    if public:
        lengths = from_public(source, **choice)
        document = {"bandwidth": lengths if isinstance(lengths, float) else lengths.tolist()}
        return tell(document, [("bandwidth", lengths_text(document["bandwidth"]))], as_json=as_json, made=False)
    _check_needed(epsilon, n_hint, bounds)
    account = account_to_charge(data, dataset, ledger, no_ledger, seed_noise_not_private)
    terms: dict[str, Any] = {
        "epsilon": epsilon,
        "bounds": parse_bounds(bounds, source),
        "n_hint": int(n_hint or 0),
        "neighbours": neighbours.value,
        "outside": outside.value,
        "ledger": account,
        "random_state": seed_noise_not_private,
        "look": wanted_look(look),
        "engine": engines.chosen_engine(engine, master),
    }
    if candidates is not None:
        return _search(source, candidates, kernel, release_epsilon, terms, as_json)
    bought = buy(source, **terms, **choice)
    _report(bought, account, as_json)


def _search(
    source: Source,
    candidates: str,
    kernel: str,
    release_epsilon: str | None,
    terms: dict[str, Any],
    as_json: bool,
) -> None:
    """Compare candidates, and tell which is best."""
    from sfumato.bandwidth import search

    words = [part.strip() for part in candidates.split(";")]
    listed = [word if word.isalpha() else parse_bandwidth(word) for word in words]
    found = search(source, listed, kernel=kernel, release_epsilon=release_epsilon, **terms)
    warn_of_seed(found.guarantee, "Do not publish this bandwidth. Nothing was charged.")
    (ledger, standing), statement = spending(terms["ledger"]), found.guarantee.statement()
    rows = [f"{each.kernel!r}: {each.score:.3g} +- {each.error:.2g}" for each in found.candidates]
    pairs = [
        ("bandwidth", lengths_text(found.bandwidth if isinstance(found.bandwidth, float) else list(found.bandwidth))),
        ("compared", "; ".join(rows)),
        ("guarantee", str(found.guarantee)),
        ("ledger", standing),
    ]
    _tell_paid(found.to_document() | {"ledger": ledger}, pairs, statement, as_json)


def _check_needed(epsilon: str | None, n_hint: int | None, bounds: list[str] | None) -> None:
    for wanted, value in (("--epsilon E", epsilon), ("--n-hint N", n_hint), ("--bounds LO,HI", bounds)):
        if value is None:
            name = wanted.split()[0]
            raise InputError(
                f"{name} is missing: a bandwidth from private points needs {wanted}, chosen from what is public"
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
    warn_of_seed(bought.guarantee, "Do not publish this bandwidth. Nothing was charged.")
    (ledger, standing), statement = spending(account), bought.guarantee.statement()
    length = lengths_text(bought.bandwidth)
    pairs = [
        ("bandwidth", f"{length} (+- {bought.predicted_error:.1%} at three deviations: noise, sampling and rounding)"),
        ("guarantee", str(bought.guarantee)),
        ("ledger", standing),
    ]
    _tell_paid(bought.to_document() | {"ledger": ledger}, pairs, statement, as_json)


def _tell_paid(document: dict[str, Any], pairs: list[tuple[str, str]], statement: str, as_json: bool) -> None:
    """Tell what is nowhere but in this message; if it cannot be written, the error says it."""
    try:
        tell(document | {"statement": statement}, pairs, statement, as_json=as_json, made=False)
    except StorageError as error:
        raise StorageError(f"{error}; the bandwidth had been paid for and is {pairs[0][1]}") from error
