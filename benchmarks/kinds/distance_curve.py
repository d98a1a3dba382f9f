"""Answers of private mean distances along a line beside the exact curve, one release for each epsilon.

Settings: `epsilons` (texts), `n`, `queries`, `methods` (tables with `name`, `label` and maybe `options`). Records are
uniform in [0, 1], for which the curve tends to y^2 - y + 1/2. Seed 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import COLOURS, canvas
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateDistance
from sfumato.kernels import Distance

SEED = 1
EXACT = "exact, not private"
COLUMNS = {"epsilon": "epsilon", "mae": "mean abs", "largest": "largest error"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    rows = np.random.default_rng(SEED).random((settings["n"], 1))
    queries = np.linspace(0, 1, settings["queries"])
    exact = Distance("l1").exact_density(rows, queries[:, None])
    facts = {"set": "uniform", "n": len(rows), "d": 1}
    yield Measurement(EXACT, {"answers": np.round(exact, 5).tolist()}, facts)
    for method in settings["methods"]:
        for epsilon in settings["epsilons"]:
            model = PrivateDistance(
                "l1",
                epsilon=epsilon,
                bounds=(0, 1),
                method=method["name"],
                n_hint=len(rows),
                options=method.get("options"),
                feature_seed=SEED,
                random_state=SEED,
            ).fit(rows)
            answers = np.asarray(model.query(queries[:, None], mean=True))
            errors = np.abs(answers - exact)
            values = {"epsilon": epsilon, "mae": float(errors.mean()), "largest": float(errors.max())}
            values["answers"] = np.round(answers, 5).tolist()
            yield Measurement(method["label"], values, facts, seeds=[SEED], neighbours="add-remove")


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """One panel a method, one line an epsilon, the exact curve in ink."""
    exact, released = rows[0], rows[1:]
    labels = list(dict.fromkeys(row["label"] for row in released))
    figure, axes = canvas(len(labels))
    places = np.linspace(0, 1, len(exact["values"]["answers"]))
    for label, ax in zip(labels, axes, strict=True):
        for row, colour in zip((row for row in released if row["label"] == label), COLOURS, strict=False):
            epsilon = row["values"]["epsilon"]
            ax.plot(places, row["values"]["answers"], color=colour, linewidth=1, label=f"epsilon {epsilon}")
        ax.plot(places, exact["values"]["answers"], color="#000000", linewidth=1.2, label="exact")
        ax.set(xlabel="query", ylabel="mean distance", ylim=(0, 0.8))
        ax.set_title(label, fontsize=9, loc="left")
        ax.legend(fontsize=7, frameon=False)
    return figure
