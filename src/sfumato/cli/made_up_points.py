"""Made-up points with known public properties, the comparison of a release with the truth, and its picture.

The points are drawn from a mixture of round Gaussians: a town along a bay, with two quarters inland. Because the
mixture is public, the mean kernel value between two points has a closed form, so that a release's error can be
predicted without looking at a single point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def picture(release: Release, points: Floats, side: int = 200) -> bytes:
    """Draw the exact density, the private one and their difference side by side, as a .png file."""
    from sfumato.maps import compare as compare_fields
    from sfumato.maps import evaluate
    from sfumato.maps.figure import draw_comparison, encode

    field = evaluate(release, extent=BOUNDS, size=side, title=f"{len(points):,} made-up people in a town along a bay")
    fields = compare_fields(field, release, points, made_up=True)
    exact, private, difference = (layer.values for layer in fields)
    finer = max(exact.max(), private.max()) / np.abs(difference).max()
    titles = (
        "Exact (needs the points)",
        "Private (anyone may have it)",
        f"Private minus exact ({finer:.0f} times finer scale)",
    )
    return encode(draw_comparison(fields, titles), ".png")
