"""Landmarks against the published mechanism, in and out of the records' domain, and whether error bars tell the truth.

Settings: `kernel`, `neighbours`, `count_share`, `epsilons` (text), `seeds` (how many), `queries`, `landmarks` (how
many), `data`: tables with `set`, `bandwidth`, `rows` and `landmarks_from`: "same" for other points of the same set,
"uniform" for points spread evenly over the set's bounds, or the name of another set.

Landmarks are without their check, which `landmarks_shift` is about. Landmarks, queries and points are disjoint. A bar
is the reported standard error times 1.96, which 95 % of the errors of unbiased normal answers would not exceed. Run s
uses s as feature seed and as noise seed.
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
from benchmarks.methods import Facts
from sfumato import PrivateKDE
from sfumato.kernels import Kernel, get_kernel
from sfumato.release import Release

COLUMNS = {
    "landmarks": "landmarks",
    "epsilon": "epsilon",
    "size": "features",
    "rmse": "RMSE",
    "mae": "mean abs",
    "mae_over_baseline": "mean abs / baseline's",
    "predicted": "predicted RMSE",
    "ratio": "measured / predicted",
    "covered": "errors within the bar",
    "bar_ratio": "median bar / mean abs",
    "bound_covers": "errors within bias bound and noise",
    "bound_ratio": "median bias bound / mean abs",
    "public_mae": "mean abs of the public sample itself",
    "file_kb": "file kB",
    "cpu_seconds": "curator CPU s",
}
NORMAL_95 = 1.96
LOOSE = 5.0  # standard deviations of noise beside the bias bound, which is about bias alone


@dataclass(frozen=True, eq=False)
class Experiment:
    """One data set at one epsilon, with its exact answers and its public points."""

    settings: Settings
    split: Split
    kernel: Kernel
    epsilon: str
    truth: NDArray[np.float64]
    public: NDArray[np.float64]

    @property
    def queries(self) -> NDArray[np.float64]:
        return self.split.held_out[: len(self.truth)]

    def model(self, method: str, seed: int, options: Mapping[str, Any]) -> PrivateKDE:
        """Return the estimator of one run."""
        share = {"count_share": Fraction(self.settings["count_share"])}
        if method == "landmarks":
            options = {"check_share": 0, **options}
        return PrivateKDE(
            kernel=self.kernel,
            epsilon=self.epsilon,
            method=method,
            bounds=self.split.bounds,
            landmarks=self.public if method == "landmarks" else None,
            neighbours=self.settings["neighbours"],
            n_hint=len(self.split.points),
            options={**options, **(share if self.settings["neighbours"] == "add-remove" else {})},
            feature_seed=seed,
            random_state=seed,
        )


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"set": table["set"], "landmarks_from": table["landmarks_from"], "epsilon": epsilon}
        for table in settings["data"]
        for epsilon in settings["epsilons"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(
        table
        for table in settings["data"]
        if (table["set"], table["landmarks_from"]) == (unit["set"], unit["landmarks_from"])
    )
    held_out = settings["queries"] + settings["landmarks"]
    split = load_split({name: table[name] for name in ("set", "rows")}, held_out)
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    truth = kernel.exact_density(split.points, split.held_out[: settings["queries"]])
    public = _public(settings, table, split)
    experiment = Experiment(settings, split, kernel, unit["epsilon"], truth, public)
    baseline = None
    if table["landmarks_from"] == "same":
        baseline = _measure(experiment, "lsq-rff", "lsq-rff, its best I", table, None)
        yield baseline
    yield _measure(experiment, "landmarks", "landmarks", table, baseline)


def _public(settings: Settings, table: Mapping[str, Any], split: Split) -> NDArray[np.float64]:
    """Public points that no query and no record is among."""
    wanted = settings["landmarks"]
    if table["landmarks_from"] == "same":
        return split.held_out[settings["queries"] :]
    if table["landmarks_from"] == "uniform":
        low, high = np.broadcast_to(np.asarray(split.bounds), (split.points.shape[1], 2)).T
        return low + (high - low) * np.random.default_rng(0).random((wanted, len(low)))
    return load_split({"set": table["landmarks_from"]}, wanted).held_out


def _measure(
    experiment: Experiment, method: str, label: str, table: Mapping[str, Any], baseline: Measurement | None
) -> Measurement:
    seeds = list(range(1, experiment.settings["seeds"] + 1))
    request = experiment.model(method, 0, {}).request(experiment.queries.shape[1])
    density = float(experiment.truth.mean())
    facts = Facts(request, density)
    options = facts.best(method, 1.0) if method == "lsq-rff" else {}
    runs = [_run(experiment, method, options, seed) for seed in seeds]
    errors, bars = (np.array([run[place] for run in runs]) for place in (0, 1))
    rmse, mae = math.sqrt(float(np.mean(errors**2))), float(np.abs(errors).mean())
    release: Release = runs[-1][2]
    values: dict[str, Any] = {
        "landmarks": f"{len(experiment.public)}, {table['landmarks_from']}" if method == "landmarks" else "",
        "epsilon": experiment.epsilon,
        "size": release.parameters["n_features"],
        "rmse": rmse,
        "mae": mae,
        "predicted": facts.predict(method, options)[0],
        "covered": float((np.abs(errors) <= NORMAL_95 * bars).mean()),
        "bar_ratio": NORMAL_95 * float(np.median(bars)) / mae,
        "file_kb": len(release.to_bytes()) / 1000,
        "cpu_seconds": float(np.median([run[3] for run in runs])),
    }
    values["ratio"] = rmse / values["predicted"]
    if baseline is not None:
        values["mae_over_baseline"] = mae / baseline.values["mae"]
    if method == "landmarks":
        values |= _bounds(experiment, runs, errors)
    return Measurement(
        label=label,
        values=values,
        data=experiment.split.facts | {"queries": len(experiment.truth)},
        seeds=seeds,
        neighbours=experiment.settings["neighbours"],
        count_share=experiment.settings["count_share"],
    )


def _run(experiment: Experiment, method: str, options: Mapping[str, Any], seed: int) -> tuple[Any, Any, Release, float]:
    model = experiment.model(method, seed, options)
    start = time.process_time()
    model.fit(experiment.split.points)
    seconds = time.process_time() - start
    answers, bars = model.query(experiment.queries, return_std=True)
    return answers - experiment.truth, bars, model.release_, seconds


def _bounds(experiment: Experiment, runs: Sequence[Any], errors: NDArray[Any]) -> dict[str, float]:
    bounds, noises = [], []
    for _, _, release, _ in runs:
        weights = release.reader.weights(experiment.queries)
        bounds.append(release.bias_bound(experiment.queries))
        noises.append(np.sqrt(release.noise.variance * np.square(weights).sum(axis=1)) / release.count.value)
    limits = np.array(bounds) + LOOSE * np.array(noises)
    public = experiment.kernel.exact_density(experiment.public, experiment.queries)
    return {
        "bound_covers": float((np.abs(errors) <= limits).mean()),
        "bound_ratio": float(np.median(bounds)) / float(np.abs(errors).mean()),
        "public_mae": float(np.abs(public - experiment.truth).mean()),
    }
