"""Error of private releases at held-out queries against the exact density, and against the error that was predicted.

Settings: `kernel`, `neighbours`, `count_share`, `epsilons` (text), `seeds` (how many), `queries`, `held_out` (points
set aside: the first `queries` are asked, all of them measure P), `data` (tables with `set` and `bandwidth`),
`methods` (tables with `name`, `label`, and `options` or `best_times`, a multiple of the method's own best size).

All methods of one unit (a data set and an epsilon) run after one another with the same points, queries, seeds,
neighbouring relation and count share. Run s uses s as feature seed and as noise seed. The error is the root mean
square over seeds and queries; the error's own uncertainty is taken from the spread between seeds, because the queries
of one run share its features and noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Split, load_split
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.methods import METHODS, Facts
from sfumato import PrivateKDE
from sfumato.central.request import Request
from sfumato.kernels import Kernel, get_kernel
from sfumato.privacy.rational import exact_epsilon

COLUMNS = {
    "epsilon": "epsilon",
    "size": "options",
    "density": "P",
    "rmse": "RMSE",
    "rmse_error": "+-",
    "mae": "mean abs",
    "predicted": "predicted RMSE",
    "ratio": "measured / predicted",
    "bar_ratio": "error bar / measured",
    "constant_ratio": "RMSE / sd of the truth",
    "cpu_seconds": "curator CPU s",
}


@dataclass(frozen=True, eq=False)
class Experiment:
    """One data set at one epsilon, with its exact answers."""

    settings: Settings
    split: Split
    kernel: Kernel
    epsilon: str
    truth: NDArray[np.float64]
    density: float

    @property
    def queries(self) -> NDArray[np.float64]:
        return self.split.held_out[: len(self.truth)]

    @property
    def facts(self) -> Facts:
        request = Request(
            kernel=self.kernel,
            dimension=self.queries.shape[1],
            epsilon=exact_epsilon(self.epsilon),
            n=len(self.split.points),
            feature_seed=0,
            neighbours=self.settings["neighbours"],
            options={"count_share": Fraction(self.settings["count_share"])},
        )
        return Facts(request, self.density, float(np.mean(self.truth**2)))


def units(settings: Settings) -> Sequence[Unit]:
    return [{"set": table["set"], "epsilon": epsilon} for table in settings["data"] for epsilon in settings["epsilons"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["data"] if table["set"] == unit["set"])
    split = load_split(table, settings["held_out"])
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    exact = kernel.exact_density(split.points, split.held_out)
    truth, density = exact[: settings["queries"]], float(exact.mean())
    experiment = Experiment(settings, split, kernel, unit["epsilon"], truth, density)
    for method in settings["methods"]:
        yield _measure_method(experiment, method)


def _measure_method(experiment: Experiment, method: Mapping[str, Any]) -> Measurement:
    known, facts, settings = METHODS.get(method["name"]), experiment.facts, experiment.settings
    options = dict(method.get("options", {}))
    if "best_times" in method:
        options |= METHODS[method["name"]].best(facts, method["best_times"])
    seeds = list(range(1, settings["seeds"] + 1))
    runs = [_run(experiment, method["name"], options, seed) for seed in seeds]
    values = _errors(runs) | {"epsilon": experiment.epsilon, "size": _text(options), "density": experiment.density}
    if known is not None:
        values["predicted"] = known.predict(facts, options)
        values["ratio"] = values["rmse"] / values["predicted"]
    values["constant_ratio"] = values["rmse"] / float(experiment.truth.std())
    return Measurement(
        label=method["label"],
        values=values,
        data=experiment.split.facts | {"queries": len(experiment.truth)},
        seeds=seeds,
        neighbours=settings["neighbours"],
        count_share=settings["count_share"] if settings["neighbours"] == "add-remove" else None,
    )


@dataclass(frozen=True, eq=False)
class Run:
    """One release: errors and error bars at the queries, and the curator's CPU time."""

    errors: NDArray[np.float64]
    bars: NDArray[np.float64]
    cpu_seconds: float


def _run(experiment: Experiment, name: str, options: Mapping[str, Any], seed: int) -> Run:
    split, settings = experiment.split, experiment.settings
    share = {"count_share": Fraction(settings["count_share"])} if settings["neighbours"] == "add-remove" else {}
    model = PrivateKDE(
        kernel=experiment.kernel,
        epsilon=experiment.epsilon,
        method=name,
        bounds=split.bounds,
        neighbours=settings["neighbours"],
        n_hint=len(split.points),
        options={**options, **share},
        feature_seed=seed,
        random_state=seed,
    )
    start = time.process_time()
    model.fit(split.points)
    cpu_seconds = time.process_time() - start
    answers, bars = model.query(experiment.queries, return_std=True)
    return Run(answers - experiment.truth, bars, cpu_seconds)


def _errors(runs: Sequence[Run]) -> dict[str, Any]:
    errors, bars = np.array([run.errors for run in runs]), np.array([run.bars for run in runs])
    squares = np.mean(errors**2, axis=1)
    rmse = math.sqrt(squares.mean())
    spread = float(squares.std(ddof=1)) / math.sqrt(len(runs)) if len(runs) > 1 else math.nan
    return {
        "rmse": rmse,
        "rmse_error": spread / (2 * rmse),
        "mae": float(np.abs(errors).mean()),
        "bar_ratio": math.sqrt(float(np.mean(bars**2))) / rmse,
        "cpu_seconds": float(np.median([run.cpu_seconds for run in runs])),
    }


def _text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())
