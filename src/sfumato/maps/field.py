"""A release's answers on a regular grid: what every map, page and export is made from.

`compare` puts the exact density beside the private one. NOT PRIVATE: for the curator's eyes, or for made-up points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel, ShiftInvariantKernel
from sfumato.maps.interval import LEVEL, Band, deviations, family_cutoff, simultaneous_band
from sfumato.maps.views import Caption, Section, section
from sfumato.privacy.guarantee import check_choice
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.release import Release
from sfumato.release.shrinking import PlacesSpread, shrink
from sfumato.sources import open_source

SIZE = 256
QUANTITIES = ("shares", "counts")
LARGEST_SIZE = 2048
COARSEST = 4.0  # bandwidths per cell beyond which a map would show nothing of the density

Extent = Sequence[float] | Sequence[Sequence[float]]


@dataclass(frozen=True)
class Axis:
    """One side of a grid: a named interval in data units, cut into cells.

    Examples
    --------
    >>> Axis("age", 0.0, 100.0, 4).centres
    array([12.5, 37.5, 62.5, 87.5])
    """

    name: str
    lower: float
    upper: float
    cells: int

    @property
    def edges(self) -> Floats:
        """Edges of the cells."""
        return np.linspace(self.lower, self.upper, self.cells + 1)

    @property
    def centres(self) -> Floats:
        """Middles of the cells."""
        edges = self.edges
        return np.asarray((edges[1:] + edges[:-1]) / 2)


@dataclass(frozen=True, eq=False)
class Field:
    """Answers at the centres of a grid's cells.

    Attributes
    ----------
    axes : tuple of Axis
        The horizontal axis, and the vertical one if there is one.
    values, errors : ndarray
        Answers (not clipped) and their standard errors, shape (x cells,) or (y cells, x cells).
    section : Section
        Which columns the axes are.
    caption : Caption
        What is printed beside them.
    signed : bool
        Whether the values are differences, which may be negative.
    quantity : {"shares", "counts"}
        What values are of: mean kernel values (parts of one's own total), or sums over the records.
    cutoff : float
        How many standard errors a value must exceed to be more than noise; from `evaluate`, noise alone exceeds it
        anywhere on the map in at most one map of twenty.
    per_area : float or None
        Records per unit of the axes' area (or length) for a value of 1; None where the axes are not all columns.
    band : Band or None
        The simultaneous band of a curve.
    shrunk : ndarray or None
        Answers read with ``read="shrunk"``, which pictures of two axes take for their colours, because most of a map is
        empty; None where the release does not show how its values are spread over the bounds.
    """

    axes: tuple[Axis, ...]
    values: Floats
    errors: Floats
    section: Section
    caption: Caption
    signed: bool = False
    band: Band | None = None
    shrunk: Floats | None = None
    quantity: str = "shares"
    cutoff: float = 2.0
    per_area: float | None = None

    @property
    def coloured(self) -> Floats:
        """What the colours of a picture stand for."""
        return self.values if self.shrunk is None else self.shrunk

    @property
    def below_noise(self) -> NDArray[np.bool_]:
        """Where the value may be noise alone: less than `cutoff` errors above zero (away from zero, if signed)."""
        return np.asarray((np.abs(self.values) if self.signed else self.values) < self.cutoff * self.errors)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Lower and upper ends that hold the truth of one cell with probability `level`."""
        reach = deviations(level) * self.errors
        return self.values - reach, self.values + reach

    @property
    def queries(self) -> Floats:
        """Full query points of all cells, in the order of ``values.ravel()``."""
        return self.section.mesh([axis.centres for axis in self.axes]).points


def evaluate(
    release: Release,
    *,
    minus: Release | None = None,
    quantity: str = "shares",
    columns: Sequence[str | int] | None = None,
    at: Mapping[str, Any] | None = None,
    extent: Extent | None = None,
    size: int = SIZE,
    title: str | None = None,
) -> Field:
    """Query a release on a grid.

    Parameters
    ----------
    release : Release
        What is drawn.
    minus : Release, optional
        A second release of the same columns and kernel to subtract; the noises are independent, so the variances add.
    quantity : {"shares", "counts"}
        Draw mean kernel values, which are shares of a release's own records, or sums over the records. Of two releases
        with different numbers of records one may have the larger share in a place and the other more records.
    columns, at
        Which columns to draw and where the others stand, see `views.section`.
    extent : (lower, upper) or one pair per drawn column, optional
        What to show, in data units; the release's declared box by default.
    size : int
        Cells along each axis.
    title : str, optional
        The picture's title.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=2000, bounds=(-3, 3)).fit(points).release_
    >>> evaluate(release, size=8).values.shape
    (8, 8)
    """
    view = section(release, columns, at)
    axes = resolve_axes(release, view, extent, size)
    releases = (release,) if minus is None else (release, _comparable(release, minus))
    mesh = view.mesh([axis.centres for axis in axes])
    points = mesh.points
    check_choice("quantity", quantity, QUANTITIES)
    answers = [(made.query if quantity == "shares" else made.total)(mesh, return_std=True) for made in releases]
    values, errors = answers[0]
    if minus is not None:
        values, errors = values - answers[1][0], np.hypot(errors, answers[1][1])
    shape, curve = tuple(axis.cells for axis in reversed(axes)), len(axes) == 1
    empty = len(axes) == 2 and minus is None and quantity == "shares" and isinstance(release.spread, PlacesSpread)
    places = _places(release, view, axes)
    cutoffs = [family_cutoff(made, points, places, signed=minus is not None) for made in releases]
    return Field(
        axes=axes,
        values=values.reshape(shape),
        errors=errors.reshape(shape),
        section=view,
        caption=Caption.of(releases, title, str(view)),
        signed=minus is not None,
        band=_band(releases, points, answers, errors, quantity) if curve else None,
        shrunk=shrink(release.spread, values, errors)[0].reshape(shape) if empty else None,
        quantity=quantity,
        cutoff=max(cutoffs),
        per_area=_per_area(release, view, quantity, signed=minus is not None),
    )


def _band(
    releases: tuple[Release, ...], points: Floats, answers: list[tuple[Floats, Floats]], errors: Floats, quantity: str
) -> Band:
    means = [mean for mean, _ in answers]
    return simultaneous_band(releases, points, means, errors, totals=quantity == "counts")


def _places(release: Release, view: Section, axes: tuple[Axis, ...]) -> int:
    """Count places half a bandwidth apart; never more than there are cells."""
    cells = math.prod(axis.cells for axis in axes)
    if not isinstance(release.kernel, ShiftInvariantKernel):
        return cells
    lengths = release.kernel.column_scales(release.dimension)[list(view.shown)]
    steps = [math.ceil(2 * (axis.upper - axis.lower) / length) + 1 for axis, length in zip(axes, lengths, strict=True)]
    return int(min(cells, math.prod(steps)))


def _per_area(release: Release, view: Section, quantity: str, *, signed: bool) -> float | None:
    """Return records per unit of area for a value of 1: a record's kernel spreads it over the kernel's own volume."""
    whole = len(view.shown) == release.dimension and isinstance(release.kernel, ShiftInvariantKernel)
    if not whole or (signed and quantity == "shares"):
        return None
    assert isinstance(release.kernel, ShiftInvariantKernel)
    records = release.count.value if quantity == "shares" else 1
    return records * math.exp(-release.kernel.log_integral(release.dimension))


def resolve_axes(release: Release, view: Section, extent: Extent | None, size: int) -> tuple[Axis, ...]:
    """Find what to show: the given extent, or the declared box where that is not far too wide to see anything."""
    if isinstance(size, bool) or not isinstance(size, int) or not 2 <= size <= LARGEST_SIZE:
        raise InputError(
            f"size, the cells along an axis, must be a whole number from 2 to {LARGEST_SIZE}; got {brief(size)}"
        )
    pairs = _declared(release, view, size) if extent is None else _given(extent, len(view.shown))
    return tuple(Axis(view.names[index], low, high, size) for index, (low, high) in zip(view.shown, pairs, strict=True))


def _declared(release: Release, view: Section, size: int) -> list[tuple[float, float]]:
    box = release.reader.box
    pairs = [(box.lower[index], box.upper[index]) for index in view.shown]
    if isinstance(release.kernel, ShiftInvariantKernel):
        lengths = release.kernel.column_scales(release.dimension)
        for index, (low, high) in zip(view.shown, pairs, strict=True):
            if high - low > COARSEST * size * lengths[index]:
                raise InputError(
                    f"the release's box is {(high - low) / lengths[index]:.3g} bandwidths wide in the column "
                    f"{view.names[index]!r}, too wide for a map of {size} cells (it was probably made without bounds): "
                    "pass extent=, the part to show, as one (lower, upper) pair per column"
                )
    return pairs


def _given(extent: Extent, count: int) -> list[tuple[float, float]]:
    try:
        table = np.asarray(extent, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        table = np.empty(0)
    if table.shape == (2,):
        table = np.tile(table, (count, 1))
    if table.shape != (count, 2):
        raise InputError(f"extent must be one (lower, upper) pair, or one for each of the {count} drawn columns")
    if not (np.isfinite(table).all() and (table[:, 0] < table[:, 1]).all()):
        raise InputError(f"extent must be finite with lower < upper, got {table.tolist()}")
    return [(float(low), float(high)) for low, high in table]


def _comparable(release: Release, other: Release) -> Release:
    """Refuse a difference that means nothing."""
    if not isinstance(other, Release):
        raise InputError(f"minus must be a release, got {brief(other)}")
    if other.dimension != release.dimension or dict(other.kernel_document) != dict(release.kernel_document):
        raise InputError("a difference needs two releases of the same columns, kernel and bandwidth")
    if None not in (release.columns, other.columns) and release.columns != other.columns:
        raise InputError(f"a difference needs the same columns, got {release.columns} and {other.columns}")
    return other


BLOCK_ROWS = 8192
REASON = "shows the exact density of the private points"


def compare(field: Field, release: Release, points: Any, *, made_up: bool = False) -> tuple[Field, Field, Field]:
    """Exact density of PRIVATE points, the private one, and private minus exact, all marked as not private.

    Parameters
    ----------
    field : Field
        What `evaluate` gave for the release.
    release : Release
        Its kernel and box say what is computed, odd rows are treated as in the release.
    points : array-like or Source
        The private points.
    made_up : bool
        Whether the points are nobody's, so that the pictures need no mark.

    Returns
    -------
    (exact, private, difference) : tuple of Field

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> from sfumato.maps import evaluate
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=2000, bounds=(-3, 3)).fit(points).release_
    >>> exact, private, difference = compare(evaluate(release, size=8), release, points)
    >>> bool(np.allclose(exact.values + difference.values, private.values))
    True
    """
    if release.kernel is None:
        raise InputError("the release does not carry its kernel, so the exact density cannot be computed from it")
    if field.signed:
        raise InputError("a difference of two releases cannot be compared with points; compare each release")
    source = open_source(points)
    if source.dimension != release.dimension:
        raise InputError(f"the points have {source.dimension} columns and the release has {release.dimension}")
    rows = (_kept(batch, release.reader.box) for batch in source.batches())
    values = _exact_values(release.kernel, rows, field)
    caption = field.caption if made_up else field.caption.not_private(REASON)
    if field.quantity != "shares":
        raise InputError("a comparison draws mean kernel values: leave out quantity=")
    nothing = np.zeros_like(values)
    exact = replace(field, values=values, errors=nothing, caption=caption, band=None, shrunk=None)
    difference = replace(exact, values=field.values - values, signed=True)
    return exact, replace(field, caption=caption, shrunk=None), difference


def _kept(batch: NDArray[Any], box: Box) -> Floats:
    """Rows as the release saw them."""
    finite = np.asarray(batch[np.isfinite(batch).all(axis=1)], dtype=np.float64)
    clipped: Floats = np.clip(finite, box.lower, box.upper)
    return clipped if box.outside == "clip" else clipped[(clipped == finite).all(axis=1)]


def _exact_values(kernel: Kernel, batches: Iterator[Floats], field: Field) -> Floats:
    """Exact mean kernel values on the grid; for a product of columns, by one matrix product a batch."""
    if not (isinstance(kernel, ShiftInvariantKernel) and kernel.separable):
        return kernel.exact_density(batches, field.queries).reshape(field.values.shape)
    view, total, count = field.section, np.zeros(field.values.size), 0
    lengths = kernel.column_scales(len(view.names))
    places = [np.array([value]) for value in view.fixed]
    for index, axis in zip(view.shown, field.axes, strict=True):
        places[index] = axis.centres
    for rows in (part for batch in batches for part in np.array_split(batch, len(batch) // BLOCK_ROWS + 1)):
        factors = [
            kernel.column_profile((rows[:, [index]] - places[index]) / lengths[index]) for index in range(len(places))
        ]
        shown = [factors[index] for index in view.shown]
        for index in set(range(len(places))) - set(view.shown):
            shown[0] = shown[0] * factors[index]
        total += shown[0].sum(axis=0) if len(shown) == 1 else (shown[1].T @ shown[0]).ravel()
        count += len(rows)
    if not count:
        raise InputError("the points hold no rows that the release would keep")
    return (total / count).reshape(field.values.shape)


def shared_range(fields: Sequence[Field]) -> float:
    """Top of a colour scale on which unsigned fields can be compared."""
    return float(max(field.values.max() for field in fields if not field.signed))
