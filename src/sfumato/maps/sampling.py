"""Synthetic points from a release.

**One to three columns.** The private density is evaluated on a grid and made a proper density: negative values, which
are noise, cannot be drawn. Cutting them off alone would leave the positive half of the noise and spread points over
empty places, so the density is shifted down by one constant and then cut, the constant chosen such that the total stays
what the release says (the nearest density in least squares). A point is drawn from a cell with the cell's probability
and placed uniformly within it.

What comes out follows the released density: the data smoothed by the kernel, plus noise. It is post-processing of the
release and costs no privacy, and it is not the data: nothing finer than a bandwidth, and nothing about single records,
is in it.

**More columns** (`importance`), where a grid has too many cells: importance sampling against the release's own answers.
In an empty box of N kernel volumes the positive half of the noise would hold about .4 N sigma of density, more than the
records themselves, so the target is max(answer - tau sigma, 0) with tau such that noise alone holds at most 5 % of the
whole: N sigma E max(Z - tau, 0) = .05, Z normal. It draws where the release shows people, and less where it shows few.

**Quality** (`quality`), measured against the release at the points themselves: how far the mean kernel value to the
synthetic points is from the release's answer, what part of that the release's own error is, and how many points lie
where the release shows more than noise. The points have been smoothed by the kernel, so that their own mean kernel
values are smoothed twice: a misfit remains however many points there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.maps.field import Axis, Extent, resolve_axes
from sfumato.maps.views import Section, column_names
from sfumato.public.arguments import checked_entropy
from sfumato.public.ranges import MOST_INTEGERS, check_whole
from sfumato.quantizers.base import Floats, Mesh
from sfumato.release import Release

MOST_COLUMNS = 3
FEWEST_CELLS, CELLS_PER_BANDWIDTH = 32, 3
MOST_CELLS = 4_000_000


def sample(
    release: Release,
    count: int,
    *,
    extent: Extent | None = None,
    start: Any = None,
    random_state: int | None = None,
) -> Floats:
    """Draw synthetic points from a release.

    Parameters
    ----------
    release : Release
        With a shift-invariant kernel.
    count : int
        How many points.
    extent : (lower, upper) or one pair per column, optional
        Where to draw; the release's declared box by default.
    start : array-like, shape (points, dimension), optional
        PUBLIC points near which to look first, for many columns: in a large box random places find nobody.
    random_state : int, optional
        Seed of the drawing, which needs no secrecy.

    Returns
    -------
    ndarray, shape (count, dimension)

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(5000, 2))
    >>> release = PrivateKDE(bandwidth=0.5, epsilon=2, n_hint=5000, bounds=(-4, 4)).fit(points).release_
    >>> sample(release, 3, random_state=1).shape
    (3, 2)
    """
    count = check_whole("the number of points", count, MOST_INTEGERS)
    if not isinstance(release.kernel, ShiftInvariantKernel):
        raise InputError("drawing points needs a shift-invariant kernel that the release carries")
    if release.dimension > MOST_COLUMNS:
        return importance(release, release.kernel, count, _corners(release, extent), start, random_state)
    axes = _fine_axes(release, release.kernel, extent)
    mesh = Mesh(tuple(axis.centres for axis in axes))
    masses = nearest_density(release.query(mesh))
    generator = generator_of(random_state)
    cells = generator.choice(len(masses), size=count, p=masses)
    widths = np.array([(axis.upper - axis.lower) / axis.cells for axis in axes])
    return np.asarray(mesh.points[cells] + widths * generator.uniform(-0.5, 0.5, size=(count, len(axes))))


def generator_of(random_state: Any) -> np.random.Generator:
    """Return the generator of points, which are drawn from what is public: of a seed, or of fresh entropy."""
    if isinstance(random_state, np.random.RandomState):  # which `default_rng` takes since NumPy 2.2
        return np.random.Generator(random_state._bit_generator)
    if isinstance(random_state, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence):
        return np.random.default_rng(random_state)
    return np.random.default_rng(checked_entropy(random_state))


def _rough_axes(release: Release, extent: Extent | None) -> tuple[Axis, ...]:
    everything = Section(column_names(release), tuple(range(release.dimension)), np.zeros(release.dimension))
    return resolve_axes(release, everything, extent, size=2048)


def _corners(release: Release, extent: Extent | None) -> tuple[Floats, Floats]:
    axes = _rough_axes(release, extent)
    return np.array([axis.lower for axis in axes]), np.array([axis.upper for axis in axes])


def _fine_axes(release: Release, kernel: ShiftInvariantKernel, extent: Extent | None) -> tuple[Axis, ...]:
    """Cut the extent into cells of a third of a bandwidth."""
    rough = _rough_axes(release, extent)
    lengths = kernel.column_scales(release.dimension)
    cells = [
        max(FEWEST_CELLS, math.ceil(CELLS_PER_BANDWIDTH * (axis.upper - axis.lower) / length))
        for axis, length in zip(rough, lengths, strict=True)
    ]
    if math.prod(cells) > MOST_CELLS:
        raise InputError(
            f"{math.prod(cells):.2g} cells of a third of a bandwidth are too many: pass extent=, a smaller part"
        )
    return tuple(Axis(axis.name, axis.lower, axis.upper, count) for axis, count in zip(rough, cells, strict=True))


def nearest_density(values: Floats) -> Floats:
    """Probabilities nearest to noisy cell values in least squares, their total kept: shift down, cut at zero.

    Examples
    --------
    >>> nearest_density(np.array([3.0, 2.0, -1.0])).round(3)
    array([0.625, 0.375, 0.   ])
    """
    total = float(values.sum())
    if total <= 0:
        raise InputError("the release shows nothing but noise here, so there is no density to draw points from")
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    shift = float(excess[np.flatnonzero(descending > excess)[-1]])
    kept = np.maximum(values - shift, 0.0)
    return np.asarray(kept / kept.sum())


STARTS, ROUNDS, DRAWN = 8192, 4, 4096
NOISE_MASS = 0.05  # of the target that noise alone may hold
FEWEST_STARTS = 16
CENTRES = 256  # of the mixture that points are drawn from
WIDTH = 0.5  # of its parts, in bandwidths
MOST_WEIGHT = 0.99  # quantile of the weights that rejection takes for the largest
MOST_TRIES = 400


def importance(
    release: Release,
    kernel: ShiftInvariantKernel,
    count: int,
    corners: tuple[Floats, Floats],
    start: Any = None,
    random_state: int | None = None,
) -> Floats:
    """Draw points of many columns by a mixture that follows the release's answers, and rejection; see the module."""
    generator, (lower, upper) = generator_of(random_state), corners
    scales = kernel.column_scales(release.dimension)
    log_volumes = float(np.log(upper - lower).sum()) - kernel.log_integral(release.dimension)

    def target(points: Floats) -> Floats:
        inside = ((points >= lower) & (points <= upper)).all(axis=1)
        values = np.zeros(len(points))
        if inside.any():
            answers, errors = release.query(points[inside], return_std=True)
            cut = _noise_cutoff(float(np.median(errors)), log_volumes)
            values[inside] = np.maximum(answers - cut * errors, 0.0)
        return values

    found = generator.uniform(lower, upper, size=(STARTS, len(lower))) if start is None else _public(release, start)
    weights = target(found)
    for _ in range(ROUNDS):
        if np.count_nonzero(weights) < FEWEST_STARTS:
            raise InputError(
                "the release shows nothing but noise at the places that were tried: pass start=, public points that "
                "resemble the records, or extent=, a smaller part"
            )
        centres = found[generator.choice(len(found), size=CENTRES, p=weights / weights.sum())]
        found = _near(generator, centres, scales, DRAWN)
        ratios = target(found) / _mixture(found, centres, scales)
        weights = ratios
    largest, taken, drawn = float(np.quantile(ratios[ratios > 0], MOST_WEIGHT)), [np.empty((0, len(lower)))], 0
    for _ in range(MOST_TRIES):
        tried = _near(generator, centres, scales, DRAWN)
        kept = tried[generator.random(DRAWN) * largest < target(tried) / _mixture(tried, centres, scales)]
        taken.append(kept)
        drawn += len(kept)
        if drawn >= count:
            return np.concatenate(taken)[:count]
    raise InputError("the release's density is too uneven to draw from; pass extent=, a smaller part, or fewer points")


def _public(release: Release, start: Any) -> Floats:
    points = np.asarray(start, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != release.dimension or not np.isfinite(points).all():
        raise InputError(f"start must be finite public points of the release's {release.dimension} columns")
    return points


def _noise_cutoff(error: float, log_volumes: float) -> float:
    """Find tau: noise alone, above tau of its standard errors, holds at most NOISE_MASS of all density."""
    wanted = math.log(NOISE_MASS) - log_volumes - math.log(max(error, 1e-300))
    if wanted >= math.log(norm.pdf(0.0)):
        return 0.0

    def excess(tau: float) -> float:  # log E max(Z - tau, 0) without loss of digits far out
        return float(norm.logpdf(tau) + math.log1p(-min(tau * math.exp(norm.logsf(tau) - norm.logpdf(tau)), 1 - 1e-12)))

    return float(brentq(lambda tau: excess(tau) - wanted, 0.0, 60.0)) if excess(60.0) < wanted else 60.0


def _near(generator: np.random.Generator, centres: Floats, scales: Floats, count: int) -> Floats:
    chosen = centres[generator.integers(0, len(centres), size=count)]
    return np.asarray(chosen + generator.normal(size=chosen.shape) * WIDTH * scales)


def _mixture(points: Floats, centres: Floats, scales: Floats) -> Floats:
    """Density of the mixture, up to a factor."""
    squares = np.stack([np.square((points - centre) / (WIDTH * scales)).sum(axis=1) for centre in centres])
    return np.asarray(np.exp(logsumexp(-squares / 2, axis=0)))


@dataclass(frozen=True)
class Quality:
    """How well synthetic points stand for a release, measured at the points.

    Attributes
    ----------
    misfit : float
        Root mean square difference between the points' own mean kernel value and the release's answer, relative to the
        root mean square answer.
    noise : float
        Root mean square standard error of the release there, relative to the same.
    shown : float
        Share of the points at which the release shows more than two standard errors.

    Examples
    --------
    >>> print(Quality(0.21, 0.05, 0.99))
    queries of these points miss the release's answers by 21 % (its own error is 5 %); 99 % lie where it shows people
    """

    misfit: float
    noise: float
    shown: float

    def __str__(self) -> str:
        return (
            f"queries of these points miss the release's answers by {100 * self.misfit:.2g} % (its own error is "
            f"{100 * self.noise:.2g} %); {100 * self.shown:.3g} % lie where it shows people"
        )


PROBED = 2000


def quality(release: Release, points: Floats) -> Quality:
    """Measure synthetic points against the release they were drawn from.

    Parameters
    ----------
    release : Release
        What they were drawn from.
    points : ndarray
        The points; the first 2,000 of them are asked about.
    """
    if release.kernel is None:
        raise InputError("the release does not carry its kernel, so that points cannot be measured against it")
    places = points[:PROBED]
    answers, errors = release.query(places, return_std=True)
    own = release.kernel.exact_density(points, places)
    if len(points) > 1:  # a point is no witness of its own neighbourhood
        own = (own * len(points) - 1.0) / (len(points) - 1)
    size = math.sqrt(float(np.square(answers).mean())) or 1.0
    misfit, noise = (math.sqrt(float(np.square(part).mean())) / size for part in (own - answers, errors))
    return Quality(misfit, noise, float((answers > 2 * errors).mean()))
