"""`sfumato release`: from a file of points to a private density.

The order keeps the budget safe. Everything that can be refused is refused first, the output's space is reserved, the sum
runs, the ledger is charged, and only then is noise drawn and the file written. Until the charge an interrupt costs
nothing; once the release is paid for, an interrupt waits until it is on disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.arguments import (
    BoundsOption,
    ColumnsOption,
    DataArgument,
    JsonOption,
    LedgerOption,
    dataset_name,
    open_ledger,
    parse_bandwidth,
    parse_bounds,
    parse_columns,
    parse_options,
)
from sfumato.cli.console import complain, err, facts, print_json, say, size_text, warn
from sfumato.cli.interrupts import Interrupts
from sfumato.cli.ledger import account_document, standing_text
from sfumato.errors import InputError, StorageError
from sfumato.storage import AtomicFile

if TYPE_CHECKING:
    from sfumato.engines.threads import Progress
    from sfumato.kde import PrivateKDE
    from sfumato.privacy.ledger import Account
    from sfumato.release import Release
    from sfumato.sources import Source

EXAMPLES = (
    "[bold]Example[/]: trips.csv has the columns lon and lat, and about 100,000 people in it:\n\n"
    "sfumato release trips.csv -o trips.sfm --columns lon,lat --bandwidth 0.01 --epsilon 1 --n-hint 100000 "
    "--bounds lon=4.7,5.1 --bounds lat=52.2,52.5"
)

NEEDED, POINTS, PRIVACY, RUN = "Needed, and never read off the data", "Points", "Privacy", "Run and output"


class Neighbours(StrEnum):
    """Neighbouring relations, as flags' values."""

    add_remove = "add-remove"
    replace = "replace"


class Outside(StrEnum):
    """What happens to values beyond the bounds, as flags' values."""

    clip = "clip"
    drop = "drop"


def release(
    data: DataArgument,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.sfm", help="The file to write.", rich_help_panel=NEEDED)
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="B",
            help="Length at which two points stop being similar, in the points' units; 'B1,B2,...' for one per column.",
            rich_help_panel=NEEDED,
        ),
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
    ] = Outside.clip,
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
    delta: Annotated[
        float, typer.Option(metavar="D", help="0 for a pure guarantee.", rich_help_panel=PRIVACY)
    ] = 0.0,
    neighbours: Annotated[
        Neighbours,
        typer.Option(help="add-remove keeps n private; replace treats it as public.", rich_help_panel=PRIVACY),
    ] = Neighbours.add_remove,
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The data's account in the ledger; by default the file's absolute path. Releases of the same people "
            "belong under one name.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    ledger: LedgerOption = None,
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
    as_json: JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Release a private density of the points in DATA: one file that anyone may query for ever.

    Bandwidth, epsilon and the number of rows have no defaults, because a choice that follows the data leaks the data:
    choose them from what is public. Each release spends epsilon, and the ledger keeps count.
    """
    target = _check_needed(output, bandwidth, epsilon, n_hint, paid_count)
    from sfumato.kde import PrivateKDE
    from sfumato.sources import open_source

    source = open_source(data, parse_columns(columns, data))
    account = None
    if not no_ledger and seed_noise_not_private is None:
        account = open_ledger(ledger).account(dataset or dataset_name(data))
    model = PrivateKDE(
        kernel,
        bandwidth=parse_bandwidth(str(bandwidth)),
        epsilon=epsilon,
        delta=delta,
        method=method,
        bounds=parse_bounds(bounds, source),
        neighbours=neighbours.value,
        n_hint="paid" if paid_count else n_hint,
        options=parse_options(option) | {"outside": outside.value},
        ledger=account,
        feature_seed=secrets.randbits(63) if feature_seed is None else feature_seed,
        random_state=seed_noise_not_private,
    )
    made = make_release(model, source, target, force=force, threads=threads, show=not (quiet or as_json))
    _report(made, target, account, as_json=as_json, quiet=quiet)


def _check_needed(
    output: Path | None, bandwidth: str | None, epsilon: str | None, n_hint: int | None, paid_count: bool
) -> Path:
    """Refuse to guess what must come from the curator, and say why."""
    if bandwidth is None:
        raise InputError(
            "--bandwidth is missing: pass --bandwidth B, the length at which two points stop being similar, in the points' "
            "units. It has no default because one that follows the data would leak them"
        )
    if epsilon is None:
        raise InputError(
            "--epsilon is missing: pass --epsilon E, the privacy budget of this release, such as 1. It has no default "
            "because how much the people in the data may lose is for their curator to decide"
        )
    if n_hint is None and not paid_count:
        raise InputError(
            "--n-hint is missing: pass --n-hint N, a public guess of the number of rows, or --paid-count to buy a noisy count "
            "from the budget. The rows are not simply counted because their true number is private"
        )
    if n_hint is not None and paid_count:
        raise InputError("--n-hint and --paid-count exclude each other: pass one of them")
    if output is None:
        raise InputError("--output is missing: pass -o OUT.sfm, the file to write")
    return output


def make_release(
    model: PrivateKDE, source: Source, target: Path, *, force: bool = False, threads: int | None = None, show: bool = False
) -> Release:
    """Fit the model and write its release, with the space on disk reserved before the budget is charged.

    Parameters
    ----------
    model : PrivateKDE
        With a fixed `feature_seed`.
    source : Source
        The points.
    target : Path
        The file to write; `force` allows to replace one.
    threads : int, optional
        Threads of the sum.
    show : bool
        Whether to show the size and a progress bar on standard error.

    Returns
    -------
    Release
    """
    size = largest_size(model, source)
    charged_before = _charge_ids(model.ledger)
    with Interrupts() as interrupts:
        try:
            with AtomicFile(target, overwrite=force) as file:
                file.reserve(size)
                if show:
                    complain(f"{str(target)!r} will take at most {size_text(size)}")
                with _progress_bar(source, show, passes=2 if model.n_hint == "paid" else 1) as progress:
                    release: Release = model.fit(source, progress=progress, threads=threads).release_
                interrupts.hold()
                file.write(release.to_bytes())
        except StorageError as error:
            raise StorageError(f"{error}{_spent_in_vain(model.ledger, charged_before)}") from error
        except KeyboardInterrupt:
            lost = _spent_in_vain(model.ledger, charged_before) or " and nothing was spent"
            raise KeyboardInterrupt(f"interrupted; nothing was written{lost}") from None
    return release


def largest_size(model: PrivateKDE, source: Source) -> int:
    """Most bytes that the model's release can take; known from public facts alone."""
    from dataclasses import replace

    import numpy as np

    from sfumato.central import registry
    from sfumato.format import largest_size as largest_file
    from sfumato.release import Count, Release

    request = model._request(source.dimension)
    if model.n_hint == "paid":
        request = replace(request, n=10**15)  # more rows than anyone has: the methods' largest sizes
    mechanism = registry.build(model.method, request)
    values = np.zeros(mechanism.quantizer.size, dtype=np.int64)
    draft = Release.of(mechanism, values, Count(10**18, 1 / 3, public=False), source.column_names)
    _, stored = draft.quantizer.to_document()
    shapes = {name: array.shape for name, array in stored.items()}
    return largest_file(draft.describe(), {"values": values.shape, **shapes})


@contextmanager
def _progress_bar(source: Source, show: bool, passes: int) -> Iterator[Progress | None]:
    """Show rows done, to the curator only: the true number of rows is private."""
    if not show or not err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("rows", total=source.expected_rows)
        yield lambda rows: bar.advance(task, rows)


def _charge_ids(account: Account | None) -> set[str]:
    return set() if account is None else {charge.id for charge in account.charges}


def _spent_in_vain(account: Account | None, before: set[str]) -> str:
    """Say what was charged since `before` for a release that does not exist; nothing if nothing was."""
    if account is None:
        return ""
    from sfumato.privacy.guarantee import amount_text
    from sfumato.privacy.ledger import basic_composition

    epsilon, delta = basic_composition(charge for charge in account.charges if charge.id not in before)
    if not epsilon:
        return ""
    return (
        f"; but epsilon = {amount_text(epsilon)}, delta = {delta!r} had been charged already and stays spent: noise may "
        "have been drawn, so it cannot be given back"
    )


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
        size = f"{size_text(len(release.to_bytes()))}, {release.quantizer.size} sums"
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
