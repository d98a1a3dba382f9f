"""Pictures of docs/concepts.md, for light and dark pages: `python -m handbook.pictures` draws them again.

Points are made up and noise is seeded, so that a picture changes only if the library does.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from benchmarks.figures import COLOURS, canvas, write_schemes
from sfumato import PrivateKDE
from sfumato.errors import NotPrivateWarning
from sfumato.kernels import Gaussian

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "concepts"
BLUE, ORANGE, GREEN = COLOURS[:3]
INK = "#000000"
PEOPLE = 600
SEEN, HIDDEN = ORANGE, GREEN


def main() -> None:
    """Draw them all."""
    warnings.simplefilter("ignore", NotPrivateWarning)
    for name, draw in {"epsilon": epsilon, "count": count, "bars": bars, "trust": trust}.items():
        write_schemes(draw(), FOLDER, name)


def epsilon() -> Figure:
    """Above: what an answer may be with and without one person. Below: the same release, as a curve."""
    figure, axes = canvas(6, size=(3.4, 2.5))
    for place, budget in enumerate((0.1, 0.5, 2.0)):
        _with_and_without(axes[place], 500, budget)
        axes[place].set_title(f"epsilon {budget:g}", fontsize=10, loc="left")
        _curve(axes[place + 3], budget)
    axes[0].set_ylabel("how likely an answer is")
    axes[3].set_ylabel("density")
    axes[2].legend(fontsize=8, frameon=False, loc="upper right")
    axes[5].legend(fontsize=8, frameon=False, loc="upper right")
    return figure


def count() -> Figure:
    """A count that is published exactly tells who left; a noisy one does not."""
    figure, axes = canvas(2, size=(4.2, 2.6))
    axes[0].bar(["before", "after one left"], [412, 411], color=[BLUE, ORANGE], width=0.55)
    axes[0].set(ylim=(405, 415), ylabel="people counted")
    axes[0].set_title("published exactly", fontsize=10, loc="left")
    _with_and_without(axes[1], 412, 0.2)
    axes[1].set_title("published with noise, epsilon 0.2", fontsize=10, loc="left")
    axes[1].legend(fontsize=8, frameon=False)
    axes[1].set_ylabel("how likely a count is")
    return figure


def bars() -> Figure:
    """Sixty answers of one release with bars of two standard errors; truth where it lies outside stands out."""
    figure, (axes,) = canvas(1, size=(7.5, 3.0))
    points, places, kernel = _people(), np.linspace(0.5, 9.5, 60), Gaussian(0.5)
    truth = kernel.exact_density(points, places[:, None])
    answers, errors = _released(kernel, 0.5, seed=3).query(places[:, None], return_std=True)
    inside = np.abs(answers - truth) <= 2 * errors
    axes.errorbar(
        places, answers, yerr=2 * errors, fmt="o", markersize=3, color=BLUE, label="answer, two standard errors"
    )
    axes.plot(places, truth, color=INK, linewidth=1, label="truth, which nobody is told")
    axes.plot(places[~inside], truth[~inside], "X", color=ORANGE, label=f"outside the bar: {np.sum(~inside)} of 60")
    axes.set(xlabel="place", ylabel="mean kernel value")
    axes.legend(fontsize=8, frameon=False)
    return figure


def trust() -> Figure:
    """Who sees a raw point in each of the three models."""
    figure, axes = canvas(3, size=(4.0, 1.5), across=1)
    ways = {
        "central": [("people", SEEN), ("curator", SEEN), ("release", HIDDEN)],
        "shuffled": [("people", SEEN), ("shuffler", HIDDEN), ("analyzer", HIDDEN), ("release", HIDDEN)],
        "local": [("people", SEEN), ("collector", HIDDEN), ("release", HIDDEN)],
    }
    figure.set_size_inches(7.5, 4.6)
    for ax, (model, stations) in zip(axes, ways.items(), strict=True):
        _way(ax, stations)
        ax.set_title(model, fontsize=11, loc="left")
    axes[-1].text(0, -0.35, "orange: sees the raw point        green: sees what is randomised or summed", fontsize=8)
    return figure


def _people() -> np.ndarray:
    random = np.random.default_rng(5)
    return np.concatenate([random.normal(3, 0.7, PEOPLE // 2), random.normal(6.5, 1.0, PEOPLE // 2)])[:, None]


def _released(kernel: Gaussian, budget: float, seed: int) -> PrivateKDE:
    model = PrivateKDE(kernel, epsilon=budget, bounds=(0, 10), n_hint=PEOPLE, feature_seed=1, random_state=seed)
    return model.fit(_people())


def _with_and_without(axes: Axes, size: int, budget: float) -> None:
    """Draw the laws of a noisy count of `size` people and of one fewer."""
    reach = 4 / max(budget, 0.2)
    values = np.linspace(size - reach, size + reach, 400)
    for people, colour, label in ((size, BLUE, "with you"), (size - 1, ORANGE, "without you")):
        axes.plot(values, budget / 2 * np.exp(-budget * np.abs(values - people)), color=colour, label=label)
    axes.set_yticks([])


def _curve(axes: Axes, budget: float) -> None:
    points, places, kernel = _people(), np.linspace(0, 10, 200)[:, None], Gaussian(0.5)
    model = PrivateKDE(kernel, epsilon=budget, bounds=(0, 10), n_hint=PEOPLE, feature_seed=1, random_state=2).fit(
        points
    )
    answers, errors = model.query(places, return_std=True)
    axes.fill_between(places[:, 0], answers - 2 * errors, answers + 2 * errors, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(places[:, 0], answers, color=BLUE, label="released")
    axes.plot(places[:, 0], kernel.exact_density(points, places), color=INK, linewidth=0.9, label="exact")
    axes.set(ylim=(-0.05, 0.5), xlabel="place")


def _way(axes: Axes, stations: list[tuple[str, str]]) -> None:
    axes.set(xlim=(0, 4), ylim=(-0.1, 1))
    axes.axis("off")
    for place, (name, colour) in enumerate(stations):
        axes.add_patch(
            FancyBboxPatch(
                (place + 0.05, 0.25),
                0.7,
                0.5,
                boxstyle="round,pad=0.03",
                edgecolor=colour,
                facecolor="none",
                linewidth=2,
            )
        )
        axes.text(place + 0.4, 0.5, name, ha="center", va="center", fontsize=10)
        if place:
            axes.annotate("", (place + 0.0, 0.5), (place - 0.2, 0.5), arrowprops={"arrowstyle": "->", "color": INK})


if __name__ == "__main__":
    main()
