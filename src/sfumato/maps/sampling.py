"""Synthetic points from a release of one to three columns.

The private density is evaluated on a grid and made a proper density: negative values, which are noise, cannot be
drawn. Cutting them off alone would leave the positive half of the noise and spread points over empty places, so the
density is shifted down by one constant and then cut, the constant chosen such that the total stays what the release
says (the nearest density in least squares). A point is drawn from a cell with the cell's probability and placed
uniformly within it.

What comes out follows the released density: the data smoothed by the kernel, plus noise. It is post-processing of the
release and costs no privacy, and it is not the data: nothing finer than a bandwidth, and nothing about single records,
is in it.

More than three columns are refused: a grid of them has too many cells, and a density below the noise almost everywhere
cannot be drawn from by rejection either.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.maps.field import Axis, Extent, grid, resolve_axes
from sfumato.maps.views import Section, column_names
from sfumato.quantizers.base import Floats
from sfumato.release import Release

MOST_COLUMNS = 3
FEWEST_CELLS, CELLS_PER_BANDWIDTH = 32, 3
MOST_CELLS = 4_000_000


def sample(release: Release, count: int, *, extent: Extent | None = None, random_state: int | None = None) -> Floats:
    """Draw synthetic points from a release.

    Parameters
    ----------
    release : Release
        Of one to three columns.
    count : int
        How many points.
    extent : (lower, upper) or one pair per column, optional
        Where to draw; the release's declared box by default.
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
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"the number of points must be a positive whole number, got {count!r}")
    axes = _fine_axes(release, extent)
    masses = nearest_density(release.query(grid(axes)))
    generator = np.random.default_rng(random_state)
    cells = generator.choice(len(masses), size=count, p=masses)
    widths = np.array([(axis.upper - axis.lower) / axis.cells for axis in axes])
    return np.asarray(grid(axes)[cells] + widths * generator.uniform(-0.5, 0.5, size=(count, len(axes))))


def _fine_axes(release: Release, extent: Extent | None) -> tuple[Axis, ...]:
    """Cut the extent into cells of a third of a bandwidth."""
    if release.dimension > MOST_COLUMNS:
        raise InputError(
            f"points can be drawn from releases of at most {MOST_COLUMNS} columns and this one has "
            f"{release.dimension}: release fewer columns"
        )
    if not isinstance(release.kernel, ShiftInvariantKernel):
        raise InputError("drawing points needs a shift-invariant kernel that the release carries")
    everything = Section(column_names(release), tuple(range(release.dimension)), np.zeros(release.dimension))
    rough = resolve_axes(release, everything, extent, size=2048)
    lengths = release.kernel.column_scales(release.dimension)
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
