"""`sfumato distance`: from a file of points to private distances; and `sfumato anomaly`: outliers by a release."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, warn_of_seed, write_table
from sfumato.cli.flags import NEEDED, POINTS, Neighbours, argument, flag
from sfumato.cli.groups import NeighboursOption, OptionOption, PaidRun, Payment, Reading, grouped
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.paid import make_release
from sfumato.cli.release import EpsilonOption, HintOption, PaidCountOption, check_needed, report
from sfumato.cli.typed import parse_columns, parse_options
from sfumato.errors import InputError

EXAMPLES = (
    "[bold]Example[/]: sfumato distance homes.csv -o homes.sfm --columns x,y --metric manhattan --bounds 0,10 "
    "--epsilon 1 --n-hint 10000\n\n"
    "sfumato query homes.sfm --at 2,3 (the mean distance)"
)
ANOMALY_EXAMPLES = "[bold]Example[/]: sfumato anomaly trips.sfm new-trips.csv -o scores.csv"


class Metric(StrEnum):
    """Distances, as flags' values."""

    L1 = "l1"
    MANHATTAN = "manhattan"
    L2 = "l2"
    EUCLIDEAN = "euclidean"
    SQEUCLIDEAN = "sqeuclidean"
    LPP = "lpp"


MetricOption = Annotated[Metric, flag("Which distance: l1 is manhattan, l2 euclidean.", panel=NEEDED)]
PowerOption = Annotated[float | None, flag("The power of lpp, from 1 to 2.", "P", "--power", panel=POINTS)]


@grouped
def distance(
    data: flags.Data,
    output: flags.Target = None,
    metric: MetricOption = Metric.L1,
    power: PowerOption = None,
    epsilon: EpsilonOption = None,
    n_hint: HintOption = None,
    paid_count: PaidCountOption = False,
    method: flags.Method = "auto",
    option: OptionOption = None,
    delta: flags.Delta = 0.0,
    neighbours: NeighboursOption = Neighbours.ADD_REMOVE,
    *,
    reading: Reading,
    payment: Payment,
    run: PaidRun,
) -> None:
    """Release private distances to the points in DATA: for any query, how far the records are on average.

    How far a record can be sets the noise, so public bounds are needed. On a terminal, or with --look, the first rows
    are looked at before the charge.
    """
    target = check_needed(output, epsilon, n_hint, paid_count)
    account = payment.account(data)
    refuse_inputs(target, data, None if account is None else account.ledger.path)
    from sfumato.distances.estimator import PrivateDistance

    source = reading.source(data)
    model = PrivateDistance(
        metric.value,
        p=power,
        epsilon=epsilon,
        delta=delta,
        method=method,
        bounds=reading.bounds_of(source),
        neighbours=neighbours.value,
        n_hint="paid" if paid_count else n_hint,
        options=parse_options(option),
        ledger=account,
        feature_seed=payment.features,
        random_state=payment.seed_noise_not_private,
        engine=run.where,
    )
    made = make_release(model, source, target, look=run.looks, force=run.force, threads=run.threads, show=run.show)
    report(made, target, account, model.delta, **run.told)


def anomaly(
    release: flags.ReleaseFile,
    points: Annotated[str, argument("File of points to judge.", "POINTS")],
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    level: Annotated[float, flag("Standard errors that a density must reach for records to be near.", "L")] = 3.0,
    output: flags.TableOutput = None,
    force: flags.Force = False,
) -> None:
    """Tell which points lie where the release shows nobody; it costs no privacy.

    Output columns: score, the density in units of its standard error, and outlier, 1 where the score is below --level.
    """
    refuse_inputs(output, release, points)
    check_suffix(output)
    import numpy as np

    from sfumato.learn import AnomalyScore
    from sfumato.release import load
    from sfumato.sources import as_declared, open_source

    made = load(release)
    chosen = parse_columns(columns, points) or (made.columns and as_declared(made.columns))
    source = open_source(points, chosen, separator=separator, decimal=decimal)
    rows = source.whole()
    if not np.isfinite(rows).all():
        place = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"point number {place + 1} is not made of finite numbers; correct it or leave it out")
    model = AnomalyScore.of(made, level=level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the columns were chosen by name, and rows have none
        scores = model.score_samples(rows)
    warn_of_seed(made.guarantee)
    complain(f"guarantee: {made.guarantee}")
    table: dict[str, Any] = {"score": scores, "outlier": (scores < model.offset_).astype(np.int64)}
    write_table(table, None if output is None else Path(output), force)
