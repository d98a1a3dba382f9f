"""Private classification of embeddings against clipped noisy gradient descent: accuracy and time.

Settings: `data` (names of `LOADERS`), `epsilons` (text), `delta`, `seeds`, `methods`: tables with `label` and either
`rule` (of `DensityClassifier`), with `pure = true` for delta 0 and options, or `published = true` (squared distances as
published, the best of `projections` and `clips`), or `descent = true` (the best of `steps`, `rates` and `clips`), or
`diffprivlib` ("logistic-regression" or "naive-bayes", pure; skipped where that library is not installed).

The best of a grid is that with the highest mean accuracy on the test points, as the publication chose it; the search is
not paid for. Times are CPU seconds, one thread, of training and of answering all test points, at the chosen parameters.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.datasets import labelled_agnews, labelled_cifar
from benchmarks.descent import Descent, train
from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from sfumato import PrivateDistance
from sfumato.learn import DensityClassifier

COLUMNS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "accuracy": "accuracy, %",
    "spread": "sd over seeds",
    "train_seconds": "training, CPU s",
    "answer_seconds": "answers, CPU s",
    "parameters": "parameters",
}
LOADERS = {"agnews": labelled_agnews, "cifar10": labelled_cifar}
Answers = Callable[[NDArray[np.float32]], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test points of length 1, and a budget."""

    points: NDArray[np.float32]
    labels: NDArray[np.int64]
    tests: NDArray[np.float32]
    answers: NDArray[np.int64]
    epsilon: str
    delta: float

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"set": name, "label": table["label"], "epsilon": epsilon}
        for name in settings["data"]
        for table in settings["methods"]
        for epsilon in settings["epsilons"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["methods"] if table["label"] == unit["label"])
    points, labels, tests, answers = LOADERS[unit["set"]]()
    delta = 0.0 if table.get("pure") else settings["delta"]
    task = Task(points, labels, tests, answers, unit["epsilon"], delta)
    seeds = list(range(1, settings["seeds"] + 1))
    with threadpool_limits(limits=1, user_api="blas"):
        results = {name: [_run(task, fit, seed) for seed in seeds] for name, fit in _candidates(table)}
    best = max(results, key=lambda name: float(np.mean([accuracy for accuracy, _, _ in results[name]])))
    accuracies, training, answering = map(np.array, zip(*results[best], strict=True))
    yield Measurement(
        label=table["label"],
        values={
            "epsilon": unit["epsilon"],
            "delta": delta,
            "accuracy": 100 * float(accuracies.mean()),
            "spread": 100 * float(accuracies.std(ddof=1)),
            "train_seconds": float(training.min()),
            "answer_seconds": float(answering.min()),
            "parameters": best,
        },
        data={"set": unit["set"], "n": len(points), "d": points.shape[1], "queries": len(tests)},
        seeds=seeds,
        neighbours="add-remove",
    )


Fit = Callable[[Task, int], Answers]


def _candidates(table: Mapping[str, Any]) -> list[tuple[str, Fit]]:
    """What to try, by the text of its parameters."""
    if table.get("descent"):
        grid = itertools.product(table["steps"], table["rates"], table["clips"])
        return [(str(settings), partial(_descent, settings=settings)) for settings in itertools.starmap(Descent, grid)]
    if table.get("published"):
        pairs = itertools.product(table["projections"], table["clips"])
        return [(f"{k} projections, clip {c:g}", partial(_published, projections=k, clip=c)) for k, c in pairs]
    if table.get("diffprivlib"):
        return [("", partial(_diffprivlib, model=table["diffprivlib"]))]
    return [("", partial(_density, rule=table["rule"]))]


def _run(task: Task, fit: Fit, seed: int) -> tuple[float, float, float]:
    """Accuracy, and seconds of training and answering."""
    start = time.process_time()
    answer = fit(task, seed)
    fitted = time.process_time()
    right = answer(task.tests) == task.answers
    return float(right.mean()), fitted - start, time.process_time() - fitted


def _density(task: Task, seed: int, rule: str) -> Answers:
    model = DensityClassifier(
        epsilon=task.epsilon,
        delta=task.delta,
        classes=list(range(task.classes)),
        n_hint=len(task.points),
        rule=rule,
        feature_seed=seed,
        random_state=seed,
    ).fit(task.points, task.labels, threads=1)
    return lambda tests: np.asarray(model.predict(tests))


def _descent(task: Task, seed: int, settings: Descent) -> Answers:
    weights = train(task.points, task.labels, task.classes, settings, float(task.epsilon), task.delta, seed)
    return lambda tests: np.asarray((tests @ weights).argmax(axis=1))


def _diffprivlib(task: Task, seed: int, model: str) -> Answers:
    """Train a classifier of that library with all of epsilon, told that points have length 1; labels are public."""
    try:
        from diffprivlib.models import GaussianNB, LogisticRegression
    except ImportError as error:  # also where it is installed beside a scikit-learn that it does not know
        raise Skipped(f"diffprivlib cannot be imported ({error})") from None
    epsilon = float(task.epsilon)
    made = (
        LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed)
        if model == "logistic-regression"
        else GaussianNB(epsilon=epsilon, bounds=(-1.0, 1.0), random_state=seed)
    )
    # Float32 rows of length 1 may be longer by a rounding, which that library would clip with a warning.
    made.fit(task.points.astype(np.float64), task.labels)
    return lambda tests: np.asarray(made.predict(tests.astype(np.float64)))


def _published(task: Task, seed: int, projections: int, clip: float) -> Answers:
    """Project, clip at `clip` and release squared distances of each class, uncentred and with an even split."""
    random = np.random.default_rng(seed)
    size = (task.points.shape[1], projections)
    directions = (random.standard_normal(size) / np.sqrt(projections)).astype(np.float32)

    def images(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(np.clip(rows @ directions, -clip, clip))

    placed = images(task.points)
    models = [
        PrivateDistance(
            "sqeuclidean",
            epsilon=task.epsilon,
            delta=task.delta,
            bounds=(-clip, clip),
            method="sqeuclidean-published",
            n_hint=len(placed) // task.classes,
            feature_seed=seed,
            random_state=10 * seed + label,
        ).fit(placed[task.labels == label], threads=1)
        for label in range(task.classes)
    ]

    def answer(tests: NDArray[np.float32]) -> NDArray[np.int64]:
        rows = images(tests)
        return np.asarray(np.argmin([model.query(rows, mean=True) for model in models], axis=0))

    return answer
