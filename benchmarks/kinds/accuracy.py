"""Error of private releases at held-out queries against the exact density, and against the error that was predicted.

Settings: `kernel`, `neighbours`, `count_share`, `epsilons` (text), `seeds` (how many), `queries`, `held_out` (points
set aside: the first `queries` are asked, all of them measure P), `data` (tables with `set` and `bandwidth`, and
`seeds` where a small set needs more of them), `methods` (tables with `name`, `label`, and `options` or `best_times`, a
multiple of the method's own best size, `delta` where it is not 0, `told` where sizes are chosen with the true P, `read`
where answers are not read plainly, and `sets` where not all data sets suit it). The first method of a case is its
baseline; another has no row where it does not apply.

All methods of one unit (a data set and an epsilon) run after one another with the same points, queries, seeds,
neighbouring relation and count share. Run s uses s as feature seed and as noise seed. The error is the root mean
square over seeds and queries; the error's own uncertainty is taken from the spread between seeds, because the queries
of one run share its features and noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Split, load_split
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.methods import Facts
from sfumato import PrivateKDE
from sfumato.kernels import Kernel, get_kernel, kernel_from_document
from sfumato.methods.request import TYPICAL_DENSITY, Request
from sfumato.privacy.guarantee import exact_epsilon

COLUMNS = {
    "epsilon": "epsilon",
    "size": "options",
    "density": "P",
    "rmse": "RMSE",
    "rmse_error": "+-",
    "mae": "mean abs",
    "predicted": "predicted RMSE",
    "ratio": "measured / predicted",
    "blind_ratio": "measured / predicted for P = 0.02",
    "inside": "inside the interval for unknown P",
    "over_baseline": "RMSE / baseline's",
    "mae_over_baseline": "mean abs / baseline's",
    "bar_ratio": "error bar / measured",
    "constant_ratio": "RMSE / sd of the truth",
    "cpu_seconds": "curator CPU s",
    "cpu_over_baseline": "CPU / baseline's",
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

    def facts(self, delta: float) -> Facts:
        """What is public, and P."""
        request = Request(
            kernel=self.kernel,
            dimension=self.queries.shape[1],
            epsilon=exact_epsilon(self.epsilon),
            n=len(self.split.points),
            feature_seed=0,
            delta=delta,
            bounds=self.split.bounds,
            neighbours=self.settings["neighbours"],
            options=_shared_options(self.settings),
        )
        return Facts(request, self.density)


def units(settings: Settings) -> Sequence[Unit]:
    return [{"set": table["set"], "epsilon": epsilon} for table in settings["data"] for epsilon in settings["epsilons"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["data"] if table["set"] == unit["set"])
    settings = {**settings, "seeds": max(settings["seeds"], table.get("seeds", 0))}
    split = load_split(table, settings["held_out"])
    kernel = _kernel(settings["kernel"], table["bandwidth"])
    exact = kernel.exact_density(split.points, split.held_out)
    truth, density = exact[: settings["queries"]], float(exact.mean())
    experiment = Experiment(settings, split, kernel, unit["epsilon"], truth, density)
    baseline: Measurement | None = None
    for method in settings["methods"]:
        if unit["set"] not in method.get("sets", [unit["set"]]) or not _applies(experiment, method):
            continue
        row = _measure_method(experiment, method, baseline)
        baseline = baseline or row
        yield row


def _kernel(kernel: Any, bandwidth: Any) -> Kernel:
    """Make the kernel of a name, or of a document that lacks the bandwidth."""
    return (
        get_kernel(kernel, bandwidth)
        if isinstance(kernel, str)
        else kernel_from_document({**kernel, "bandwidth": bandwidth})
    )


def _options(experiment: Experiment, method: Mapping[str, Any]) -> dict[str, Any]:
    facts, options = experiment.facts(float(method.get("delta", 0.0))), dict(method.get("options", {}))
    if "best_times" in method:
        options |= facts.best(method["name"], method["best_times"])
    return options | ({"density": experiment.density} if method.get("told", False) else {})


def _applies(experiment: Experiment, method: Mapping[str, Any]) -> bool:
    """Tell whether the method takes these points with this budget."""
    facts = experiment.facts(float(method.get("delta", 0.0)))
    return method["name"] == "auto" or facts.applies(method["name"], _options(experiment, method))


def _measure_method(experiment: Experiment, method: Mapping[str, Any], baseline: Measurement | None) -> Measurement:
    settings, delta = experiment.settings, float(method.get("delta", 0.0))
    facts, options = experiment.facts(delta), _options(experiment, method)
    read = method.get("read", "plain")
    seeds = list(range(1, settings["seeds"] + 1))
    runs = [_run(experiment, method["name"], delta, options, seed, read) for seed in seeds]
    values = _errors(runs) | {"epsilon": experiment.epsilon, "size": _text(options), "density": experiment.density}
    values |= {"method": method["name"], "set": experiment.split.name}
    values["predicted"], lowest, highest = facts.predict(method["name"], options)
    values["ratio"] = values["rmse"] / values["predicted"]
    values["blind_ratio"] = values["rmse"] / replace(facts, density=TYPICAL_DENSITY).predict(method["name"], options)[0]
    values["inside"] = int(lowest <= values["rmse"] <= highest)
    values["constant_ratio"] = values["rmse"] / float(experiment.truth.std())
    if baseline is not None:
        values["over_baseline"] = values["rmse"] / baseline.values["rmse"]
        values["mae_over_baseline"] = values["mae"] / baseline.values["mae"]
        values["cpu_over_baseline"] = values["cpu_seconds"] / baseline.values["cpu_seconds"]
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


def _shared_options(settings: Settings) -> dict[str, Any]:
    return {"count_share": Fraction(settings["count_share"])} if settings["neighbours"] == "add-remove" else {}


def _run(experiment: Experiment, name: str, delta: float, options: Mapping[str, Any], seed: int, read: str) -> Run:
    split, settings = experiment.split, experiment.settings
    model = PrivateKDE(
        kernel=experiment.kernel,
        epsilon=experiment.epsilon,
        delta=delta,
        method=name,
        bounds=split.bounds,
        neighbours=settings["neighbours"],
        n_hint=len(split.points),
        options={**options, **_shared_options(settings)},
        feature_seed=seed,
        random_state=seed,
    )
    start = time.process_time()
    model.fit(split.points)
    cpu_seconds = time.process_time() - start
    answers, bars = model.query(experiment.queries, return_std=True, read=read)
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
