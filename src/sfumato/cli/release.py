"""`sfumato release`: from a file of points to a private density.

What the flags say is turned into a `PrivateKDE`; `paid` runs it and writes the file.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import engines, flags
from sfumato.cli.console import size_text, tell, warn_of_seed
from sfumato.cli.flags import (
    NEEDED,
    POINTS,
    PRIVACY,
    RUN,
    Neighbours,
    Outside,
    flag,
    one_column,
    parse_bandwidth,
    parse_bounds,
    parse_categories,
    parse_columns,
    parse_kinds,
    parse_options,
    refuse_inputs,
    refuse_unkept,
)
from sfumato.cli.ledger import account_to_charge, spending
from sfumato.cli.paid import make_file, make_release, wanted_look
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.central.kde import PrivateKDE
    from sfumato.privacy.ledger import Account
    from sfumato.release import Release
    from sfumato.sources import Source

EXAMPLES = (
    "[bold]Example[/]: trips.csv has the columns lon and lat, and about 100,000 people in it:\n\n"
    "sfumato release trips.csv -o trips.sfm --columns lon,lat --bandwidth 0.01 --epsilon 1 --n-hint 100000 "
    "--bounds lon=4.7,5.1 --bounds lat=52.2,52.5"
)

BandwidthOption = Annotated[
    str | None,
    flag(
        "Length at which two points stop being similar, in the points' units; 'B1,B2,...' for one per column.",
        "B",
        panel=NEEDED,
    ),
]
MetresOption = Annotated[
    float | None,
    flag(
        "Instead of --bandwidth, for longitude and latitude in degrees: a length in metres, with --latitude.",
        "M",
        panel=NEEDED,
    ),
]
LatitudeOption = Annotated[float | None, flag("A public latitude, such as the city's.", "LAT", panel=NEEDED)]
EpsilonOption = Annotated[
    str | None,
    flag(
        "Privacy budget of this release, count included: 1, 0.5, 1/3. Smaller is more private and noisier.",
        "E",
        panel=NEEDED,
    ),
]
HintOption = Annotated[
    int | None,
    flag(
        "Public guess of the number of rows; it sets sizes, not answers. The order of magnitude is enough.",
        "N",
        panel=NEEDED,
    ),
]
PaidCountOption = Annotated[
    bool,
    flag(
        "Instead of --n-hint: buy a noisy count first, with the count's share of epsilon.",
        None,
        "--paid-count",
        panel=NEEDED,
    ),
]
OutsideOption = Annotated[Outside, flag("What happens to finite values beyond the bounds.", panel=POINTS)]
LandmarksOption = Annotated[
    str | None,
    flag(
        "A file of public points like the records, with the same columns; it becomes part of the release.",
        "PUBLIC",
        panel=POINTS,
    ),
]
KernelOption = Annotated[str, flag("gaussian, laplacian, cauchy, ...", "NAME", panel=POINTS)]
WeightOption = Annotated[str | None, flag("A column of weights from 0 to 1.", "NAME", panel=POINTS)]
OptionOption = Annotated[
    list[str] | None,
    flag("What only this method knows, such as n_features=500. Repeatable.", "NAME=VALUE", panel=PRIVACY),
]
NeighboursOption = Annotated[
    Neighbours, flag("add-remove keeps n private; replace treats it as public.", panel=PRIVACY)
]
PartsOption = Annotated[
    bool,
    flag(
        "DATA are parts that 'sfumato sum' wrote at several sites; all else but --dataset and the ledger is in them.",
        None,
        "--parts",
        panel=RUN,
    ),
]
UserOption = Annotated[
    str | None, flag("The column that says whose record a row is: protect people, not rows.", "NAME", panel=PRIVACY)
]
LimitOption = Annotated[
    int | None,
    flag(
        "With --user-column: at most K records of each person count, chosen at random. 1 has the least noise.",
        "K",
        panel=PRIVACY,
        min=1,
    ),
]


def release(
    data: flags.ManyData,
    output: flags.Target = None,
    bandwidth: BandwidthOption = None,
    bandwidth_metres: MetresOption = None,
    latitude: LatitudeOption = None,
    epsilon: EpsilonOption = None,
    n_hint: HintOption = None,
    paid_count: PaidCountOption = False,
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    bounds: flags.Bounds = None,
    category: flags.Categories = None,
    circle: flags.Circles = None,
    sphere: flags.Spheres = None,
    mismatch: flags.Mismatch = None,
    unseen: flags.UnseenOption = flags.Unseen.DROP,
    outside: OutsideOption = Outside.CLIP,
    landmarks: LandmarksOption = None,
    kernel: KernelOption = "gaussian",
    method: flags.Method = "auto",
    option: OptionOption = None,
    delta: flags.Delta = 0.0,
    neighbours: NeighboursOption = Neighbours.ADD_REMOVE,
    user_column: UserOption = None,
    max_records_per_user: LimitOption = None,
    weight_column: WeightOption = None,
    dataset: flags.Dataset = None,
    ledger: flags.CuratorsLedger = None,
    no_ledger: flags.NoLedger = False,
    feature_seed: flags.FeatureSeed = None,
    seed_noise_not_private: flags.Seed = None,
    parts: PartsOption = False,
    threads: flags.Threads = None,
    look: flags.Look = None,
    engine: engines.EngineOption = engines.EngineName.THREADS,
    master: engines.MasterOption = None,
    force: flags.ForceRun = False,
    as_json: flags.JsonRun = False,
    quiet: flags.Quiet = False,
) -> None:
    """Release a private density of the points in DATA: one file that anyone may query for ever.

    Bandwidth, epsilon and the number of rows have no defaults, because a choice that follows the data leaks the data:
    choose them from what is public. Each release spends epsilon, and the ledger keeps count. On a terminal, or with
    --look, the first rows are looked at before the charge. The count is bought first: if it is far below --n-hint, the
    run stops and only the count is charged.
    """
    if parts:
        return release_parts(data, output, dataset, ledger, no_ledger, seed_noise_not_private, force, as_json, quiet)
    target = check_needed(output, epsilon, n_hint, paid_count)
    account = account_to_charge(one_name(data, dataset), dataset, ledger, no_ledger, seed_noise_not_private)
    refuse_inputs(target, *data, landmarks, None if account is None else account.ledger.path)
    model, source = estimator(
        data,
        lengths=read_bandwidth(bandwidth, bandwidth_metres, latitude, needed=not category),
        geographic=bandwidth_metres is not None,
        epsilon=epsilon,
        n_hint="paid" if paid_count else n_hint,
        columns=columns,
        bounds=bounds,
        categories=parse_categories(category, mismatch, unseen, data[0]),
        kinds=parse_kinds(circle, sphere, data[0]),
        marks={"separator": separator, "decimal": decimal},
        outside=outside,
        landmarks=landmarks,
        kernel=kernel,
        method=method,
        option=option,
        delta=delta,
        neighbours=neighbours,
        user_column=user_column,
        max_records_per_user=max_records_per_user,
        weight_column=weight_column,
        feature_seed=feature_seed,
        engine=engines.chosen_engine(engine, master),
        ledger=account,
        random_state=seed_noise_not_private,
    )
    made = make_release(
        model, source, target, look=wanted_look(look), force=force, threads=threads, show=not (quiet or as_json)
    )
    report(made, target, account, delta, as_json=as_json, quiet=quiet)


def release_parts(
    data: list[str],
    output: Path | None,
    dataset: str | None,
    ledger: Path | None,
    no_ledger: bool,
    seed: int | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Merge parts, charge once, and write the release."""
    if output is None:
        raise InputError("--output is missing: pass -o OUT.sfm, the file to write")
    if dataset is None and not no_ledger and seed is None:
        raise InputError("--dataset is missing: pass --dataset NAME, the account of all sites' data together")
    account = account_to_charge(data[0], dataset, ledger, no_ledger, seed)
    refuse_inputs(output, *data, None if account is None else account.ledger.path)
    from sfumato.central import parts

    loaded = [parts.Part.load(path) for path in data]

    def run(progress: object) -> Release:
        return parts.merge_parts(loaded, ledger=account, random_state=seed)

    made = make_file(run, parts.largest_size(loaded[0]), output, None, account, force=force, show=False)
    report(made, output, account, made.guarantee.delta, as_json=as_json, quiet=quiet)


def estimator(
    data: list[str],
    *,
    lengths: Any,
    geographic: bool = False,
    epsilon: str | None,
    n_hint: int | str | None,
    columns: str | None,
    bounds: list[str] | None,
    categories: dict[Any, Any],
    kinds: dict[Any, Any] | None = None,
    marks: dict[str, str | None] | None = None,
    outside: Outside,
    landmarks: str | None = None,
    kernel: str,
    method: str,
    option: list[str] | None,
    delta: float,
    neighbours: Neighbours,
    user_column: str | None,
    max_records_per_user: int | None,
    weight_column: str | None,
    feature_seed: int | None,
    engine: Any,
    ledger: Account | None = None,
    random_state: int | None = None,
) -> tuple[PrivateKDE, Source]:
    """Turn what the flags say into an estimator, and open its points."""
    check_users(user_column, max_records_per_user)
    from sfumato.central.kde import PrivateKDE

    source = _open(data, columns, user_column, weight_column, categories, geographic, marks)
    options = parse_options(option) | {"outside": outside.value}
    if max_records_per_user is not None:
        options["max_records_per_user"] = max_records_per_user
    model = PrivateKDE(
        kernel,
        bandwidth=lengths,
        epsilon=epsilon,
        delta=delta,
        method=method,
        bounds=parse_bounds(bounds, source),
        landmarks=None if landmarks is None else _open([landmarks], columns),
        categories=categories or None,
        kinds=kinds or None,
        neighbours=neighbours.value,
        n_hint=n_hint,
        unit="record" if user_column is None else "user",
        options=options,
        ledger=ledger,
        feature_seed=secrets.randbits(63) if feature_seed is None else feature_seed,
        random_state=random_state,
        engine=engine,
    )
    return model, source


def one_name(data: list[str], dataset: str | None) -> str:
    """Path that names the data where there is one file; several have no name of their own."""
    if len(data) > 1 and dataset is None:
        raise InputError("--dataset is missing: pass --dataset NAME, the account of several files together")
    return data[0]


def _open(
    data: list[str],
    columns: str | None,
    user: str | None = None,
    weight: str | None = None,
    categories: dict[Any, Any] | None = None,
    geographic: bool = False,
    marks: dict[str, str | None] | None = None,
) -> Source:
    from sfumato.sources import arguments_named, open_source

    first = data[0]
    key, weights = one_column(user, first), one_column(weight, first)
    with arguments_named(key="--user-column", weight="--weight-column"):
        source = open_source(
            first if len(data) == 1 else data,
            parse_columns(columns, first),
            key=key,
            weight=weights,
            categories=categories,
            **(marks or {}),
        )
    if geographic:
        from sfumato.maps.geography import check_longitude_first

        check_longitude_first(source.column_names or ("",) * source.dimension)
    return source


def check_users(user_column: str | None, max_records_per_user: int | None) -> None:
    """Protecting people takes both a column that tells them apart and a limit for each."""
    if user_column is not None and max_records_per_user is None:
        raise InputError(
            "--max-records-per-user is missing: pass --max-records-per-user K, how many records of one person may "
            "count. More keep more of the data and need more noise; 1 has the least noise"
        )
    if user_column is None and max_records_per_user is not None:
        raise InputError("--max-records-per-user needs --user-column, the column that says whose record a row is")


def read_bandwidth(
    bandwidth: str | None, in_metres: float | None, latitude: float | None, *, needed: bool
) -> float | list[float] | None:
    """Read the bandwidth, in the points' units or in metres at a latitude."""
    if (in_metres is None) != (latitude is None) or (bandwidth is not None and in_metres is not None):
        raise InputError("pass --bandwidth B, or --bandwidth-metres M together with --latitude LAT, and not both")
    if in_metres is not None and latitude is not None:
        from sfumato.maps.geography import metres

        return [float(length) for length in metres(in_metres, latitude)]
    if bandwidth is None and not needed:  # there may be no column of numbers
        return None
    if bandwidth is None:
        raise InputError(
            "--bandwidth is missing: pass --bandwidth B, the length at which two points stop being similar, in the "
            "points' units. It has no default because one that follows the data would leak them"
        )
    return parse_bandwidth(bandwidth)


def check_needed(output: Path | None, epsilon: str | None, n_hint: int | None, paid_count: bool) -> Path:
    """Refuse to guess what must come from the curator, and say why."""
    if epsilon is None:
        raise InputError(
            "--epsilon is missing: pass --epsilon E, the privacy budget of this release, such as 1. It has no default "
            "because how much the people in the data may lose is for their curator to decide"
        )
    if n_hint is None and not paid_count:
        raise InputError(
            "--n-hint is missing: pass --n-hint N, a public guess of the number of rows, or --paid-count to buy a "
            "noisy count from the budget. The rows are not simply counted because their true number is private"
        )
    if n_hint is not None and paid_count:
        raise InputError("--n-hint and --paid-count exclude each other: pass one of them")
    if n_hint is not None and n_hint < 1:
        raise InputError(f"--n-hint must be 1 or more, got {n_hint}")
    if output is None:
        raise InputError("--output is missing: pass -o OUT.sfm, the file to write")
    refuse_unkept(output)
    return output


def report(
    release: Release, target: Path, account: Account | None, delta: float, *, as_json: bool, quiet: bool
) -> None:
    """Say what was released, and what it cost."""
    warn_of_seed(release.guarantee, "Do not publish this release. Nothing was charged.")
    ledger, standing = spending(account)
    described, size = release.describe(), len(release.to_bytes())
    document: dict[str, Any] = {"release": str(target), "bytes": size}
    for name in ("method", "guarantee", "kernel", "parameters", "count", "columns"):
        document[name] = described[name]
    pairs = [
        ("release", f"{target} ({size_text(size)}, {release.reader.size} sums)"),
        ("guarantee", str(release.guarantee)),
        ("ledger", standing),
    ]
    unspent = delta if release.guarantee.delta == 0 else 0.0
    if unspent > 0:
        pairs.insert(2, ("unspent", f"delta = {unspent:g}: the method that serves best here needs none"))
    document["unspent_delta"] = float(unspent)
    statement = release.statement()
    tell(document | {"ledger": ledger, "statement": statement}, pairs, statement, as_json=as_json, quiet=quiet)
