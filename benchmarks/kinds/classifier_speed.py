"""Private classification of AG News at one budget: accuracy against no privacy, and time against nearest neighbours.

Settings: `epsilon`, `delta`, `seeds` (how many), `repetitions` (of the timing), `rules` (of `DensityClassifier`).

Without privacy means the class of the highest exact inner product with its mean (the nearest mean, for points of one
length). Differences are paired, and the interval covers seeds and test points, as in the kind `classification`. Times
are CPU seconds of fitting and predicting together, one thread; scikit-learn's KNeighborsClassifier only predicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from benchmarks.datasets import labelled_agnews
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.timing import least_cpu_seconds
from sfumato.kernels import InnerProduct
from sfumato.learn import DensityClassifier

NEIGHBOURS = "KNeighborsClassifier, predict alone, not private"
NORMAL_95 = 1.96
COLUMNS = {
    "epsilon": "epsilon",
    "accuracy": "accuracy, %",
    "spread": "sd over seeds",
    "without": "without privacy, %",
    "lost": "points lost",
    "interval": "+- (95 %)",
    "lost_most": "points lost, end of the interval",
    "cpu_seconds": "CPU s",
    "speedup": "times faster than neighbours",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    points, labels, tests, answers = labelled_agnews()
    exact = np.column_stack([InnerProduct().exact_density(points[labels == c], tests) for c in range(4)])
    right = exact.argmax(axis=1) == answers
    seeds = list(range(1, settings["seeds"] + 1))

    def model(rule: str, seed: int) -> NDArray[np.int64]:
        fitted = DensityClassifier(
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            classes=list(range(4)),
            n_hint=len(points),
            rule=rule,
            feature_seed=seed,
            random_state=seed,
        ).fit(points, labels, threads=1)
        return np.asarray(fitted.predict(tests))

    neighbours = KNeighborsClassifier().fit(points, labels)
    actions: dict[str, Callable[[], object]] = {NEIGHBOURS: lambda: neighbours.predict(tests)}
    actions |= {rule: lambda rule=rule: model(rule, 1) for rule in settings["rules"]}
    with threadpool_limits(limits=1, user_api="blas"):
        runs = {rule: np.array([model(rule, seed) == answers for seed in seeds]) for rule in settings["rules"]}
        runs[NEIGHBOURS] = np.array([neighbours.predict(tests) == answers])
        seconds = least_cpu_seconds(actions, settings["repetitions"])
    data = {"set": "agnews", "n": len(points), "d": points.shape[1], "queries": len(tests)}
    for label, found in runs.items():
        accuracies = found.mean(axis=1)
        values = {
            "accuracy": 100 * float(accuracies.mean()),
            "cpu_seconds": seconds[label],
            "speedup": seconds[NEIGHBOURS] / seconds[label],
        }
        if label == NEIGHBOURS:
            yield Measurement(label, values, data)
            continue
        lost, interval = float(right.mean() - accuracies.mean()), _interval(found, right)
        values |= {"epsilon": settings["epsilon"], "spread": 100 * float(accuracies.std(ddof=1))}
        values |= {"without": 100 * float(right.mean()), "lost": 100 * lost, "interval": 100 * interval}
        values["lost_most"] = 100 * (lost + interval)
        yield Measurement(label, values, data, seeds, "add-remove", "1/20" if label != "squared-distance" else None)


def _interval(runs: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """Half the width of the interval of the paired difference: seeds and test points both vary."""
    seeds = runs.mean(axis=1).std(ddof=1) / math.sqrt(len(runs))
    tests = (runs.mean(axis=0) - right).std(ddof=1) / math.sqrt(len(right))
    return NORMAL_95 * math.hypot(seeds, tests)
