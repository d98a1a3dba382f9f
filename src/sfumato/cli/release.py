"""`sfumato release`: from a file of points to a private density.

What the flags say is turned into a `PrivateKDE`; `paid` runs it and writes the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import flags
from sfumato.cli.console import size_text, tell, warn_of_seed
from sfumato.cli.flags import NEEDED, RUN, flag
from sfumato.cli.groups import Choices, Kinds, PaidRun, Payment, Reading, check_users, grouped
from sfumato.cli.ledger import spending
from sfumato.cli.outputs import refuse_inputs, refuse_unkept
from sfumato.cli.paid import make_file, make_release
from sfumato.cli.typed import one_column, parse_bandwidth, parse_options
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
PartsOption = Annotated[
    bool,
    flag(
        "DATA are parts that 'sfumato sum' wrote at several sites; all else but --dataset and the ledger is in them.",
        None,
        "--parts",
        panel=RUN,
    ),
]


@grouped
def release(
    data: flags.ManyData,
    output: flags.Target = None,
    bandwidth: BandwidthOption = None,
    bandwidth_metres: MetresOption = None,
    latitude: LatitudeOption = None,
    epsilon: EpsilonOption = None,
    n_hint: HintOption = None,
    paid_count: PaidCountOption = False,
    parts: PartsOption = False,
    *,
    reading: Reading,
    kinds: Kinds,
    choices: Choices,
    payment: Payment,
    run: PaidRun,
) -> None:
    """Release a private density of the points in DATA: one file that anyone may query for ever.

    Bandwidth, epsilon and the number of rows have no defaults, because a choice that follows the data leaks the data:
    choose them from what is public. Each release spends epsilon, and the ledger keeps count. On a terminal, or with
    --look, the first rows are looked at before the charge. The count is bought first: if it is far below --n-hint, the
    run stops and only the count is charged.
    """
    if parts:
        agreed = [bandwidth, bandwidth_metres, latitude, epsilon, n_hint, payment.feature_seed]
        if paid_count or agreed != [None] * len(agreed) or (reading, kinds, choices) != (Reading(), Kinds(), Choices()):
            raise InputError(
                "all terms are in the parts, as the sites agreed on them, and no flag changes them: pass --parts with "
                "the output, --dataset, the ledger and how to run alone"
            )
        return _release_parts(data, output, payment, run)
    target = check_needed(output, epsilon, n_hint, paid_count)
    account = payment.account(_one_name(data, payment.dataset))
    refuse_inputs(target, *data, choices.landmarks, *kinds.files, None if account is None else account.ledger.path)
    model, source = estimator(
        data,
        reading,
        kinds,
        choices,
        bandwidth=read_bandwidth(bandwidth, bandwidth_metres, latitude, needed=not kinds.category),
        geographic=bandwidth_metres is not None,
        epsilon=epsilon,
        n_hint="paid" if paid_count else n_hint,
        feature_seed=payment.features,
        engine=run.where,
        ledger=account,
        random_state=payment.seed_noise_not_private,
    )
    made = make_release(model, source, target, look=run.looks, force=run.force, threads=run.threads, show=run.show)
    report(made, target, account, choices.delta, **run.told)


def _release_parts(data: list[str], output: Path | None, payment: Payment, run: PaidRun) -> None:
    """Merge parts, charge once, and write the release."""
    seed = payment.seed_noise_not_private
    if output is None:
        raise InputError("--output is missing: pass -o OUT.sfm, the file to write")
    refuse_unkept(output)
    if payment.dataset is None and not payment.no_ledger and seed is None:
        raise InputError("--dataset is missing: pass --dataset NAME, the account of all sites' data together")
    account = payment.account(data[0])
    refuse_inputs(output, *data, None if account is None else account.ledger.path)
    from sfumato.central import parts

    loaded = [parts.Part.load(path) for path in data]

    def merged(progress: object) -> Release:
        return parts.merge_parts(loaded, ledger=account, random_state=seed)

    made = make_file(merged, parts.largest_size(loaded[0]), output, None, account, force=run.force, show=False)
    report(made, output, account, made.guarantee.delta, **run.told)


def estimator(
    data: list[str], reading: Reading, kinds: Kinds, choices: Choices, *, geographic: bool = False, **terms: Any
) -> tuple[PrivateKDE, Source]:
    """Turn what the flags say into an estimator, and open its points."""
    check_users(choices.user_column, choices.max_records_per_user)
    from sfumato.central.kde import PrivateKDE

    first = data[0]
    categories, curved = kinds.categories(first), kinds.curved(first)
    source = _open(data, reading, choices, categories, geographic)
    options = parse_options(choices.option) | {"outside": choices.outside.value}
    if choices.max_records_per_user is not None:
        options["max_records_per_user"] = choices.max_records_per_user
    model = PrivateKDE(
        choices.kernel,
        delta=choices.delta,
        method=choices.method,
        bounds=reading.bounds_of(source),
        landmarks=reading.public(choices.landmarks),
        categories=categories or None,
        kinds=curved or None,
        neighbours=choices.neighbours.value,
        unit="record" if choices.user_column is None else "user",
        options=options,
        **terms,
    )
    return model, source


def _one_name(data: list[str], dataset: str | None) -> str:
    """Path that names the data where there is one file; several have no name of their own."""
    if len(data) > 1 and dataset is None:
        raise InputError("--dataset is missing: pass --dataset NAME, the account of several files together")
    return data[0]


def _open(data: list[str], reading: Reading, choices: Choices, categories: dict[Any, Any], geographic: bool) -> Source:
    from sfumato.sources import arguments_named

    key, weight = one_column(choices.user_column, data[0]), one_column(choices.weight_column, data[0])
    with arguments_named(key="--user-column", weight="--weight-column"):
        source = reading.source(data[0] if len(data) == 1 else data, key=key, weight=weight, categories=categories)
    if geographic:
        from sfumato.maps.geography import check_longitude_first

        check_longitude_first(source.column_names or ("",) * source.dimension)
    return source


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
