"""`sfumato classify fit` and `predict`: a private classifier from a file of labelled points, and its answers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, print_json, size_text, tell, warn_of_seed, write_table
from sfumato.cli.flags import NEEDED, POINTS, PRIVACY, argument, flag
from sfumato.cli.groups import PaidRun, Payment, Reading, grouped
from sfumato.cli.ledger import spending
from sfumato.cli.outputs import refuse_inputs, refuse_unkept
from sfumato.cli.paid import make_file
from sfumato.cli.select import opened
from sfumato.cli.typed import one_column, parse_bandwidth, parse_classes, parse_options
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.learn import DensityClassifier
    from sfumato.privacy.ledger import Account
    from sfumato.sources import Source

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Fit a private classifier, and classify points with it."
)
ROOM = 1024  # bytes of a header whose numbers are known only at the end
FIT_EXAMPLE = (
    "[bold]Example[/]: sfumato classify fit news.parquet -o news.sfm --columns embedding[384] --label-column topic "
    "--classes world,sports,business --epsilon 1 --n-hint 20000"
)


class Rule(StrEnum):
    """What decides, as flags' values."""

    AUTO = "auto"
    HIGHEST_DENSITY = "highest-density"
    NEAREST_MEAN = "nearest-mean"
    SQUARED_DISTANCE = "squared-distance"
    LINEAR = "linear"


class Priors(StrEnum):
    """What densities are multiplied with, as flags' values."""

    UNIFORM = "uniform"
    PRIVATE = "private"


LabelColumnOption = Annotated[str | None, flag("The column of the labels.", "NAME", panel=NEEDED)]
ClassesOption = Annotated[
    str | None, flag("The public list of classes; records with other labels are dropped.", "A,B,...", panel=NEEDED)
]
EpsilonOption = Annotated[str | None, flag("Privacy budget of all classes together: 1, 0.5, 1/3.", "E", panel=NEEDED)]
HintOption = Annotated[
    int | None, flag("Public guess of the number of rows of all classes together.", "N", panel=NEEDED)
]
KernelOption = Annotated[str, flag("inner-product (normalised embeddings), gaussian, ...", "NAME", panel=POINTS)]
BandwidthOption = Annotated[str | None, flag("Bandwidth; for the inner product the largest length.", "B", panel=POINTS)]
LandmarksOption = Annotated[str | None, flag("A file of public points like the records.", "PUBLIC", panel=POINTS)]
RuleOption = Annotated[
    Rule,
    flag(
        "What decides; auto: nearest-mean for the inner product, linear with a delta, else highest-density.",
        panel=POINTS,
    ),
]
CenterOption = Annotated[
    str, flag("What is taken off all points: none, private (bought), or public numbers.", "X,Y,...", panel=POINTS)
]
PriorsOption = Annotated[Priors, flag("uniform, or the shares of the noisy counts.", panel=POINTS)]
OptionOption = Annotated[
    list[str] | None, flag("What only this method knows, such as clip=0.5. Repeatable.", "NAME=VALUE", panel=PRIVACY)
]


@app.command(epilog=FIT_EXAMPLE)
@grouped
def fit(
    data: flags.Data,
    output: flags.Target = None,
    label_column: LabelColumnOption = None,
    classes: ClassesOption = None,
    epsilon: EpsilonOption = None,
    n_hint: HintOption = None,
    kernel: KernelOption = "inner-product",
    bandwidth: BandwidthOption = None,
    landmarks: LandmarksOption = None,
    rule: RuleOption = Rule.AUTO,
    center: CenterOption = "auto",
    priors: PriorsOption = Priors.UNIFORM,
    delta: flags.Delta = 0.0,
    method: flags.Method = "auto",
    option: OptionOption = None,
    *,
    reading: Reading,
    payment: Payment,
    run: PaidRun,
) -> None:
    """Release a private classifier of the labelled points in DATA: one file that classifies for ever.

    A record is a point with its label and counts in one class, so all classes together cost epsilon once. On a
    terminal, or with --look, the first rows and labels are looked at before the charge. The counts are bought first: if
    they are far below --n-hint, as when no label is a class, the run stops and only they are charged (but for --rule
    linear, which is paid for as a whole).
    """
    target, names = _check_needed(output, label_column, classes, epsilon, n_hint)
    account = payment.account(data)
    refuse_inputs(target, data, landmarks, None if account is None else account.ledger.path)
    from sfumato.learn import DensityClassifier
    from sfumato.sources import arguments_named

    with arguments_named(key="--label-column"):
        source = reading.source(data, key=one_column(label_column, data))
    model = DensityClassifier(
        kernel,
        bandwidth=None if bandwidth is None else parse_bandwidth(bandwidth),
        epsilon=epsilon,
        delta=delta,
        classes=names,
        n_hint=n_hint,
        method=method,
        bounds=reading.bounds_of(source),
        landmarks=reading.public(landmarks),
        rule=rule.value,
        center=_center(center),
        priors=priors.value,
        options=parse_options(option),
        ledger=account,
        feature_seed=payment.features,
        random_state=payment.seed_noise_not_private,
        engine=run.where,
    )
    size, looks = largest_size(model, source), run.looks
    make_file(
        lambda progress: model.fit(source, str(label_column), threads=run.threads, progress=progress, look=looks),
        size,
        target,
        source,
        account,
        force=run.force,
        show=run.show,
    )
    _report(model, target, account, **run.told)


def _check_needed(
    output: Path | None, label_column: str | None, classes: str | None, epsilon: str | None, n_hint: int | None
) -> tuple[Path, list[str]]:
    """Refuse to guess what must come from the curator."""
    for wanted, value, use in (
        ("--label-column NAME", label_column, "the column of the labels"),
        ("--classes A,B,...", classes, "the public list of classes: which labels occur may be private"),
        ("--epsilon E", epsilon, "the privacy budget of all classes together, such as 1"),
        ("--n-hint N", n_hint, "a public guess of the number of rows: their true number is private"),
        ("-o OUT.sfm", output, "the file to write"),
    ):
        if value is None:
            raise InputError(f"{wanted} is missing: {use}")
    assert output is not None and classes is not None
    refuse_unkept(output)
    return output, parse_classes(classes)


def _center(text: str) -> Any:
    """Read --center: a word, or numbers separated by commas."""
    if text in ("auto", "none", "private"):
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--center must be auto, none, private or numbers separated by commas, got {text!r}") from None


def largest_size(model: DensityClassifier, source: Source) -> int:
    """Most bytes that a classifier can take; known from public facts alone."""
    from dataclasses import replace

    import numpy as np

    from sfumato.kernels import get_kernel
    from sfumato.learn import files, fitting, rules
    from sfumato.release import Count

    classes, settings = np.unique(model.classes), model.get_params(deep=False)
    rule = fitting.rule_of(settings, source, len(classes))
    if rule == rules.LINEAR:
        rules.check_rule(rule, get_kernel(model.kernel, model.bandwidth), model.priors)
        blank = fitting.linear_training(settings, source, len(classes)).untrained(source.column_names)
        return len(files.encode_linear(classes, blank)) + ROOM
    mechanism = model.mechanism(source, len(classes))
    # The longest numbers there can be, and different ones, so that no true classifier is longer.
    releases = [
        mechanism.release(np.full(mechanism.reader.size, 2**62 - place), Count(10**18 - place, 1 / 3, False))
        for place in range(len(classes))
    ]
    releases = [replace(release, columns=source.column_names) for release in releases]
    centre = np.full(source.dimension, -1 / 3e-100) if str(model.center) not in ("auto", "none") else None
    return len(files.encode(classes, releases, rule, model.priors, files.BY_LABEL, centre)) + ROOM


def _report(model: DensityClassifier, target: Path, account: Account | None, *, as_json: bool, quiet: bool) -> None:
    guarantee, (ledger, standing) = model.guarantee_, spending(account)
    warn_of_seed(guarantee, "Do not publish this classifier. Nothing was charged.")
    counts: dict[str, Any] = {str(name): None for name in model.classes_.tolist()}  # a linear classifier has none
    counts |= {str(name): release.count.to_document() for name, release in model.releases_.items()}
    document: dict[str, Any] = {"classifier": str(target), "rule": model.rule_, "classes": counts}
    document |= {"guarantee": guarantee.to_document(), "statement": guarantee.statement(), "ledger": ledger}
    pairs = [
        ("classifier", f"{target} ({size_text(len(model.to_bytes()))}, {len(counts)} classes)"),
        ("guarantee", str(guarantee)),
        ("ledger", standing),
    ]
    tell(document, pairs, guarantee.statement(), as_json=as_json, quiet=quiet)


@app.command(
    epilog="[bold]Example[/]: sfumato classify predict news.sfm texts.parquet --columns embedding -o topics.csv"
)
def predict(
    classifier: Annotated[Path, argument("What fit wrote.", "CLASSIFIER")],
    points: Annotated[str, argument("File of points.", "POINTS")],
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    output: flags.TableOutput = None,
    shares: Annotated[bool, flag("Also write each class's share.", None, "--shares")] = False,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Classify points; it costs no privacy. Output: the column class, one line a point, and with --shares one a class.

    A point with a value that is not a finite number has no class.
    """
    check_suffix(output)
    refuse_inputs(output, classifier, points)
    from sfumato.learn import DensityClassifier

    model = DensityClassifier.load(classifier)
    names = getattr(model, "feature_names_in_", None)
    source = opened(points, columns, None if names is None else tuple(names), separator=separator, decimal=decimal)
    if source.dimension != model.n_features_in_:
        raise InputError(
            f"the points have {source.dimension} columns and the classifier {model.n_features_in_}; pass --columns"
        )
    answers = _answers(model, source, shares)
    if as_json:
        print_json({"guarantee": model.guarantee_.to_document(), **answers})
        return
    warn_of_seed(model.guarantee_)
    complain(f"guarantee: {model.guarantee_}")
    write_table(answers, output, force)
    if output is not None:
        tell({}, [("classes", str(output))])


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
