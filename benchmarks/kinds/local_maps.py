"""Records laid out in the plane by t-SNE and coloured by their density: exact, and from local mechanisms.

Settings: `kernel`, `epsilons` (texts), `shown` (how many held-out records), `radius`, `eta`, `data` (a table with
`set`, `rows` and `bandwidth`) and `mechanisms`, as in the kind local-published. Seed 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from benchmarks.datasets import Split, load_split
from benchmarks.figures import canvas
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.kinds.local_published import published_options
from sfumato.kernels import Kernel, get_kernel
from sfumato.local import Protocol

SEED = 1
EXACT = "exact, not private"
COLUMNS = {"epsilon": "epsilon", "correlation": "correlation with the exact densities", "mse": "MSE"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    split = load_split(settings["data"], settings["shown"])
    kernel = get_kernel(settings["kernel"], settings["data"]["bandwidth"])
    truth = kernel.exact_density(split.points, split.held_out)
    places = TSNE(random_state=SEED, init="pca").fit_transform(split.held_out.astype(np.float32))
    yield Measurement(EXACT, {"places": np.round(places, 1).tolist(), "colours": _levels(truth, truth)}, split.facts)
    for mechanism in settings["mechanisms"]:
        for epsilon in settings["epsilons"]:
            answers = _answers(settings, mechanism, epsilon, split, kernel)
            values = {
                "epsilon": epsilon,
                "correlation": float(np.corrcoef(truth, answers)[0, 1]),
                "mse": float(np.mean((answers - truth) ** 2)),
                "colours": _levels(answers, truth),
            }
            yield Measurement(mechanism["label"], values, split.facts, seeds=[SEED], neighbours="replace")


def _answers(
    settings: Settings, mechanism: Mapping[str, Any], epsilon: str, split: Split, kernel: Kernel
) -> NDArray[np.float64]:
    metric = mechanism.get("metric", False)
    protocol = Protocol(
        kernel,
        split.points.shape[1],
        epsilon,
        len(split.points),
        mechanism=mechanism["name"],
        radius=settings["radius"] if metric else None,
        eta=settings["eta"] if metric else None,
        bounds=split.bounds,
        seed=SEED,
        options=published_options(mechanism),
    )
    return np.asarray(protocol.simulate(split.points, random_state=SEED).query(split.held_out))


def _levels(values: NDArray[np.float64], truth: NDArray[np.float64]) -> list[int]:
    """Return shares of the largest exact density in steps of 1/250, which is all that a picture shows."""
    return [int(level) for level in np.rint(250 * np.clip(values / truth.max(), 0.0, 1.0))]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """One line of panels for each mechanism, its epsilons from left to right, after the exact densities."""
    exact, released = rows[0], rows[1:]
    labels = list(dict.fromkeys(row["label"] for row in released))
    across = 1 + len(released) // len(labels)
    figure, axes = canvas(across * len(labels), size=(2.4, 2.4), across=across)
    places = np.array(exact["values"]["places"])
    for line, label in enumerate(labels):
        shown = [exact, *[row for row in released if row["label"] == label]]
        for row, ax in zip(shown, axes[line * across :], strict=False):
            colours = row["values"]["colours"]
            ax.scatter(*places.T, c=colours, s=2, cmap="cividis", vmin=0, vmax=250, linewidths=0, rasterized=True)
            title = row["label"] if row is exact else f"{label}, epsilon {row['values']['epsilon']}"
            ax.set_title(title, fontsize=8)
            ax.set(xticks=[], yticks=[])
    return figure
