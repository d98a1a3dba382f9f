"""Nodes and weights for integrals over boxes and polygons, fine enough for functions as smooth as a kernel.

Boxes take a product of Gauss-Legendre rules, six nodes for every two bandwidths. Polygons are cut into slabs
between the heights of their corners; within a slab the edges are straight, so along every horizontal line the inside
is a few intervals whose ends are linear in the height, and the same rule is accurate in both directions. The inside is
what an odd number of rings surrounds, so holes and several parts need nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box

NODES_PER_PANEL, PANEL_BANDWIDTHS = 6, 2.0
MOST_NODES = 4_000_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(NODES_PER_PANEL)


def quadrature(region: Any, lengths: Floats) -> tuple[Floats, Floats]:
    """Nodes, shape (nodes, columns), and weights whose weighted sum of values is the integral over the region.

    Parameters
    ----------
    region : pairs, or GeoJSON mapping
        One (lower, upper) pair per column, or polygons over two columns.
    lengths : ndarray
        Bandwidth of every column.

    Examples
    --------
    >>> nodes, weights = quadrature([(0, 1), (0, 2)], np.array([1.0, 1.0]))
    >>> float(weights.sum().round(12)), float((weights @ nodes[:, 0] ** 2).round(12))
    (2.0, 0.666666666667)
    """
    if not isinstance(region, Mapping):
        return _box(Box.from_bounds(region, len(lengths)), lengths)
    if len(lengths) != 2:
        raise InputError(f"a polygon lies in two columns and the release has {len(lengths)}; pass one pair per column")
    rings = [_ring(ring) for ring in _rings(region)]
    if not rings:
        raise InputError("the region has no polygon in it")
    return _polygon(rings, lengths)


def _panels(low: float, high: float, length: float) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on an interval, in panels of at most two bandwidths."""
    count = max(1, math.ceil((high - low) / (PANEL_BANDWIDTHS * length)))
    half = (high - low) / count / 2
    middles = low + half * (2 * np.arange(count) + 1)
    return (middles[:, None] + half * _NODES).ravel(), np.tile(half * _WEIGHTS, count)


def _box(box: Box, lengths: Floats) -> tuple[Floats, Floats]:
    _check(float(np.prod(_node_counts(2 * box.half_widths, lengths))))
    sides = [_panels(low, high, length) for low, high, length in zip(box.lower, box.upper, lengths, strict=True)]
    mesh = np.meshgrid(*(nodes for nodes, _ in sides), indexing="ij")
    weights = np.ones(1)
    for _, side in sides:
        weights = np.multiply.outer(weights, side).ravel()
    return np.column_stack([axis.ravel() for axis in mesh]), weights


def _node_counts(widths: Floats, lengths: Floats) -> Floats:
    return NODES_PER_PANEL * np.ceil(np.maximum(widths / (PANEL_BANDWIDTHS * lengths), 1.0))


def _check(nodes: float) -> None:
    if nodes > MOST_NODES:
        raise InputError(
            f"the region spans so many bandwidths that its integral takes {nodes:.2g} queries; pass a smaller region"
        )


def _rings(region: Any) -> Iterable[Any]:
    """Rings of all polygons of a GeoJSON object."""
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
    raise InputError(f"a region must be a GeoJSON Polygon, MultiPolygon, Feature or FeatureCollection, got {kind!r}")


def _ring(ring: Any) -> Floats:
    try:
        corners = np.asarray([corner[:2] for corner in ring], dtype=np.float64)
    except (TypeError, ValueError, IndexError):
        corners = np.empty((0, 2))
    if corners.ndim != 2 or len(corners) < 3 or corners.shape[1] != 2 or not np.isfinite(corners).all():
        raise InputError("every ring of a polygon must be three or more corners of two finite numbers")
    return corners


def _polygon(rings: list[Floats], lengths: Floats) -> tuple[Floats, Floats]:
    starts = np.concatenate(rings)
    ends = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    heights = np.unique(starts[:, 1])
    across, up = _node_counts(np.ptp(starts, axis=0), lengths)
    _check(across * (up + NODES_PER_PANEL * len(heights)))
    nodes, weights = [np.empty((0, 2))], [np.empty(0)]
    for low, high in pairwise(heights.tolist()):
        crossed = (np.minimum(starts[:, 1], ends[:, 1]) <= low) & (np.maximum(starts[:, 1], ends[:, 1]) >= high)
        first, last = starts[crossed], ends[crossed]
        for height, weight in zip(*_panels(low, high, lengths[1]), strict=True):
            along = (height - first[:, 1]) / (last[:, 1] - first[:, 1])
            crossings = np.sort(first[:, 0] + along * (last[:, 0] - first[:, 0]))
            for left, right in zip(crossings[::2], crossings[1::2], strict=True):
                if right > left:
                    places, shares = _panels(left, right, lengths[0])
                    nodes.append(np.column_stack([places, np.full(len(places), height)]))
                    weights.append(weight * shares)
    return np.concatenate(nodes), np.concatenate(weights)
