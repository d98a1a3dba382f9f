"""`sfumato plan`: the error, size and cost of a release before anything is spent; no data is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import engines, flags
from sfumato.cli.console import out, print_json
from sfumato.cli.flags import Neighbours, Outside, flag
from sfumato.cli.groups import Reading, check_users
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.release import read_bandwidth
from sfumato.cli.typed import (
    category_files,
    parse_bandwidth,
    parse_categories,
    parse_columns,
    parse_kinds,
    parse_options,
    read_bounds,
)
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.methods import Plan

EXAMPLES = (
    "[bold]Examples[/]: sfumato plan --columns lon,lat --bandwidth 0.01 --epsilon 1 --n-hint 100000\n\n"
    "sfumato plan --dimension 10 --bandwidth 1 --n-hint 100000 --target-error 0.005 (which epsilon?)\n\n"
    "sfumato plan --dimension 10 --bandwidth 1 --epsilon 0.1 --target-error 0.005 (how many records?)"
)

FACTS, BUDGETS, PROMISE, OUTPUT = "Public facts", "Budgets", "A promised error", "Output"

DimensionOption = Annotated[
    int | None, flag("Number of columns of a point; or name them: --columns.", "D", panel=FACTS)
]
BandwidthOption = Annotated[str | None, flag("As in release.", "B", panel=FACTS, show_default=False)]
MetresOption = Annotated[float | None, flag("As in release.", "M", panel=FACTS)]
LatitudeOption = Annotated[float | None, flag("As in release.", "LAT", panel=FACTS)]
OutsideOption = Annotated[Outside, flag("As in release.", panel=FACTS)]
MethodOption = Annotated[str, flag("As in release; it is then the one that is chosen.", "NAME", panel=FACTS)]
PaidCountOption = Annotated[
    bool, flag("As in release; --n-hint then says what count is expected.", None, "--paid-count", panel=FACTS)
]
UserOption = Annotated[str | None, flag("As in release.", "NAME", panel=FACTS)]
LimitOption = Annotated[int | None, flag("As in release.", "K", panel=FACTS, min=1)]
WeightOption = Annotated[str | None, flag("As in release.", "NAME", panel=FACTS)]
PublicOption = Annotated[
    str | None, flag("A file of public points like the records, from which P is taken.", "SAMPLE", panel=FACTS)
]
ReasonsOption = Annotated[bool, flag("Say why methods do not apply.", None, "--reasons", panel=OUTPUT)]
# What a release does and a plan does not: taken, so that the same flags can be tried first, and without effect.
IDLE = {"hidden": True}
IdleText = Annotated[str | None, typer.Option(**IDLE)]
IdleNumber = Annotated[int | None, typer.Option(**IDLE)]
IdleOutput = Annotated[str | None, typer.Option("-o", "--output", **IDLE)]
IdleLook = Annotated[bool | None, typer.Option("--look/--no-look", **IDLE)]
IdleLedger = Annotated[bool, typer.Option("--no-ledger", **IDLE)]
IdleQuiet = Annotated[bool, typer.Option("--quiet", "-q", **IDLE)]
IdleEngine = Annotated[engines.EngineName | None, typer.Option(**IDLE)]
IdleParts = Annotated[bool, typer.Option("--parts", **IDLE)]
EpsilonOption = Annotated[
    str | None, flag("Privacy budget; left out with --target-error to find it.", "E", panel=FACTS)
]
HintOption = Annotated[int | None, flag("Number of rows; left out with --target-error to find it.", "N", panel=FACTS)]
DeltaOption = Annotated[float, flag("0 for a pure guarantee.", "D", panel=FACTS)]
KernelOption = Annotated[str, flag("As in release.", "NAME", panel=FACTS)]
LandmarksOption = Annotated[str | None, flag("As in release.", "PUBLIC", panel=FACTS)]
NeighboursOption = Annotated[Neighbours, flag("As in release.", panel=FACTS)]
OptionOption = Annotated[list[str] | None, flag("As in release.", "NAME=VALUE", panel=FACTS)]
DensityOption = Annotated[
    float | None,
    flag("Mean kernel value between two records, if it is public; otherwise errors are intervals.", "P", panel=FACTS),
]
WorkOption = Annotated[float | None, flag("Most multiplications of the curator in all.", "M", panel=BUDGETS)]
FileSizeOption = Annotated[float | None, flag("Largest release file.", "BYTES", panel=BUDGETS)]
QueryWorkOption = Annotated[float | None, flag("Most multiplications of one query.", "M", panel=BUDGETS)]
AlphaOption = Annotated[float | None, flag("Promise an error of at most A ...", "A", panel=PROMISE)]
EtaOption = Annotated[float | None, flag("... with probability 1 - H for each query.", "H", panel=PROMISE)]
AllQueriesOption = Annotated[
    bool, flag("For all queries in the bounds together.", None, "--all-queries", panel=PROMISE)
]
TargetErrorOption = Annotated[
    float | None, flag("Find the epsilon, or the number of rows, that this error takes.", "R", panel=OUTPUT)
]
PlotOption = Annotated[
    Path | None, flag("Draw predicted error against epsilon (.png, .svg, .pdf).", "OUT.png", panel=OUTPUT)
]
ForceOption = Annotated[bool, flag("Replace an existing picture.", None, "--force", panel=OUTPUT)]


def plan(
    dimension: DimensionOption = None,
    columns: flags.Columns = None,
    bandwidth: BandwidthOption = None,
    bandwidth_metres: MetresOption = None,
    latitude: LatitudeOption = None,
    epsilon: EpsilonOption = None,
    n_hint: HintOption = None,
    paid_count: PaidCountOption = False,
    delta: DeltaOption = 0.0,
    kernel: KernelOption = "gaussian",
    bounds: flags.Bounds = None,
    category: flags.Categories = None,
    circle: flags.Circles = None,
    sphere: flags.Spheres = None,
    mismatch: flags.Mismatch = None,
    unseen: flags.UnseenOption = flags.Unseen.DROP,
    outside: OutsideOption = Outside.CLIP,
    landmarks: LandmarksOption = None,
    method: MethodOption = "auto",
    neighbours: NeighboursOption = Neighbours.ADD_REMOVE,
    user_column: UserOption = None,
    max_records_per_user: LimitOption = None,
    weight_column: WeightOption = None,
    option: OptionOption = None,
    density: DensityOption = None,
    public: PublicOption = None,
    work: WorkOption = None,
    file_size: FileSizeOption = None,
    query_work: QueryWorkOption = None,
    alpha: AlphaOption = None,
    eta: EtaOption = None,
    all_queries: AllQueriesOption = False,
    target_error: TargetErrorOption = None,
    plot: PlotOption = None,
    force: ForceOption = False,
    reasons: ReasonsOption = False,
    as_json: flags.Json = False,
    output: IdleOutput = None,
    dataset: IdleText = None,
    ledger: IdleText = None,
    no_ledger: IdleLedger = False,
    feature_seed: IdleNumber = None,
    seed_noise_not_private: IdleNumber = None,
    threads: IdleNumber = None,
    look: IdleLook = None,
    quiet: IdleQuiet = False,
    separator: IdleText = None,
    decimal: IdleText = None,
    engine: IdleEngine = None,
    master: IdleText = None,
    parts: IdleParts = False,
) -> None:
    """Compare all mechanisms before spending anything: predicted error, file size and cost. No data is read.

    Takes the flags of release. The method chosen is the one that release takes by itself; the constant answer shows
    what anyone could say without the data. The error depends on P, the mean similarity of two records: bounds imply a
    range for it; --public and --density tell it.
    """
    from sfumato.methods.request import LIMIT

    refuse_inputs(plot, landmarks, public, *category_files(category))
    check_users(user_column, max_records_per_user)
    categories = parse_categories(category, mismatch, unseen, "")
    if bandwidth_metres is not None or latitude is not None:
        bandwidth, lengths = None, read_bandwidth(bandwidth, bandwidth_metres, latitude, needed=True)
    else:
        lengths = None if bandwidth is None else parse_bandwidth(bandwidth)
    kinds = parse_kinds(circle, sphere, "")
    width, bounds_given, kinds = _columns(columns, dimension, bounds, lengths, categories, kinds)
    options = parse_options(option) | ({} if outside is Outside.CLIP else {"outside": outside.value})
    if max_records_per_user is not None:
        options[LIMIT] = max_records_per_user
    reading = Reading(columns, separator, decimal)
    facts: dict[str, Any] = {
        "dimension": width,
        "kernel": kernel,
        "bandwidth": lengths,
        "delta": delta,
        "neighbours": neighbours.value,
        "bounds": bounds_given,
        "landmarks": _landmarks(landmarks, reading, width),
        "categories": categories or None,
        "kinds": kinds or None,
        "method": method,
        "public": _landmarks(public, reading, width),
        "unit": "user" if LIMIT in options else "record",
        "options": options,
        "density": density,
        "work": work,
        "file_size": file_size,
        "query_work": query_work,
        "alpha": alpha,
        "eta": eta,
        "all_queries": all_queries,
    }
    made = _plan(facts, epsilon, n_hint, target_error)
    if plot is not None:
        from sfumato.methods import draw

        draw(made, plot, overwrite=force)
    if as_json:
        print_json(made.to_document() | ({} if plot is None else {"plot": str(plot)}))
    else:
        out().print(made)
        for name, reason in made.reasons.items() if reasons else ():
            out().print(f"{name} does not apply: {reason}", markup=False)


def _landmarks(path: str | None, reading: Reading, width: int) -> Any:
    """Read the public points, once for all the plans that a target error takes."""
    source = reading.public(path)
    if source is None:
        return None
    from sfumato.quantizers.nystrom import PublicSample

    return PublicSample.of(source, width)


def _columns(
    columns: str | None,
    dimension: int | None,
    bounds: list[str] | None,
    lengths: Any,
    categories: dict[Any, Any],
    kinds: dict[Any, Any],
) -> tuple[int, Any, dict[Any, Any]]:
    """Return the number of columns, the bounds and the kinds by position; names or lengths may say how many."""
    names = parse_columns(columns, "")
    if names is None and bounds and all("=" in text for text in bounds):
        named = [text.rpartition("=")[0] for text in bounds]
        if dimension in (None, len(named) + len(categories)):
            names = [*named, *categories]
    if names is None and dimension is None and isinstance(lengths, list):
        dimension = len(lengths) + len(categories)
    if names is None and dimension is None:
        raise InputError("--dimension is missing: pass --dimension D, the number of columns, or --columns A,B,...")
    width = len(names) if names is not None else int(dimension or 0)
    if dimension not in (None, width):
        raise InputError(f"--dimension is {dimension}, and --columns names {width} columns")
    labels = None if names is None else tuple(map(str, names))
    numbers = (name for name in labels or map(str, range(width)) if labels is None or name not in categories)
    return width, read_bounds(bounds, numbers), _placed(kinds, labels)


def _placed(kinds: dict[Any, Any], labels: tuple[str, ...] | None) -> dict[Any, Any]:
    """Return the columns on circles and spheres by their positions."""

    def place(column: Any) -> Any:
        if isinstance(column, tuple):
            return tuple(map(place, column))
        if labels is None or column not in labels:
            raise InputError(f"--circle and --sphere name the column {column!r}: name all of them with --columns")
        return labels.index(column)

    return {place(columns): kind for columns, kind in kinds.items()}


def _plan(facts: dict[str, Any], epsilon: str | None, n_hint: int | None, target_error: float | None) -> Plan:
    """Plan, after finding the epsilon or the number of rows if a target error asks for one of them."""
    from sfumato.methods import epsilon_for, n_for, plan

    if target_error is not None:
        if (epsilon is None) == (n_hint is None):
            raise InputError(
                "--target-error finds what is left out: pass either --epsilon or --n-hint with it, not both"
            )
        if n_hint is None:
            return plan(n_hint=n_for(target_error, epsilon=epsilon, **facts), epsilon=epsilon, **facts)
        return plan(n_hint=n_hint, epsilon=epsilon_for(target_error, n_hint=n_hint, **facts), **facts)
    if epsilon is None:
        raise InputError("--epsilon is missing: pass --epsilon E, or --target-error R to find it")
    if n_hint is None:
        raise InputError("--n-hint is missing: pass --n-hint N, or --target-error R to find it")
    return plan(n_hint=n_hint, epsilon=epsilon, **facts)
