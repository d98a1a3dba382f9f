"""Accuracy of classifiers from a shuffled collection, beside a trusted curator and the local model.

Settings: `set` (of `datasets.LABELLED`; "agnews" by default), `participants` (per class, at least), `delta`,
`label_epsilons` ("none" for public labels), `epsilons`, `seeds` (how many), `models`, `kernels`: tables with `label`,
`kernel` and, where they apply, `bandwidth`, `instances` and `models` of its own.

Every model sees the same features, drawn anew for each seed, and the same reported labels. Models:

- "features": exact sums of the features, nothing added; what the others lose to it is privacy.
- "central": Gaussian noise of a trusted curator on the same features, exactly calibrated, replace one.
- "local": every participant's bits are flipped so much that nobody else is needed: `rr` calibrated for one.
- "secure aggregation": discrete Gaussian shares, no bits.
- everything else is a bit-sum protocol; "pure" is left out where it refuses, and needs no delta.

Without privacy means the exact densities of the same kernel with the true labels. Differences to "central" are paired:
the same seeds, reported labels and test points. The interval covers seeds and test points, 95 % each side together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import LABELLED
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.errors import InputError
from sfumato.kernels import get_kernel
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import Quantizer
from sfumato.shuffled import LabelResponse, Protocol, SecureAggregation
from sfumato.shuffled.bitsum import calibrate, central_gaussian_rmse
from sfumato.shuffled.bitsum.rr import RandomisedResponse
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.methods import make, request_for

COLUMNS = {
    "epsilon": "epsilon",
    "label_epsilon": "label epsilon",
    "delta": "delta",
    "instances": "I",
    "accuracy": "accuracy, %",
    "spread": "sd over seeds",
    "without": "without privacy, %",
    "lost": "points behind central",
    "interval": "+- (95 %)",
}
NORMAL_95 = 1.96
Right = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Run:
    """One seed of one setting: data, reported labels and public features."""

    settings: Settings
    table: Mapping[str, Any]
    epsilon: Fraction
    seed: int
    points: NDArray[Any]
    labels: NDArray[np.int64]
    reported: NDArray[np.int64]
    tests: NDArray[Any]
    answers: NDArray[np.int64]
    quantizer: Quantizer
    classes: int

    @property
    def bits(self) -> SecureBits:
        return SecureBits.seeded(f"{self.seed} noise")

    def rows(self, place: int) -> NDArray[np.float64]:
        return np.asarray(self.points[self.reported == place], dtype=np.float64)

    @cached_property
    def sums(self) -> list[NDArray[np.int64]]:
        """Exact sums of the features of every reported class."""
        sums = [np.zeros(self.quantizer.size, dtype=np.int64) for _ in range(self.classes)]
        for place, total in enumerate(sums):
            self.quantizer.accumulate(self.rows(place), total)
        return sums

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the test points."""
        return self.quantizer.weights(np.asarray(self.tests, dtype=np.float64))

    def right(self, sums: list[NDArray[np.float64]]) -> Right:
        """Which test points the highest of the densities from these sums gets right."""
        sizes = np.bincount(self.reported, minlength=self.classes)
        return np.asarray((self.weights @ np.array(sums).T / sizes).argmax(axis=1) == self.answers)


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"kernel": table["label"], "label_epsilon": label, "epsilon": epsilon}
        for table in settings["kernels"]
        for label in settings["label_epsilons"]
        for epsilon in settings["epsilons"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["kernels"] if table["label"] == unit["kernel"])
    name = settings.get("set", "agnews")
    points, labels, tests, answers = LABELLED[name]()
    classes = int(labels.max()) + 1
    kernel = get_kernel(table["kernel"], table.get("bandwidth"))
    exact = np.column_stack([kernel.exact_density(points[labels == place], tests) for place in range(classes)])
    seeds = list(range(1, settings["seeds"] + 1))
    found: dict[str, list[Right]] = {}
    for seed in seeds:
        run = _run(settings, table, unit, seed, (points, labels, tests, answers))
        for model in ["features", "central", *table.get("models", settings["models"])]:
            if (right := _right(run, model)) is not None:
                found.setdefault(model, []).append(right)
    central = np.array(found["central"])
    for model, rights in found.items():
        runs = np.array(rights)
        yield Measurement(
            label=f"{unit['kernel']}, {model}",
            values={
                "epsilon": unit["epsilon"],
                "label_epsilon": unit["label_epsilon"],
                "delta": 0.0 if model == "pure" else settings["delta"],
                "instances": run.quantizer.size,
                "accuracy": 100 * float(runs.mean()),
                "spread": 100 * float(runs.mean(axis=1).std(ddof=1)),
                "without": 100 * float((exact.argmax(axis=1) == answers).mean()),
                "lost": 100 * float(central.mean() - runs.mean()),
                "interval": 100 * _interval(runs.astype(np.float64) - central),
            },
            data={"set": name, "n": len(points), "d": points.shape[1], "queries": len(tests)},
            seeds=seeds,
            neighbours="replace",
        )


def _run(settings: Settings, table: Mapping[str, Any], unit: Unit, seed: int, data: Any) -> Run:
    points, labels, tests, answers = data
    reported, classes = labels, int(labels.max()) + 1
    if unit["label_epsilon"] != "none":
        response = LabelResponse(tuple(range(classes)), unit["label_epsilon"])
        reported = response.report_codes(labels, SecureBits.seeded(f"{seed} labels"))
    kernel = get_kernel(table["kernel"], table.get("bandwidth"))
    request = request_for(kernel, points.shape[1], seed)
    quantizer = make("auto", request, table.get("instances", points.shape[1]))
    epsilon = Fraction(unit["epsilon"])
    return Run(settings, table, epsilon, seed, points, labels, reported, tests, answers, quantizer, classes)


def _right(run: Run, model: str) -> Right | None:
    if model in ("features", "central"):
        return _curator(run, private=model == "central")
    if model == "local":
        return _local(run)
    if model == "secure aggregation":
        return _aggregated(run)
    try:
        protocol = _protocol(run, model)
    except InputError:  # "pure" leaves out every bit if epsilon is too small
        return None
    releases = protocol.simulate(run.points, run.reported, random_state=run.seed)
    return run.right([releases[place].values for place in range(run.classes)])


def _protocol(run: Run, bitsum: str) -> Protocol:
    table, settings = run.table, run.settings
    return Protocol(
        table["kernel"],
        bandwidth=table.get("bandwidth"),
        dimension=run.points.shape[1],
        epsilon=run.epsilon,
        delta=0.0 if bitsum == "pure" else settings["delta"],
        participants=settings["participants"],
        bitsum=bitsum,
        instances=run.quantizer.size,
        classes=list(range(run.classes)),  # reported beforehand, the same for every model
        seed=run.seed,
    )


def _curator(run: Run, private: bool) -> Right:
    features, random = BitFeatures(run.quantizer), np.random.default_rng(run.seed)
    deviation = 0.0
    if private:  # coordinates from -L to L: a record that is replaced moves each by 2 L
        bits = central_gaussian_rmse(features.changed, float(run.epsilon), run.settings["delta"])
        deviation = 2 * features.largest * bits
    return run.right([exact + deviation * random.standard_normal(exact.size) for exact in run.sums])


def _local(run: Run) -> Right:
    features, secure = BitFeatures(run.quantizer), run.bits
    question = {"epsilon": run.epsilon, "delta": run.settings["delta"], "instances": features.changed}
    flip = calibrate("rr", n=1, **question).parameters["flip"]
    sums = []
    for place in range(run.classes):
        rows = run.rows(place)
        bits = sum(block.sum(axis=0) for block in features.blocks(rows, secure))
        response = RandomisedResponse(len(rows), Fraction(flip))
        estimate = response.estimate(response.totals(np.asarray(bits), secure))
        sums.append(features.sums(estimate, len(rows)).astype(np.float64))
    return run.right(sums)


def _aggregated(run: Run) -> Right:
    protocol = SecureAggregation(
        run.table["kernel"],
        bandwidth=run.table.get("bandwidth"),
        dimension=run.points.shape[1],
        epsilon=run.epsilon,
        delta=run.settings["delta"],
        participants=run.settings["participants"],
        instances=run.quantizer.size,
        seed=run.seed,
    )
    releases = [protocol.simulate(run.rows(place), random_state=10 * run.seed + place) for place in range(run.classes)]
    densities = [release.query(run.tests.astype(np.float64)) for release in releases]
    return np.asarray(np.column_stack(densities).argmax(axis=1) == run.answers)


def _interval(differences: NDArray[np.float64]) -> float:
    """Half the width of the interval of a paired difference, shape (seeds, tests): both vary."""
    seeds = differences.mean(axis=1).std(ddof=1) / math.sqrt(len(differences))
    tests = differences.mean(axis=0).std(ddof=1) / math.sqrt(differences.shape[1])
    return NORMAL_95 * math.hypot(seeds, tests)
