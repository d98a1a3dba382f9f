"""Accuracy of private classifiers on AG News against the same classifier without privacy.

Settings: `n_hint`, `seeds` (how many), `epsilons` (text), `landmarks` (training points set aside as public), `methods`:
tables with `label`, `kernel` and, where they apply, `bandwidth`, `delta`, `options` and `landmarks = true`.

Without privacy means the exact densities of the same kernel and the same training points. Differences are paired: the
same test points, with and without privacy. The interval covers the spread over seeds (of noise and features) and over
test points, 95 % each side together. Run s uses s as feature seed and as noise seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import labelled_agnews
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.kernels import get_kernel
from sfumato.learn import DensityClassifier

COLUMNS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "accuracy": "accuracy, %",
    "spread": "sd over seeds",
    "without": "without privacy, %",
    "lost": "points lost",
    "interval": "+- (95 %)",
}
CLASSES = ("World", "Sports", "Business", "Sci/Tech")
NORMAL_95 = 1.96


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"label": table["label"], "epsilon": epsilon}
        for table in settings["methods"]
        for epsilon in settings["epsilons"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    method = next(table for table in settings["methods"] if table["label"] == unit["label"])
    points, labels, tests, answers = labelled_agnews()
    aside = settings["landmarks"]
    public, points, labels = points[:aside], points[aside:], labels[aside:]
    kernel = get_kernel(method["kernel"], method.get("bandwidth"))
    exact = np.column_stack([kernel.exact_density(points[labels == c], tests) for c in range(len(CLASSES))])
    right = exact.argmax(axis=1) == answers
    seeds = list(range(1, settings["seeds"] + 1))
    runs = np.array(
        [_right(settings, method, unit["epsilon"], seed, public, points, labels, tests, answers) for seed in seeds]
    )
    accuracies = runs.mean(axis=1)
    yield Measurement(
        label=method["label"],
        values={
            "epsilon": unit["epsilon"],
            "delta": method.get("delta", 0.0),
            "accuracy": 100 * float(accuracies.mean()),
            "spread": 100 * float(accuracies.std(ddof=1)),
            "without": 100 * float(right.mean()),
            "lost": 100 * float(right.mean() - accuracies.mean()),
            "interval": 100 * _interval(runs, right),
        },
        data={"set": "agnews", "n": len(points), "d": points.shape[1], "queries": len(tests)},
        seeds=seeds,
        neighbours="add-remove",
        count_share="1/20",
    )


def _right(
    settings: Settings,
    method: Mapping[str, Any],
    epsilon: str,
    seed: int,
    public: NDArray[Any],
    points: NDArray[Any],
    labels: NDArray[Any],
    tests: NDArray[Any],
    answers: NDArray[Any],
) -> NDArray[np.bool_]:
    """Which test points one private classifier gets right."""
    model = DensityClassifier(
        method["kernel"],
        bandwidth=method.get("bandwidth"),
        epsilon=epsilon,
        delta=method.get("delta", 0.0),
        classes=list(range(len(CLASSES))),
        n_hint=settings["n_hint"],
        landmarks=public if method.get("landmarks") else None,
        options=method.get("options"),
        feature_seed=seed,
        random_state=seed,
    )
    return np.asarray(model.fit(points, labels).predict(tests) == answers)


def _interval(runs: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """Half the width of the interval of the paired difference: seeds and test points both vary."""
    seeds = runs.mean(axis=1).std(ddof=1) / math.sqrt(len(runs))
    tests = (runs.mean(axis=0) - right).std(ddof=1) / math.sqrt(len(right))
    return NORMAL_95 * math.hypot(seeds, tests)
