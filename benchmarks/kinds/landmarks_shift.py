"""Landmarks from public samples that lack a kind of record, or are noisy copies: errors, and whether bars cover them.

Settings: `neighbours`, `count_share`, `epsilons` (text), `deltas`, `seeds` (how many), `queries`, `landmarks` (how
many), `data`: tables with `set` ("agnews" or "codrna"), `bandwidth`, `rows` and `public`: "same" for other points of
the same set; "lacking" for those without one kind (the class Sports; the upper half of cod-rna's first column); "copy"
for some of the records themselves with normal noise of half the columns' deviations (not public at all, and wrong).

Queries, records and public points are disjoint but for "copy"; the kind that lacks is a row of its own. Methods: the
default without landmarks, `landmarks` without its check (what 0.1.0 did), and `landmarks`. A bar is two standard
errors. Run s uses s as feature seed and as noise seed.
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

from benchmarks import datasets
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateKDE
from sfumato.kernels import Gaussian

COLUMNS = {
    "public": "public sample",
    "epsilon": "epsilon",
    "delta": "delta",
    "rmse": "RMSE",
    "lacking_rmse": "RMSE at the kind that lacks",
    "over_without": "RMSE / without landmarks",
    "lacking_over_without": "at the kind that lacks",
    "over_unchecked": "RMSE / unchecked",
    "covered": "errors within the bar",
    "lacking_covered": "at the kind that lacks",
    "bar_ratio": "median bar / RMSE",
    "cpu_seconds": "curator CPU s",
}
WITHOUT, UNCHECKED, CHECKED = "without landmarks", "landmarks, unchecked", "landmarks"
SPORTS = 1
COPIED_NOISE = 0.5


@dataclass(frozen=True, eq=False)
class Shifted:
    """Records, queries, public points, and which queries are of the kind that lacks."""

    records: NDArray[np.float32]
    queries: NDArray[np.float64]
    public: NDArray[np.float64]
    lacking: NDArray[np.bool_]
    bounds: datasets.Bounds


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"set": table["set"], "public": table["public"], "epsilon": epsilon, "delta": delta}
        for table in settings["data"]
        for epsilon in settings["epsilons"]
        for delta in settings["deltas"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(each for each in settings["data"] if (each["set"], each["public"]) == (unit["set"], unit["public"]))
    data, kernel = _shifted(settings, table), Gaussian(table["bandwidth"])
    truth = kernel.exact_density(data.records, data.queries)
    found: dict[str, Measurement] = {}
    for label in (WITHOUT, UNCHECKED, CHECKED):
        found[label] = _measured(settings, unit, data, kernel, truth, label, found)
        yield found[label]


def _shifted(settings: Settings, table: Mapping[str, Any]) -> Shifted:
    if table["set"] == "agnews":
        points, labels, _, _ = datasets.labelled_agnews()
        of_kind, bounds = labels == SPORTS, None
    else:
        points, bounds = datasets.codrna()
        of_kind = points[:, 0] > np.median(points[:, 0])
    random = np.random.default_rng(datasets.SPLIT_SEED)
    order = random.permutation(len(points))
    asked, wanted = settings["queries"], settings["landmarks"]
    queries, rest = order[:asked], order[asked:]
    spare = rest[: 4 * wanted]
    records = rest[4 * wanted :][: table["rows"]]
    chosen = spare[~of_kind[spare]] if table["public"] == "lacking" else spare
    public = points[chosen[:wanted]].astype(np.float64)
    lacking = of_kind[queries] if table["public"] == "lacking" else np.ones(asked, dtype=bool)
    if table["public"] == "copy":
        copied = points[records[:wanted]].astype(np.float64)
        public = copied + COPIED_NOISE * points.std(axis=0) * random.normal(size=copied.shape)
    return Shifted(points[records], points[queries].astype(np.float64), public, lacking, bounds)


def _measured(
    settings: Settings,
    unit: Unit,
    data: Shifted,
    kernel: Gaussian,
    truth: NDArray[np.float64],
    label: str,
    found: Mapping[str, Measurement],
) -> Measurement:
    seeds = list(range(1, settings["seeds"] + 1))
    errors, bars, seconds = [], [], []
    share = {"count_share": Fraction(settings["count_share"])} if settings["neighbours"] == "add-remove" else {}
    for seed in seeds:
        model = PrivateKDE(
            kernel,
            epsilon=unit["epsilon"],
            delta=unit["delta"],
            method="auto" if label == WITHOUT else "landmarks",
            bounds=data.bounds,
            landmarks=None if label == WITHOUT else data.public,
            neighbours=settings["neighbours"],
            n_hint=len(data.records),
            options={**share, **({"check_share": 0} if label == UNCHECKED else {})},
            feature_seed=seed,
            random_state=seed,
        )
        start = time.process_time()
        model.fit(data.records)
        seconds.append(time.process_time() - start)
        answers, bar = model.query(data.queries, return_std=True)
        errors.append(answers - truth)
        bars.append(2 * bar)
    error, bar = np.array(errors), np.array(bars)
    within, kind = np.abs(error) <= bar, data.lacking
    values: dict[str, Any] = {
        "public": unit["public"],
        "epsilon": unit["epsilon"],
        "delta": unit["delta"],
        "rmse": math.sqrt(float(np.square(error).mean())),
        "lacking_rmse": math.sqrt(float(np.square(error[:, kind]).mean())),
        "covered": float(within.mean()),
        "lacking_covered": float(within[:, kind].mean()),
        "bar_ratio": float(np.median(bar)) / math.sqrt(float(np.square(error).mean())),
        "cpu_seconds": float(np.median(seconds)),
    }
    if label == CHECKED:
        without, unchecked = found[WITHOUT].values, found[UNCHECKED].values
        values["over_without"] = values["rmse"] / without["rmse"]
        values["lacking_over_without"] = values["lacking_rmse"] / without["lacking_rmse"]
        values["over_unchecked"] = values["rmse"] / unchecked["rmse"]
    return Measurement(
        label=label,
        values=values,
        data={"set": unit["set"], "n": len(data.records), "d": data.records.shape[1], "queries": len(truth)},
        seeds=seeds,
        neighbours=settings["neighbours"],
        count_share=settings["count_share"],
    )
