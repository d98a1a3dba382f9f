"""Private answers against the exact ones, query by query: the picture behind an error.

Settings: `kernel`, `neighbours`, `epsilons` (text), `queries`, `data` (tables with `set` and `bandwidth`), `methods`
(tables with `name`, `label`, and perhaps `best_times`, a multiple of the method's own best size for the true P). One
release for each method, data set and epsilon, seed 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.datasets import load_split
from benchmarks.figures import COLOURS, MARKERS, canvas
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.methods import Facts
from sfumato import PrivateKDE
from sfumato.kernels import get_kernel

SEED = 1
COLUMNS = {"epsilon": "epsilon", "correlation": "correlation", "mae": "mean abs", "inside": "within 2 error bars"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"set": table["set"], "epsilon": epsilon} for table in settings["data"] for epsilon in settings["epsilons"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["data"] if table["set"] == unit["set"])
    split = load_split(table, settings["queries"])
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    truth = kernel.exact_density(split.points, split.held_out)
    for method in settings["methods"]:
        model = PrivateKDE(
            kernel,
            epsilon=unit["epsilon"],
            method=method["name"],
            bounds=split.bounds,
            neighbours=settings["neighbours"],
            n_hint=len(split.points),
            feature_seed=SEED,
            random_state=SEED,
        )
        if "best_times" in method:
            facts = Facts(model.request(split.points.shape[1]), float(truth.mean()))
            model.set_params(options=facts.best(method["name"], method["best_times"]))
        model.fit(split.points)
        answers, bars = model.query(split.held_out, return_std=True)
        values = {
            "epsilon": unit["epsilon"],
            "correlation": float(np.corrcoef(truth, answers)[0, 1]),
            "mae": float(np.abs(answers - truth).mean()),
            "inside": float((np.abs(answers - truth) <= 2 * bars).mean()),
            "truth": _short(truth),
            "answers": _short(answers),
        }
        data = split.facts | {"queries": len(truth)}
        yield Measurement(method["label"], values, data, seeds=[SEED], neighbours=settings["neighbours"])


def _short(numbers: Any) -> list[float]:
    return [float(f"{value:.4g}") for value in numbers]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """One panel for each data set and epsilon; answers on the diagonal are exact."""
    panels = list(dict.fromkeys((row["data"]["set"], row["values"]["epsilon"]) for row in rows))
    labels = list(dict.fromkeys(row["label"] for row in rows))
    across = len({epsilon for _, epsilon in panels})
    figure, axes = canvas(len(panels), size=(3.4, 3.2), across=across)
    for (name, epsilon), ax in zip(panels, axes, strict=True):
        shown = [row for row in rows if (row["data"]["set"], row["values"]["epsilon"]) == (name, epsilon)]
        truth = shown[0]["values"]["truth"]
        ends = [min(truth), max(truth)]
        for row in shown:
            place = labels.index(row["label"])
            ax.plot(
                row["values"]["truth"],
                row["values"]["answers"],
                MARKERS[place],
                color=COLOURS[place],
                markersize=3,
                alpha=0.6,
                markeredgewidth=0,
                rasterized=True,
                label=row["label"],
            )
        ax.plot(ends, ends, color="#555555", linewidth=1)
        ax.set_title(f"{name}, epsilon {epsilon}", fontsize=9, loc="left")
        ax.set(xlabel="exact density", ylabel="private answer")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    return figure
