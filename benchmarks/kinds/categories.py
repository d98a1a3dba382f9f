"""Tables with categories: cells, and what "auto" takes, against the default on columns of zeros and ones, same kernel.

Settings: `epsilons` (text), `deltas`, `seeds` (how many), `queries`, `mismatch` (similarity of different values),
`data` (tables with `set`, `bandwidth` of the numbers, and `rows` where not all are wanted). Gaussian kernels alone: a
column of zeros and ones for each value, of bandwidth h, gives two different values the similarity exp(-2 / h^2), so h
is chosen for the mismatch and both ways have the same exact answers. n is private, and held-out rows are the queries.
Where "auto" takes cells, its row repeats theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import datasets
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateKDE
from sfumato.kernels import Gaussian, Overlap, Product
from sfumato.methods.ranking import Row, choose
from sfumato.methods.registry import offered

COLUMNS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "method": "method",
    "density": "P",
    "rmse": "RMSE",
    "over_one_hot": "RMSE / columns of zeros and ones",
    "over_cells": "RMSE / cells",
    "predicted_ratio": "measured / predicted",
    "bar_ratio": "error bar / measured",
}
ONE_HOT = "columns of zeros and ones"
# Public bins of codrna's energy and length, and the months of the pickups.
ENERGY, LENGTH, MONTHS = np.linspace(-1868, 0, 9)[1:-1], np.linspace(67, 133, 7)[1:-1], range(4, 10)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Numbers with their bounds, and categories as codes with the numbers of their values."""

    numbers: NDArray[np.float64]
    bounds: Any
    codes: NDArray[np.int64]
    sizes: tuple[int, ...]


def _codrna() -> Mixed:
    """Return six columns of codrna in [0, 1]; energy and length are categories of 8 and 6 values."""
    rows = datasets._array("codrna.npz", "X")
    low, high = datasets.CODRNA_BOUNDS[2:].T
    codes = np.column_stack([np.digitize(rows[:, 0], ENERGY), np.digitize(rows[:, 1], LENGTH)])
    return Mixed((rows[:, 2:] - low) / (high - low), (0.0, 1.0), codes, (8, 6))


def _new_york() -> Mixed:
    """Longitude and latitude of pickups, with the month."""
    months = datasets._array("nyc_uber2d.npz", "month").astype(np.int64) - MONTHS[0]
    points = datasets._array("nyc_uber2d.npz", "X").astype(np.float64)
    return Mixed(points, datasets.NEW_YORK_BOUNDS, months[:, None], (len(MONTHS),))


def _mixture() -> Mixed:
    """Ten correlated normal numbers around places that go by the second of two categories, of 4 and 40 values."""
    draw, rows = np.random.default_rng(6), 100_200
    frequent = np.arange(1, 41) ** -1.2
    codes = np.column_stack(
        [draw.choice(4, rows, p=[0.45, 0.45, 0.05, 0.05]), draw.choice(40, rows, p=frequent / frequent.sum())]
    )
    places, mixing = draw.normal(0, 0.1, size=(40, 10)), draw.normal(size=(10, 10)) * 0.35 + np.eye(10)
    numbers = 0.5 + places[codes[:, 1]] + 0.09 * draw.normal(size=(rows, 10)) @ mixing.T
    return Mixed(numbers.clip(0, 1), (0.0, 1.0), codes, (4, 40))


LOADERS = {"codrna-binned": _codrna, "nyc-months": _new_york, "mixture-categories": _mixture}


def units(settings: Settings) -> list[Unit]:
    return [
        {"set": table["set"], "epsilon": epsilon, "delta": delta}
        for table in settings["data"]
        for epsilon in settings["epsilons"]
        for delta in settings["deltas"]
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["data"] if table["set"] == unit["set"])
    mixed, mismatch = LOADERS[unit["set"]](), float(settings["mismatch"])
    order = np.random.default_rng(datasets.SPLIT_SEED).permutation(len(mixed.numbers))
    order = order[: settings["queries"] + int(table.get("rows", len(order)))]
    rows = np.column_stack([mixed.numbers, mixed.codes])[order]
    columns, width = mixed.numbers.shape[1], rows.shape[1]
    categories = {columns + place: Overlap(range(size), mismatch) for place, size in enumerate(mixed.sizes)}
    kernel = Product(Gaussian(table["bandwidth"]), categories)
    points, queries = rows[settings["queries"] :], rows[: settings["queries"]]
    truth = kernel.exact_density(points, queries)
    hot = np.hstack([rows[:, :columns], *(np.eye(size)[rows[:, place].astype(int)] for place, size in _sizes(mixed))])
    lengths = [table["bandwidth"]] * columns + [math.sqrt(2 / -math.log(mismatch))] * sum(mixed.sizes)
    edges = np.vstack([np.broadcast_to(mixed.bounds, (columns, 2)), [(0, 1)] * sum(mixed.sizes)])
    one_hot = (Gaussian(lengths), hot[settings["queries"] :], hot[: settings["queries"]], edges)
    table = (kernel, points, queries, mixed.bounds)
    ways: dict[str, tuple[str, Any]] = {ONE_HOT: ("auto", one_hot), "cells": ("cells", table), "auto": ("auto", table)}
    facts = {"set": unit["set"], "n": len(points), "d": width, "queries": len(queries)}
    found: dict[str, dict[str, Any]] = {}
    for label, (method, way) in ways.items():
        if label == "auto" and _planned(_model(unit, "auto", way, truth, 1), width).method == "cells":
            found[label] = dict(found["cells"])
        else:
            found[label] = _run(settings, unit, method, way, truth)
        values, first = found[label], found[ONE_HOT]["rmse"]
        values |= {"over_one_hot": values["rmse"] / first, "density": float(truth.mean()), **unit}
        if label == "auto":
            values["over_cells"] = values["rmse"] / found["cells"]["rmse"]
        yield Measurement(label, values, facts, list(range(1, settings["seeds"] + 1)), "add-remove", "1/20")


def _sizes(mixed: Mixed) -> list[tuple[int, int]]:
    return [(mixed.numbers.shape[1] + place, size) for place, size in enumerate(mixed.sizes)]


def _model(unit: Unit, method: str, way: Any, truth: NDArray[np.float64], seed: int) -> PrivateKDE:
    kernel, data, _, bounds = way
    return PrivateKDE(
        kernel,
        epsilon=unit["epsilon"],
        delta=unit["delta"],
        method=method,
        bounds=bounds,
        n_hint=len(data),
        options={"density": float(truth.mean())},
        feature_seed=seed,
        random_state=seed,
    )


def _planned(model: PrivateKDE, dimension: int) -> Row:
    request = model.request(dimension)
    known = offered(request)
    return choose(known if model.method == "auto" else [each for each in known if each.name == model.method], request)


def _run(settings: Settings, unit: Unit, method: str, way: Any, truth: NDArray[np.float64]) -> dict[str, Any]:
    """Release by one method, told the true P, once for each seed."""
    _, data, asked, _ = way
    errors, bars, name, predicted = [], [], "", 0.0
    for seed in range(1, settings["seeds"] + 1):
        model = _model(unit, method, way, truth, seed).fit(data)
        answers, deviations = model.query(asked, return_std=True)
        errors.append(answers - truth)
        bars.append(deviations)
        if not name:
            release = model.release_
            name = "/".join(filter(None, (release.method, release.parameters.get("inner", ""))))
            predicted = _planned(model, data.shape[1]).predicted.rmse
    rmse = float(np.sqrt(np.mean(np.square(errors))))
    bar = float(np.sqrt(np.mean(np.square(bars))))
    return {"rmse": rmse, "method": name, "bar_ratio": bar / rmse, "predicted_ratio": rmse / predicted}
