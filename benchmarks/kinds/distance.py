"""Error of private sums of distances at queries spread over the box, against the exact sums and the prediction.

Settings: `metric`, `dimension`, `epsilons` (text), `trials`, `queries`, `neighbours`, `data` (tables with `set`,
"uniform" or "beta", and `n`), `methods` (tables with `name`, `label`, and `options` and `delta` where they are not
empty). The first method of a case is its baseline.

All methods of one unit (data and an epsilon) run after one another on the same records and queries in the unit box. In
one dimension the queries are evenly spaced. Run s uses s as feature seed and as noise seed. The error is the root mean
square over runs and queries; its own uncertainty is taken from the spread between runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.distances import PrivateDistance, plan
from sfumato.kernels import Distance

COLUMNS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "rmse": "RMSE",
    "rmse_error": "+-",
    "relative": "mean relative error",
    "predicted": "predicted RMSE",
    "ratio": "measured / predicted",
    "worst_ratio": "worst query, measured / predicted",
    "over_baseline": "RMSE / baseline's",
    "relative_over_baseline": "relative error / baseline's",
    "bar_ratio": "error bar / measured",
    "zeros": "answers that are 0",
    "cpu_seconds": "curator CPU s",
}
DATA_SEED = 0
BETA = (2, 6)


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"set": table["set"], "n": table["n"], "epsilon": epsilon}
        for table in settings["data"]
        for epsilon in settings["epsilons"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    random = np.random.default_rng(DATA_SEED)
    shape = (unit["n"], settings["dimension"])
    rows = random.random(shape) if unit["set"] == "uniform" else random.beta(*BETA, size=shape)
    queries = random.random((settings["queries"], settings["dimension"]))
    if settings["dimension"] == 1:
        queries = np.linspace(0, 1, settings["queries"])[:, None]
    exact = Distance(settings["metric"]).exact_density(rows, queries) * len(rows)
    baseline: Measurement | None = None
    for method in settings["methods"]:
        row = _measure_method(settings, unit, method, rows, queries, exact, baseline)
        baseline = baseline or row
        yield row


def _measure_method(
    settings: Settings,
    unit: Unit,
    method: Mapping[str, Any],
    rows: NDArray[np.float64],
    queries: NDArray[np.float64],
    exact: NDArray[np.float64],
    baseline: Measurement | None,
) -> Measurement:
    delta, seeds = float(method.get("delta", 0.0)), list(range(1, settings["trials"] + 1))
    errors, bars, seconds = [], [], []
    for seed in seeds:
        model = PrivateDistance(
            settings["metric"],
            epsilon=unit["epsilon"],
            delta=delta,
            bounds=(0, 1),
            method=method["name"],
            neighbours=settings["neighbours"],
            n_hint=len(rows),
            options=dict(method.get("options", {})),
            feature_seed=seed,
            random_state=seed,
        )
        start = time.process_time()
        model.fit(rows)
        seconds.append(time.process_time() - start)
        answers, stated = model.query(queries, return_std=True)
        errors.append(answers - exact)
        bars.append(stated)
    values = _errors(np.array(errors), np.array(bars), exact)
    # The set and n are for the case's expectations, which look at values.
    values |= {"epsilon": unit["epsilon"], "delta": delta, "set": unit["set"], "n": len(rows)}
    values["cpu_seconds"] = float(np.median(seconds))
    made = plan(
        settings["metric"],
        n_hint=len(rows),
        dimension=settings["dimension"],
        epsilon=unit["epsilon"],
        delta=delta,
        bounds=(0, 1),
        neighbours=settings["neighbours"],
    )
    forecast = next(row.prediction for row in made.rows if row.method == method["name"])
    assert forecast is not None
    values |= {"predicted": forecast.rmse, "ratio": values["rmse"] / forecast.rmse}
    values["worst_ratio"] = values.pop("worst") / forecast.worst
    if baseline is not None:
        values["over_baseline"] = values["rmse"] / baseline.values["rmse"]
        values["relative_over_baseline"] = values["relative"] / baseline.values["relative"]
    data = {"set": unit["set"], "n": len(rows), "d": settings["dimension"], "queries": len(queries)}
    return Measurement(method["label"], values, data | {"data_seed": DATA_SEED}, seeds, settings["neighbours"])


def _errors(errors: NDArray[np.float64], bars: NDArray[np.float64], exact: NDArray[np.float64]) -> dict[str, Any]:
    squares = np.mean(errors**2, axis=1)
    rmse = math.sqrt(squares.mean())
    return {
        "rmse": rmse,
        "rmse_error": float(squares.std(ddof=1)) / math.sqrt(len(squares)) / (2 * rmse),
        "relative": float(np.mean(np.abs(errors) / exact)),
        "worst": math.sqrt(float(np.mean(errors**2, axis=0).max())),
        "bar_ratio": math.sqrt(float(np.mean(bars**2))) / rmse,
        "zeros": float(np.mean(errors == -exact)),
    }
