"""Nodes and weights of integrals over regions, fine enough for functions as smooth as a kernel.

Boxes take a product of Gauss-Legendre rules, six nodes for every two bandwidths. Polygons are cut into slabs between
the heights of their corners; within a slab the edges are straight, so along every horizontal line the inside is a few
intervals whose ends are linear in the height, and the same rule is accurate in both directions.

An outline of many corners has many thin slabs, and a spiky one many short intervals on each line. They take fewer
nodes: of a Gaussian bump one node misses 5e-7 of a panel 1/400 of a bandwidth wide, as six nodes do of one of two
bandwidths, and two and three nodes about as much of panels of 1/8 and 1/2. A slab within which an edge moves far to the
side counts as that wide. Every place where a line of nodes crosses the outline counts as a node in the limit, so that a
small file cannot ask for much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.maps.polygons import edges_of, rings_of
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box

NODES_PER_PANEL, PANEL_BANDWIDTHS = 6, 2.0
MOST_NODES = 4_000_000
BLOCK_CROSSINGS = 1 << 18
# Widest panels of the rules, in bandwidths, and how many nodes they have.
_WIDEST, _SIZES = np.array([1 / 400, 1 / 8, 1 / 2]), np.array([1, 2, 3, NODES_PER_PANEL])
_RULES = [np.polynomial.legendre.leggauss(int(size)) for size in _SIZES]

Places = NDArray[np.intp]


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
    return _polygon(rings_of(region), lengths)


def check_nodes(nodes: float) -> None:
    """Refuse a region of too many nodes, before they are made."""
    if not nodes <= MOST_NODES:
        raise InputError(
            f"the region spans so many bandwidths, or has so many corners, that its integral takes {nodes:.2g} "
            f"queries, and {MOST_NODES:,} are the most; pass a smaller region, or simplify it"
        )


def _box(box: Box, lengths: Floats) -> tuple[Floats, Floats]:
    check_nodes(float(np.prod(side_counts(box, lengths))))
    sides = sides_of(box, lengths)
    mesh = np.meshgrid(*(nodes for nodes, _ in sides), indexing="ij")
    weights = np.ones(1)
    for _, side in sides:
        weights = np.multiply.outer(weights, side).ravel()
    return np.column_stack([axis.ravel() for axis in mesh]), weights


def side_counts(box: Box, lengths: Floats) -> Floats:
    """Count the nodes along every column of a box."""
    return NODES_PER_PANEL * _panel_counts(2 * box.half_widths, lengths)


def sides_of(box: Box, lengths: Floats) -> list[tuple[Floats, Floats]]:
    """Nodes and weights along every column of a box, whose product is the rule of the box."""
    return [_panels(low, high, length) for low, high, length in zip(box.lower, box.upper, lengths, strict=True)]


def _panels(low: float, high: float, length: float) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on an interval, in panels of at most two bandwidths."""
    count = max(1, math.ceil((high - low) / (PANEL_BANDWIDTHS * length)))
    half, (nodes, weights) = (high - low) / count / 2, _RULES[-1]
    middles = low + half * (2 * np.arange(count) + 1)
    return (middles[:, None] + half * nodes).ravel(), np.tile(half * weights, count)


def _panel_counts(widths: Floats, length: Floats | float) -> Floats:
    return np.ceil(np.maximum(widths / (PANEL_BANDWIDTHS * length), 1.0))


def _node_counts(widths: Floats, length: float, reach: Floats) -> Floats:
    """Nodes that `_many_panels` makes for intervals of these widths."""
    return np.asarray(_panel_counts(widths, length) * _SIZES[np.searchsorted(_WIDEST, reach)])


def _many_panels(low: Floats, high: Floats, length: float, reach: Floats) -> tuple[Floats, Floats, Places]:
    """Nodes and weights on many intervals at once, and which interval each is of.

    `reach` says for each how many bandwidths it spans, or how many what is integrated moves across it.
    """
    counts, rules = _panel_counts(high - low, length), np.searchsorted(_WIDEST, reach)
    made: list[tuple[Floats, Floats, Places]] = []
    for rule, (nodes, weights) in enumerate(_RULES):
        (chosen,) = np.nonzero(rules == rule)
        which, number = _ranges(counts[chosen].astype(np.intp))
        lines = chosen[which]
        half = ((high - low) / counts / 2)[lines]
        middles = low[lines] + half * (2 * number + 1)
        places = middles[:, None] + half[:, None] * nodes
        made.append((places.ravel(), (half[:, None] * weights).ravel(), np.repeat(lines, len(nodes))))
    places, shares, lines = (np.concatenate(parts) for parts in zip(*made, strict=True))
    return places, shares, lines


def _ranges(counts: Places) -> tuple[Places, Places]:
    """Count up from 0 for each of some lengths, one after the other: which of them, and the number."""
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - (np.cumsum(counts) - counts)[which]


@dataclass(frozen=True)
class _Slabs:
    """A polygon between the heights of its corners.

    Attributes
    ----------
    low, high : ndarray
        Heights of the slabs that edges cross, ascending; gaps between parts of the polygon are none of them.
    crossings : ndarray of int
        How many edges cross each slab; always an even number, because rings are closed.
    edges : ndarray of int
        The edges that cross the first slab, then those of the second, and so on.
    feet, heads : ndarray, shape (edges, 2)
        Lower and upper ends of the edges that are not level.
    """

    low: Floats
    high: Floats
    crossings: Places
    edges: Places
    feet: Floats
    heads: Floats

    @classmethod
    def of(cls, rings: list[Floats]) -> _Slabs:
        starts, ends = edges_of(rings)
        rising = (starts[:, 1] < ends[:, 1])[:, None]
        feet, heads = np.where(rising, starts, ends), np.where(rising, ends, starts)
        level = feet[:, 1] == heads[:, 1]
        feet, heads, heights = feet[~level], heads[~level], np.unique(starts[:, 1])
        first, last = np.searchsorted(heights, feet[:, 1]), np.searchsorted(heights, heads[:, 1])
        check_nodes(float((last - first).sum()))  # each crossing is the end of an interval, which has a node or more
        which, number = _ranges(last - first)
        slab = first[which] + number
        crossings = np.bincount(slab, minlength=len(heights))[: len(heights) - 1]
        (crossed,) = np.nonzero(crossings)
        edges = which[np.argsort(slab, kind="stable")]
        return cls(heights[crossed], heights[crossed + 1], crossings[crossed], edges, feet, heads)

    @property
    def begin(self) -> Places:
        """Where the edges of each slab begin."""
        return np.cumsum(self.crossings) - self.crossings

    def reach(self, lengths: Floats) -> Floats:
        """Bandwidths that each slab spans, up or by the edge that moves farthest to the side within it."""
        if not len(self.edges):
            return np.empty(0)
        run = np.abs(self.heads[:, 0] - self.feet[:, 0]) / (self.heads[:, 1] - self.feet[:, 1])
        farthest = np.maximum.reduceat(run[self.edges], self.begin)
        return np.asarray((self.high - self.low) * np.maximum(farthest / lengths[0], 1 / lengths[1]))

    def places(self, edges: Places, heights: Floats) -> Floats:
        """Where edges cross heights within their own."""
        feet, heads = self.feet[edges], self.heads[edges]
        along = (heights - feet[:, 1]) / (heads[:, 1] - feet[:, 1])
        return np.asarray(feet[:, 0] + along * (heads[:, 0] - feet[:, 0]))


def _polygon(rings: list[Floats], lengths: Floats) -> tuple[Floats, Floats]:
    with np.errstate(over="ignore"):
        check_nodes(float((np.ptp(np.concatenate(rings), axis=0) / lengths).max()))  # also where it overflows
    slabs = _Slabs.of(rings)
    with np.errstate(over="ignore"):  # an edge that is nearly level
        reach = slabs.reach(lengths)
    check_nodes(float(_node_counts(slabs.high - slabs.low, lengths[1], reach) @ slabs.crossings))
    levels, level_weights, slab = _many_panels(slabs.low, slabs.high, lengths[1], reach)
    begin, crossings = slabs.begin[slab], slabs.crossings[slab]
    nodes, weights, total = [np.empty((0, 2))], [np.empty(0)], 0.0
    for part in _blocks_of(crossings):
        line, number = _ranges(crossings[part])
        ends = slabs.places(slabs.edges[begin[part][line] + number], levels[part][line])
        left, right = ends[np.lexsort((ends, line))].reshape(-1, 2).T
        inside = right > left
        rows, left, right = line[::2][inside], left[inside], right[inside]
        widths = (right - left) / lengths[0]
        total += float(_node_counts(right - left, lengths[0], widths).sum())
        check_nodes(total)
        places, shares, interval = _many_panels(left, right, lengths[0], widths)
        nodes.append(np.column_stack([places, levels[part][rows[interval]]]))
        weights.append(level_weights[part][rows[interval]] * shares)
    return np.concatenate(nodes), np.concatenate(weights)


def _blocks_of(sizes: Places) -> Iterator[slice]:
    """Cut lines of so many crossings into blocks of a bounded number of them, or of one line."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + BLOCK_CROSSINGS, side="right")))
        yield slice(start, stop)
        start = stop
