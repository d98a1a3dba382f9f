"""`sfumato release`: from a file of points to a private density.

What the flags say is turned into a `PrivateKDE`; `making` runs it and writes the file.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.arguments import (
    JSON_HELP,
    LEDGER_HELP,
    POINTS,
    BoundsOption,
    ColumnsOption,
    DataArgument,
    dataset_name,
    one_column,
    open_ledger,
    parse_bandwidth,
    parse_bounds,
    parse_columns,
    parse_options,
)
from sfumato.cli.console import facts, print_json, say, size_text, warn
from sfumato.cli.ledger import account_document, standing_text
from sfumato.cli.making import make_release
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Account
    from sfumato.release import Release

EXAMPLES = (
    "[bold]Example[/]: trips.csv has the columns lon and lat, and about 100,000 people in it:\n\n"
    "sfumato release trips.csv -o trips.sfm --columns lon,lat --bandwidth 0.01 --epsilon 1 --n-hint 100000 "
    "--bounds lon=4.7,5.1 --bounds lat=52.2,52.5"
)

NEEDED, PRIVACY, RUN = "Needed, and never read off the data", "Privacy", "Run and output"


class Neighbours(StrEnum):
    """Neighbouring relations, as flags' values."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


class Outside(StrEnum):
    """What happens to values beyond the bounds, as flags' values."""

    CLIP = "clip"
    DROP = "drop"


def release(
    data: DataArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.sfm", help="The file to write.", rich_help_panel=NEEDED),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="B",
            help="Length at which two points stop being similar, in the points' units; 'B1,B2,...' for one per column.",
            rich_help_panel=NEEDED,
        ),
    ] = None,
    bandwidth_metres: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Instead of --bandwidth, for longitude and latitude in degrees: a length in metres, with --latitude.",
            rich_help_panel=NEEDED,
        ),
    ] = None,
    latitude: Annotated[
        float | None,
        typer.Option(metavar="LAT", help="A public latitude, such as the city's.", rich_help_panel=NEEDED),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            metavar="E",
            help="Privacy budget of this release, count included: 1, 0.5, 1/3. Smaller is more private and noisier.",
            rich_help_panel=NEEDED,
        ),
    ] = None,
    n_hint: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Public guess of the number of rows; it sets sizes, not answers. The order of magnitude is enough.",
            rich_help_panel=NEEDED,
        ),
    ] = None,
    paid_count: Annotated[
        bool,
        typer.Option(
            "--paid-count",
            help="Instead of --n-hint: buy a noisy count first, with the count's share of epsilon.",
            rich_help_panel=NEEDED,
        ),
    ] = False,
    columns: ColumnsOption = None,
    bounds: BoundsOption = None,
    outside: Annotated[
        Outside, typer.Option(help="What happens to finite values beyond the bounds.", rich_help_panel=POINTS)
    ] = Outside.CLIP,
    landmarks: Annotated[
        str | None,
        typer.Option(
            metavar="PUBLIC",
            help="A file of public points like the records, with the same columns; it becomes part of the release.",
            rich_help_panel=POINTS,
        ),
    ] = None,
    kernel: Annotated[
        str, typer.Option(metavar="NAME", help="gaussian, laplacian, cauchy, ...", rich_help_panel=POINTS)
    ] = "gaussian",
    method: Annotated[str, typer.Option(metavar="NAME", help="The mechanism.", rich_help_panel=PRIVACY)] = "auto",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What only this method knows, such as n_features=500. Repeatable.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    delta: Annotated[float, typer.Option(metavar="D", help="0 for a pure guarantee.", rich_help_panel=PRIVACY)] = 0.0,
    neighbours: Annotated[
        Neighbours,
        typer.Option(help="add-remove keeps n private; replace treats it as public.", rich_help_panel=PRIVACY),
    ] = Neighbours.ADD_REMOVE,
    user_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column that says whose record a row is: protect people, not rows.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    max_records_per_user: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=1,
            help="With --user-column: at most K records of each person count, chosen at random. 1 has the least noise.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    weight_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A column of weights from 0 to 1.", rich_help_panel=POINTS),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The data's account in the ledger; by default the file's absolute path. Releases of the same people "
            "belong under one name.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="PATH", help=LEDGER_HELP, show_default=False, rich_help_panel=PRIVACY)
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Keep no record of the spending.", rich_help_panel=PRIVACY)
    ] = False,
    feature_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Public seed of the features; drawn at random by default.", rich_help_panel=PRIVACY
        ),
    ] = None,
    seed_noise_not_private: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Seed the noise, for tests: the release is marked NOT PRIVATE and not charged.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of the sum; all by default.", rich_help_panel=RUN)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.", rich_help_panel=RUN)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP, rich_help_panel=RUN)] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Release a private density of the points in DATA: one file that anyone may query for ever.

    Bandwidth, epsilon and the number of rows have no defaults, because a choice that follows the data leaks the data:
    choose them from what is public. Each release spends epsilon, and the ledger keeps count.
    """
    lengths = _bandwidth(bandwidth, bandwidth_metres, latitude)
    target = _check_needed(output, epsilon, n_hint, paid_count)
    _check_users(user_column, max_records_per_user)
    from sfumato.central.kde import PrivateKDE
    from sfumato.sources import open_source

    source = open_source(
        data,
        parse_columns(columns, data),
        key=one_column(user_column, data),
        weight=one_column(weight_column, data),
    )
    if bandwidth_metres is not None:
        from sfumato.maps.geography import check_longitude_first

        check_longitude_first(source.column_names or ("",) * source.dimension)
    options = parse_options(option) | {"outside": outside.value}
    if max_records_per_user is not None:
        options["max_records_per_user"] = max_records_per_user
    account = None
    if not no_ledger and seed_noise_not_private is None:
        account = open_ledger(ledger).account(dataset or dataset_name(data))
    model = PrivateKDE(
        kernel,
        bandwidth=lengths,
        epsilon=epsilon,
        delta=delta,
        method=method,
        bounds=parse_bounds(bounds, source),
        landmarks=None if landmarks is None else open_source(landmarks, parse_columns(columns, landmarks)),
        neighbours=neighbours.value,
        n_hint="paid" if paid_count else n_hint,
        unit="record" if user_column is None else "user",
        options=options,
        ledger=account,
        feature_seed=secrets.randbits(63) if feature_seed is None else feature_seed,
        random_state=seed_noise_not_private,
    )
    made = make_release(model, source, target, force=force, threads=threads, show=not (quiet or as_json))
    _report(made, target, account, as_json=as_json, quiet=quiet)


def _check_users(user_column: str | None, max_records_per_user: int | None) -> None:
    """Protecting people takes both a column that tells them apart and a limit for each."""
    if user_column is not None and max_records_per_user is None:
        raise InputError(
            "--max-records-per-user is missing: pass --max-records-per-user K, how many records of one person may "
            "count. More keep more of the data and need more noise; 1 has the least noise"
        )
    if user_column is None and max_records_per_user is not None:
        raise InputError("--max-records-per-user needs --user-column, the column that says whose record a row is")


def _bandwidth(bandwidth: str | None, in_metres: float | None, latitude: float | None) -> float | list[float]:
    """Read the bandwidth, in the points' units or in metres at a latitude."""
    if (in_metres is None) != (latitude is None) or (bandwidth is not None and in_metres is not None):
        raise InputError("pass --bandwidth B, or --bandwidth-metres M together with --latitude LAT, and not both")
    if in_metres is not None and latitude is not None:
        from sfumato.maps.geography import metres

        return [float(length) for length in metres(in_metres, latitude)]
    if bandwidth is None:
        raise InputError(
            "--bandwidth is missing: pass --bandwidth B, the length at which two points stop being similar, in the "
            "points' units. It has no default because one that follows the data would leak them"
        )
    return parse_bandwidth(bandwidth)


def _check_needed(output: Path | None, epsilon: str | None, n_hint: int | None, paid_count: bool) -> Path:
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
    return output


def _report(release: Release, target: Path, account: Account | None, *, as_json: bool, quiet: bool) -> None:
    if not release.guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed. Do not publish this release. Nothing was charged.")
    if as_json:
        print_json(
            {
                "release": str(target),
                **_public_facts(release),
                "ledger": None if account is None else account_document(account),
                "statement": release.statement(),
            }
        )
    elif not quiet:
        size = f"{size_text(len(release.to_bytes()))}, {release.reader.size} sums"
        spending = "no record was kept" if account is None else standing_text(account)
        facts(
            [
                ("release", f"{target} ({size})"),
                ("guarantee", str(release.guarantee)),
                ("ledger", spending),
            ]
        )
        say(f"\n{release.statement()}")


def _public_facts(release: Release) -> dict[str, Any]:
    described = release.describe()
    kept = ("method", "guarantee", "kernel", "parameters", "count", "columns")
    return {"bytes": len(release.to_bytes()), **{name: described[name] for name in kept}}
