"""`sfumato classify fit` and `predict`: a private classifier from a file of labelled points, and its answers."""

from __future__ import annotations

import csv
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
    JsonOption,
    dataset_name,
    one_column,
    open_ledger,
    parse_bandwidth,
    parse_bounds,
    parse_columns,
    parse_options,
)
from sfumato.cli.console import complain, facts, print_json, say, size_text, warn
from sfumato.cli.ledger import account_document, standing_text
from sfumato.cli.making import make_file
from sfumato.cli.tables import check_suffix, write_table
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.learn import DensityClassifier
    from sfumato.privacy.ledger import Account
    from sfumato.sources import Source

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Fit a private classifier, and classify points with it.",
)
NEEDED, PRIVACY, RUN = "Needed, and never read off the data", "Privacy", "Run and output"
FIT_EXAMPLE = (
    "[bold]Example[/]: sfumato classify fit news.parquet -o news.sfm --columns embedding --label-column topic "
    "--classes world,sports,business --epsilon 1 --n-hint 20000"
)


class Rule(StrEnum):
    """What decides, as flags' values."""

    HIGHEST_DENSITY = "highest-density"
    NEAREST_MEAN = "nearest-mean"
    SQUARED_DISTANCE = "squared-distance"


class Priors(StrEnum):
    """What densities are multiplied with, as flags' values."""

    UNIFORM = "uniform"
    PRIVATE = "private"


def _needed(metavar: str, text: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=NEEDED)


def _privacy(metavar: str, text: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=PRIVACY)


@app.command(epilog=FIT_EXAMPLE)
def fit(
    data: DataArgument,
    output: Annotated[Path | None, _needed("OUT.sfm", "The file to write.", "-o", "--output")] = None,
    label_column: Annotated[str | None, _needed("NAME", "The column of the labels.")] = None,
    classes: Annotated[
        str | None, _needed("A,B,...", "The public list of classes; records with other labels are dropped.")
    ] = None,
    epsilon: Annotated[str | None, _needed("E", "Privacy budget of all classes together: 1, 0.5, 1/3.")] = None,
    n_hint: Annotated[int | None, _needed("N", "Public guess of the number of rows of all classes together.")] = None,
    columns: ColumnsOption = None,
    bounds: BoundsOption = None,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="inner-product (normalised embeddings), gaussian, ...", rich_help_panel=POINTS
        ),
    ] = "inner-product",
    bandwidth: Annotated[
        str | None,
        typer.Option(metavar="B", help="Bandwidth; for the inner product the largest length.", rich_help_panel=POINTS),
    ] = None,
    landmarks: Annotated[
        str | None,
        typer.Option(metavar="PUBLIC", help="A file of public points like the records.", rich_help_panel=POINTS),
    ] = None,
    rule: Annotated[Rule, typer.Option(help="What decides.", rich_help_panel=POINTS)] = Rule.HIGHEST_DENSITY,
    priors: Annotated[
        Priors, typer.Option(help="uniform, or the shares of the noisy counts.", rich_help_panel=POINTS)
    ] = Priors.UNIFORM,
    delta: Annotated[float, _privacy("D", "0 for a pure guarantee.")] = 0.0,
    method: Annotated[str, _privacy("NAME", "The mechanism.")] = "auto",
    option: Annotated[
        list[str] | None, _privacy("NAME=VALUE", "What only this method knows, such as clip=0.5. Repeatable.")
    ] = None,
    dataset: Annotated[
        str | None, _privacy("NAME", "The data's account in the ledger; by default the file's absolute path.")
    ] = None,
    ledger: Annotated[Path | None, _privacy("PATH", LEDGER_HELP)] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Keep no record of the spending.", rich_help_panel=PRIVACY)
    ] = False,
    feature_seed: Annotated[int | None, _privacy("N", "Public seed of the features; random by default.")] = None,
    seed_noise_not_private: Annotated[
        int | None, _privacy("N", "Seed the noise, for tests: marked NOT PRIVATE and not charged.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of the sums; all by default.", rich_help_panel=RUN)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.", rich_help_panel=RUN)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP, rich_help_panel=RUN)] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Release a private density for each class of the labelled points in DATA: one file that classifies for ever.

    A record is a point with its label and counts in one class, so all classes together cost epsilon once.
    """
    target, names = _check_needed(output, label_column, classes, epsilon, n_hint)
    from sfumato.learn import DensityClassifier
    from sfumato.sources import open_source

    source = open_source(data, parse_columns(columns, data), key=one_column(label_column, data))
    account = None
    if not no_ledger and seed_noise_not_private is None:
        account = open_ledger(ledger).account(dataset or dataset_name(data))
    model = DensityClassifier(
        kernel,
        bandwidth=None if bandwidth is None else parse_bandwidth(bandwidth),
        epsilon=epsilon,
        delta=delta,
        classes=names,
        n_hint=n_hint,
        method=method,
        bounds=parse_bounds(bounds, source),
        landmarks=None if landmarks is None else open_source(landmarks, parse_columns(columns, landmarks)),
        rule=rule.value,
        priors=priors.value,
        options=parse_options(option),
        ledger=account,
        feature_seed=secrets.randbits(63) if feature_seed is None else feature_seed,
        random_state=seed_noise_not_private,
    )
    size, show = largest_size(model, source), not (quiet or as_json)
    make_file(
        lambda progress: model.fit(source, str(label_column), threads=threads, progress=progress),
        size,
        target,
        source,
        account,
        force=force,
        show=show,
    )
    _report(model, target, account, as_json=as_json, quiet=quiet)


def _check_needed(
    output: Path | None, label_column: str | None, classes: str | None, epsilon: str | None, n_hint: int | None
) -> tuple[Path, list[str]]:
    """Refuse to guess what must come from the curator."""
    for flag, value, use in (
        ("--label-column NAME", label_column, "the column of the labels"),
        ("--classes A,B,...", classes, "the public list of classes: which labels occur may be private"),
        ("--epsilon E", epsilon, "the privacy budget of all classes together, such as 1"),
        ("--n-hint N", n_hint, "a public guess of the number of rows: their true number is private"),
        ("-o OUT.sfm", output, "the file to write"),
    ):
        if value is None:
            raise InputError(f"{flag} is missing: {use}")
    assert output is not None and classes is not None
    names = [name.strip() for name in next(csv.reader([classes], skipinitialspace=True), [])]
    if not names or "" in names:
        raise InputError(f"--classes must be names separated by commas, got {classes!r}")
    return output, names


def largest_size(model: DensityClassifier, source: Source) -> int:
    """Most bytes that a classifier can take; known from public facts alone."""
    from dataclasses import replace

    import numpy as np

    from sfumato.learn import files
    from sfumato.release import Count

    classes = np.unique(model.classes)
    mechanism = model.mechanism(source, len(classes))
    # The longest numbers there can be, and different ones, so that no true classifier is longer.
    releases = [
        mechanism.release(np.full(mechanism.reader.size, 2**62 - place), Count(10**18 - place, 1 / 3, False))
        for place in range(len(classes))
    ]
    releases = [replace(release, columns=source.column_names) for release in releases]
    return len(files.encode(classes, releases, model.rule, model.priors, files.BY_LABEL))


def _report(model: DensityClassifier, target: Path, account: Account | None, *, as_json: bool, quiet: bool) -> None:
    guarantee = model.guarantee_
    if not guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed. Do not publish this classifier. Nothing was charged.")
    counts = {str(name): release.count.to_document() for name, release in model.releases_.items()}
    if as_json:
        document = {"classifier": str(target), "rule": model.rule, "classes": counts}
        document |= {"guarantee": guarantee.to_document(), "statement": guarantee.statement()}
        print_json(document | {"ledger": None if account is None else account_document(account)})
    elif not quiet:
        facts(
            [
                ("classifier", f"{target} ({size_text(len(model.to_bytes()))}, {len(counts)} classes)"),
                ("guarantee", str(guarantee)),
                ("ledger", "no record was kept" if account is None else standing_text(account)),
            ]
        )
        say(f"\n{guarantee.statement()}")


@app.command(
    epilog="[bold]Example[/]: sfumato classify predict news.sfm texts.parquet --columns embedding -o topics.csv"
)
def predict(
    classifier: Annotated[Path, typer.Argument(metavar="CLASSIFIER", help="What fit wrote.", show_default=False)],
    points: Annotated[str, typer.Argument(metavar="POINTS", help="File of points.", show_default=False)],
    columns: ColumnsOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write .csv or .parquet instead of CSV on the screen."),
    ] = None,
    shares: Annotated[bool, typer.Option("--shares", help="Also write each class's share.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Classify points; it costs no privacy. Output: the column class, one line a point, and with --shares one a class.

    A point with a value that is not a finite number has no class.
    """
    check_suffix(output)
    from sfumato.learn import DensityClassifier
    from sfumato.sources import open_source

    model = DensityClassifier.load(classifier)
    source = open_source(points, parse_columns(columns, points))
    if source.dimension != model.n_features_in_:
        raise InputError(
            f"the points have {source.dimension} columns and the classifier {model.n_features_in_}; pass --columns"
        )
    answers = _answers(model, source, shares)
    if as_json:
        print_json({"guarantee": model.guarantee_.to_document(), **answers})
        return
    if not model.guarantee_.private:
        warn("NOT PRIVATE: the noise came from a seed.")
    complain(f"guarantee: {model.guarantee_}")
    write_table(answers, output, force)
    if output is not None:
        facts([("classes", str(output))])


def _answers(model: DensityClassifier, source: Source, shares: bool) -> dict[str, list[Any]]:
    """Columns of the answers; None for points that are not numbers."""
    import warnings

    import numpy as np

    names, parts = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about names of columns: here their order counts
        for batch in source.batches():
            good = np.isfinite(batch).all(axis=1)
            found = np.full((len(batch), 1 + len(model.classes_)), None, dtype=object)
            if good.any():
                found[good, 0] = model.predict(batch[good])
            if shares and good.any():
                found[good, 1:] = model.predict_proba(batch[good])
            names.append(found[:, 0])
            parts.append(found[:, 1:])
    answers = {"class": [name for block in names for name in block.tolist()]}
    for place, name in enumerate(model.classes_.tolist() if shares else []):
        answers[f"share {name}"] = [share for block in parts for share in block[:, place].tolist()]
    return answers
