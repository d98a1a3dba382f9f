"""The same places as heat maps: exact, and released at several epsilons by several methods.

Settings: `kernel`, `epsilons` (text), `size` (cells along each side), `data` (one table with `set`, `bandwidth` and
`view`, the part of the bounds that is drawn), `methods` (tables with `name`, `label` and `options`). Seed 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.datasets import load_split
from benchmarks.figures import canvas
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateKDE
from sfumato.kernels import get_kernel

SEED, HELD_OUT = 1, 1000
EXACT = "exact, not private"
COLUMNS = {"epsilon": "epsilon", "correlation": "correlation with the exact field", "mae": "mean abs"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"set": table["set"]} for table in settings["data"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = dict(next(table for table in settings["data"] if table["set"] == unit["set"]))
    view = table.pop("view")
    split = load_split(table, HELD_OUT)
    kernel = get_kernel(settings["kernel"], table["bandwidth"])
    sides = [np.linspace(low, high, settings["size"]) for low, high in view]
    places = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    truth = kernel.exact_density(split.points, places)
    yield Measurement(EXACT, {"view": view, "field": _levels(truth, truth.max())}, split.facts)
    for method in settings["methods"]:
        for epsilon in settings["epsilons"]:
            model = PrivateKDE(
                kernel,
                epsilon=epsilon,
                method=method["name"],
                bounds=split.bounds,
                n_hint=len(split.points),
                options=method.get("options"),
                feature_seed=SEED,
                random_state=SEED,
            ).fit(split.points)
            answers = model.query(places)
            values = {
                "epsilon": epsilon,
                "correlation": float(np.corrcoef(truth, answers)[0, 1]),
                "mae": float(np.abs(answers - truth).mean()),
                "view": view,
                "field": _levels(answers, truth.max()),
            }
            yield Measurement(method["label"], values, split.facts, seeds=[SEED], neighbours="add-remove")


def _levels(field: Any, top: float) -> list[int]:
    """Return shares of the exact field's maximum in steps of 1/250, which is all that a picture shows."""
    return [int(level) for level in np.rint(250 * np.clip(field / top, 0.0, 1.0))]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """One line of panels for each method, its epsilons from left to right, after the exact field."""
    rows = [row for row in rows if row["unit"] == rows[0]["unit"]]
    exact, released = rows[0], rows[1:]
    labels = list(dict.fromkeys(row["label"] for row in released))
    across = 1 + max(sum(row["label"] == label for row in released) for label in labels)
    figure, axes = canvas(across * len(labels), size=(2.3, 2.3), across=across)
    for line, label in enumerate(labels):
        shown = [exact, *[row for row in released if row["label"] == label]]
        for row, ax in zip(shown, axes[line * across :], strict=False):
            values = row["values"]
            side = round(len(values["field"]) ** 0.5)
            field = np.reshape(values["field"], (side, side))
            ax.imshow(
                field, origin="lower", cmap="cividis", vmin=0, vmax=250, aspect="auto", extent=np.ravel(values["view"])
            )
            ax.set_title(row["label"] if row is exact else f"{label}, epsilon {values['epsilon']}", fontsize=8)
            ax.set(xticks=[], yticks=[])
    return figure
