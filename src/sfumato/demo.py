"""Made-up points with known public properties, the comparison of a release with the truth, and its picture.

The points are drawn from a mixture of round Gaussians: a town along a bay, with two quarters inland. Because the
mixture is public, the mean kernel value between two points has a closed form, so that a release's error can be
predicted without looking at a single point.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels import Kernel
from sfumato.release import Release

Floats = NDArray[np.float64]

BOUNDS = (0.0, 10.0)
COLUMNS = ("x", "y")

_SHORE = np.linspace(0.9 * np.pi, 2.1 * np.pi, 25)
_CENTRES = np.vstack(
    [np.column_stack([5 + 3.2 * np.cos(_SHORE), 5.4 + 3.2 * np.sin(_SHORE)]), [[5.6, 7.2]], [[3.9, 5.6]]]
)
_SPREADS = np.concatenate([np.full(len(_SHORE), 0.3), [0.55, 0.35]])
_WEIGHTS = np.concatenate([np.full(len(_SHORE), 0.6 / len(_SHORE)), [0.25, 0.15]])


def make_points(count: int, seed: int) -> Floats:
    """Draw points of the mixture, the same for the same seed.

    Examples
    --------
    >>> make_points(3, seed=1).shape
    (3, 2)
    """
    generator = np.random.default_rng(seed)
    parts = generator.choice(len(_WEIGHTS), size=count, p=_WEIGHTS)
    return _CENTRES[parts] + _SPREADS[parts, None] * generator.normal(size=(count, 2))


def mean_similarity(bandwidth: float) -> float:
    """Mean Gaussian kernel value between two points of the mixture, from its formula alone.

    Examples
    --------
    >>> round(mean_similarity(0.7), 4)
    0.056
    """
    spreads = _SPREADS[:, None] ** 2 + _SPREADS[None, :] ** 2
    distances = ((_CENTRES[:, None, :] - _CENTRES[None, :, :]) ** 2).sum(axis=2)
    widths = bandwidth**2 + 2 * spreads
    return float(_WEIGHTS @ (bandwidth**2 / widths * np.exp(-distances / widths)) @ _WEIGHTS)


@dataclass(frozen=True)
class Comparison:
    """A release against the exact density at points that are not in the data.

    Attributes
    ----------
    queries : int
        How many points were asked.
    mean_answer : float
        Mean of the exact answers.
    error_bar : float
        Root mean square of the answers' standard errors, which the release itself gives.
    actual : float
        Root mean square of the true errors.
    within_two : float
        Share of answers within two standard errors of the truth.
    """

    queries: int
    mean_answer: float
    error_bar: float
    actual: float
    within_two: float


def compare(release: Release, kernel: Kernel, points: Floats, queries: Floats) -> Comparison:
    """Measure the error that nobody could measure without the private points."""
    exact = kernel.exact_density(points, queries)
    answers, errors = release.query(queries, return_std=True)
    return Comparison(
        queries=len(queries),
        mean_answer=float(exact.mean()),
        error_bar=math.sqrt(float((errors**2).mean())),
        actual=math.sqrt(float(((answers - exact) ** 2).mean())),
        within_two=float((np.abs(answers - exact) <= 2 * errors).mean()),
    )


def draw_picture(release: Release, kernel: Kernel, points: Floats, path: Path, side: int = 100) -> None:
    """Draw the exact density, the private one and their difference side by side.

    Parameters
    ----------
    release : Release
        Of two columns within `BOUNDS`.
    kernel : Kernel
        The release's kernel.
    points : ndarray
        The private points, for the exact density.
    path : Path
        The picture to write; an existing one is replaced.
    side : int
        Queries along each side.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    step = (BOUNDS[1] - BOUNDS[0]) / side
    middle = BOUNDS[0] + step * (np.arange(side) + 0.5)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(middle, middle)])
    exact = kernel.exact_density(points, grid).reshape(side, side)
    private = release.query(grid).reshape(side, side)

    figure = Figure(figsize=(13, 5), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    top = float(max(exact.max(), private.max()))
    far = float(np.abs(private - exact).max())
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    extent = (*BOUNDS, *BOUNDS)
    titles = (
        "Exact (needs the points)",
        "Private (anyone may have it)",
        f"Private minus exact ({top / far:.0f} times finer scale)",
    )
    ranges: list[dict[str, Any]] = [{"cmap": "cividis", "vmin": 0.0, "vmax": top}] * 2
    ranges.append({"cmap": "PuOr", "vmin": -far, "vmax": far})
    for panel, title, values, colours in zip(panels, titles, (exact, private, private - exact), ranges, strict=True):
        image = panel.imshow(values, origin="lower", extent=extent, interpolation="nearest", **colours)
        panel.set_title(title)
        panel.set_xlabel(COLUMNS[0])
        bar = figure.colorbar(image, ax=panel, orientation="horizontal", shrink=0.8, aspect=30)
        bar.set_label("mean kernel value")
        bar.ax.locator_params(nbins=5)
    panels[0].set_ylabel(COLUMNS[1])
    figure.supxlabel(f"\n{textwrap.fill(str(release.guarantee), 150)}", fontsize=9)
    figure.savefig(path, dpi=120)
