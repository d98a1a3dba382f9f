"""Polygons as GeoJSON gives them, and which cells of a grid they hold, cut or leave out.

The inside is what an odd number of rings surrounds, so holes and several parts need nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.public.codec import brief
from sfumato.quantizers.answer import Floats

OUT, CUT, IN = np.int8(0), np.int8(1), np.int8(2)
States = NDArray[np.int8]
NEAR = 1e-9  # of a column: edges this near to the border of the bounds lie on it
MOST_PIECES = 1 << 24  # pieces of edges between grid lines


def rings_of(region: Any) -> list[Floats]:
    """Rings of all polygons of a GeoJSON object, each as corners of shape (corners, 2).

    Examples
    --------
    >>> [len(ring) for ring in rings_of({"type": "Polygon", "coordinates": [[[0, 0], [4, 1], [1, 3], [0, 0]]]})]
    [4]
    """
    rings = [_ring(ring) for ring in _rings(region)]
    if not rings:
        raise InputError("the region has no polygon in it")
    return rings


def _rings(region: Any) -> Iterable[Any]:
    kind = region.get("type") if isinstance(region, Mapping) else None
    try:
        if kind == "FeatureCollection":
            return [ring for feature in region["features"] for ring in _rings(feature)]
        if kind == "Feature":
            return _rings(region["geometry"])
        if kind == "MultiPolygon":
            return [ring for polygon in region["coordinates"] for ring in polygon]
        if kind == "Polygon":
            return list(region["coordinates"])
    except (KeyError, TypeError):
        raise InputError(f"the region is not valid GeoJSON: a {kind} lacks its parts") from None
    raise InputError(
        f"a region must be a GeoJSON Polygon, MultiPolygon, Feature or FeatureCollection, got {brief(kind)}"
    )


def _ring(ring: Any) -> Floats:
    corners = corners_of(ring)
    if corners is None or len(corners) < 3:
        raise InputError("every ring of a polygon must be three or more corners of two finite numbers")
    return corners


def corners_of(places: Any) -> Floats | None:
    """Corners of shape (corners, 2) of GeoJSON positions, whose heights are left out; None for anything else.

    Examples
    --------
    >>> corners_of([[0, 1, 50], [2, 3, 50]]).tolist(), corners_of([[0], [1]])
    ([[0.0, 1.0], [2.0, 3.0]], None)
    """
    try:
        corners = np.asarray([corner[:2] for corner in places], dtype=np.float64)
    except (TypeError, ValueError, LookupError, OverflowError):
        return None
    shaped = corners.ndim == 2 and corners.shape[1] == 2 and np.isfinite(corners).all()
    return corners if shaped else None


def features_of(document: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Regions of a GeoJSON object that are counted one by one: (properties, geometry) of every feature."""
    if isinstance(document, Mapping) and document.get("type") == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list) or not features:
            raise InputError("the GeoJSON file has no features in it")
        return [pair for feature in features for pair in features_of(feature)]
    if isinstance(document, Mapping) and document.get("type") == "Feature":
        properties = document.get("properties")
        return [(dict(properties) if isinstance(properties, Mapping) else {}, document.get("geometry") or {})]
    return [({}, document)]


def clipped(rings: Sequence[Floats], lower: Floats, upper: Floats) -> list[Floats]:
    """Rings cut to a box (Sutherland and Hodgman, 1974); what lay beyond it runs along its border."""
    parts = list(rings)
    for column in (0, 1):
        parts = [_half(ring, column, float(lower[column]), 1.0) for ring in parts]
        parts = [_half(ring, column, float(upper[column]), -1.0) for ring in parts]
    return [ring for ring in parts if len(ring) >= 3]


def _half(ring: Floats, column: int, limit: float, sign: float) -> Floats:
    """Part of a ring on one side of a line: corners that are kept, and where edges cross."""
    if not len(ring):
        return ring
    ends = np.roll(ring, -1, axis=0)
    first, last = sign * (ring[:, column] - limit), sign * (ends[:, column] - limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = ring + (first / (first - last))[:, None] * (ends - ring)
    crossings[:, column] = limit
    found = np.stack([ring, crossings], axis=1).reshape(-1, 2)
    kept = np.stack([first >= 0, (first >= 0) != (last >= 0)], axis=1).reshape(-1)
    return np.asarray(found[kept])


@dataclass(frozen=True)
class Cells:
    """Unit cells from 0 on, and the part of them that records can be in.

    Attributes
    ----------
    counts : tuple of int
        Cells along each column.
    lower, upper : tuple of float
        The border of the bounds, in units of cells: what lies beyond holds no records.
    slack : float
        A cell within so much of an edge counts as cut by it.
    """

    counts: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    slack: float = 0.0

    def middles(self, column: int) -> Floats:
        """Middles of a column's cells, moved into the bounds."""
        near = NEAR * self.counts[column]
        return np.clip(np.arange(self.counts[column]) + 0.5, self.lower[column] + near, self.upper[column] - near)

    def border(self, column: int, places: Floats) -> NDArray[np.bool_]:
        """Which places are on the border of the bounds, or beyond it."""
        near = NEAR * self.counts[column]
        return np.asarray((places <= self.lower[column] + near) | (places >= self.upper[column] - near))


def polygon_states(rings: Sequence[Floats], cells: Cells) -> States:
    """Say of every cell whether rings, in units of cells and cut to the bounds, hold it, cut it or leave it out.

    Edges along the border of the bounds cut nothing.
    """
    starts, ends = edges_of(rings)
    states = np.where(_surrounded(starts, ends, cells), IN, OUT)
    border = np.zeros(len(starts), dtype=bool)
    for column in (0, 1):
        same = np.abs(starts[:, column] - ends[:, column]) <= NEAR * cells.counts[column]
        border |= same & cells.border(column, starts[:, column])
    states[_crossed(starts[~border], ends[~border], cells)] = CUT
    return states


def edges_of(rings: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Where the edges of rings start and end."""
    return np.concatenate(rings), np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])


def _crossings(starts: Floats, ends: Floats, height: float) -> Floats:
    """Where edges cross a horizontal line, in order."""
    crossed = (starts[:, 1] <= height) != (ends[:, 1] <= height)
    first, last = starts[crossed], ends[crossed]
    along = (height - first[:, 1]) / (last[:, 1] - first[:, 1])
    return np.sort(first[:, 0] + along * (last[:, 0] - first[:, 0]))


def _surrounded(starts: Floats, ends: Floats, cells: Cells) -> NDArray[np.bool_]:
    """Which cells' middles an odd number of rings surrounds."""
    inside, middles = np.zeros(cells.counts, dtype=bool), cells.middles(0)
    for row, height in enumerate(cells.middles(1).tolist()):
        inside[:, row] = np.searchsorted(_crossings(starts, ends, height), middles) % 2 == 1
    return inside


def covered(rings: Sequence[Floats], columns: int, heights: Floats) -> Floats:
    """Part of every unit cell that the rings cover along horizontal lines, shape (columns, heights)."""
    starts, ends = edges_of(rings)
    edges, parts = np.arange(columns + 1.0)[:, None], np.empty((columns, len(heights)))
    for row, height in enumerate(heights.tolist()):
        crossings = _crossings(starts, ends, height)
        left, right = crossings[::2], crossings[1::2]
        parts[:, row] = np.diff((np.clip(edges, left, right) - left).sum(axis=1))
    return parts


def _crossed(starts: Floats, ends: Floats, cells: Cells) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cells that edges run through, or come within the slack of: edges are cut at the columns, then span rows."""
    slack = cells.slack
    low, high = np.minimum(starts, ends) - slack, np.maximum(starts, ends) + slack
    columns, which = _ranges(low[:, 0], high[:, 0], cells.counts[0])
    run, rise = (ends - starts)[which].T
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.clip((columns - slack - starts[which, 0]) / run, 0.0, 1.0)
        right = np.clip((columns + 1 + slack - starts[which, 0]) / run, 0.0, 1.0)
    left, right = np.where(run == 0, 0.0, left), np.where(run == 0, 1.0, right)
    heights = starts[which, 1, None] + np.stack([left, right], axis=1) * rise[:, None]
    rows, piece = _ranges(heights.min(axis=1) - slack, heights.max(axis=1) + slack, cells.counts[1])
    return columns[piece], rows


def _ranges(low: Floats, high: Floats, length: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Whole numbers of each range within 0 to length - 1, and which range each is of."""
    first = np.clip(np.floor(low), 0, length - 1).astype(np.intp)
    counts = np.clip(np.floor(high), 0, length - 1).astype(np.intp) - first + 1
    total = int(counts.sum())
    if total > MOST_PIECES:
        raise InputError("the region's outline crosses too many cells of the grid; simplify it, or cut it into parts")
    which = np.repeat(np.arange(len(low)), counts)
    return first[which] + np.arange(total) - (np.cumsum(counts) - counts)[which], which


def interval_states(low: float, high: float, cells: Cells, column: int) -> States:
    """Say the same of the cells of one column, for the interval from `low` to `high`."""
    middles = cells.middles(column)
    states = np.where((middles > low) & (middles < high), IN, OUT)
    for edge in (low, high):
        if not cells.border(column, np.array([edge]))[0]:
            states[int(max(edge - cells.slack, 0)) : int(edge + cells.slack) + 1] = CUT
    return np.asarray(states)
