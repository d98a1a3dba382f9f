"""Mean square error of hashed sketches at the best size of a grid, each method at its own.

Settings: `kernel`, `epsilon` (text), `neighbours`, `seeds` (how many), `queries`, `held_out`, `data` (a table with
`set`, `rows` and `bandwidth`), `rows` and `widths` (the grid of R and W), and `methods` (tables with `name`, `label`
and `options`; the first is the baseline).

Every size of the grid runs with the same points, queries and seeds; run s uses s as feature seed and as noise seed.
The error is the mean over seeds and queries of the squared error against the exact density, its uncertainty taken
from the spread between seeds. A method's row shows its best size; for all but the baseline a second row shows the
sizes that it chooses by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Split, load_split
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateKDE
from sfumato.kernels import Kernel, get_kernel

COLUMNS = {
    "size": "size",
    "density": "P",
    "mse": "MSE",
    "mse_error": "+-",
    "over_baseline": "MSE / baseline's",
    "bar_ratio": "error bar / measured",
}


@dataclass(frozen=True, eq=False)
class Experiment:
    """One data set with its exact answers."""

    settings: Settings
    split: Split
    kernel: Kernel
    queries: NDArray[np.float64]
    truth: NDArray[np.float64]

    def errors(self, method: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        squares, bars, shape = [], [], {}
        for seed in range(1, self.settings["seeds"] + 1):
            model = PrivateKDE(
                self.kernel,
                epsilon=self.settings["epsilon"],
                neighbours=self.settings["neighbours"],
                method=method["name"],
                bounds=self.split.bounds,
                n_hint=len(self.split.points),
                options={**method.get("options", {}), **sizes},
                feature_seed=seed,
                random_state=seed,
            ).fit(self.split.points)
            answers, errors = model.query(self.queries, return_std=True)
            squares.append(float(np.mean((answers - self.truth) ** 2)))
            bars.append(float(np.mean(errors**2)))
            shape = model.release_.parameters
        mean = float(np.mean(squares))
        return {
            "size": f"R {shape['rows']}, W {shape['width']}",
            "mse": mean,
            "mse_error": float(np.std(squares, ddof=1)) / math.sqrt(len(squares)),
            "bar_ratio": math.sqrt(float(np.mean(bars)) / mean),
        }


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = settings["data"]
    split = load_split(table, settings["held_out"])
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    queries = split.held_out[: settings["queries"]]
    truth = kernel.exact_density(split.points, queries)
    experiment = Experiment(settings, split, kernel, queries, truth)
    baseline = None
    for method in settings["methods"]:
        grid = [{"rows": rows, "width": width} for rows in settings["rows"] for width in settings["widths"]]
        best = min((experiment.errors(method, sizes) for sizes in grid), key=lambda values: values["mse"])
        chosen = [(f"{method['label']}, best of the grid", best)]
        if baseline is None:
            baseline = best["mse"]
        else:
            chosen.append((f"{method['label']}, its own sizes", experiment.errors(method, {})))
        for label, values in chosen:
            yield Measurement(
                label=label,
                values={**values, "density": float(truth.mean()), "over_baseline": values["mse"] / baseline},
                data=split.facts | {"queries": len(queries)},
                seeds=list(range(1, settings["seeds"] + 1)),
                neighbours=settings["neighbours"],
            )
