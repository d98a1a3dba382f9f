"""Lines over a map: coast, boroughs or streets, from GeoJSON files on the caller's disk.

Only the places of corners are taken: names, properties and anything else in the files stay out of pictures and pages.
Lines away from the map are left out, and corners nearer to each other than a screen could show are thinned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.maps.polygons import corners_of
from sfumato.quantizers.answer import Floats

MOST_CORNERS = 200_000
LARGEST_FILE = 64 << 20
FINEST = 1 / 4000  # of the map
DEEPEST = 8
LINES = {"LineString": 1, "Polygon": 2, "MultiLineString": 2, "MultiPolygon": 3}  # levels of lists around corners


def read_overlay(documents: Sequence[Any], lower: Sequence[float], upper: Sequence[float]) -> list[Floats]:
    """Lines of GeoJSON objects that cross a map, thinned, each as places of shape (corners, 2).

    Parameters
    ----------
    documents : sequence of mappings
        GeoJSON in the map's own units; points in them are ignored.
    lower, upper : pairs of float
        Corners of the map.

    Examples
    --------
    >>> coast = {"type": "LineString", "coordinates": [[0, 0], [1, 1], [9, 9]]}
    >>> [line.tolist() for line in read_overlay([coast], (0, 0), (4, 4))]
    [[[0.0, 0.0], [1.0, 1.0], [9.0, 9.0]]]
    """
    low, high = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    lines, corners = [], 0
    for document in documents:
        for places in _lines(document, 0):
            line = _thinned(_places(places), FINEST * (high - low))
            if len(line) < 2 or (line.max(axis=0) < low).any() or (line.min(axis=0) > high).any():
                continue
            corners += len(line)
            if corners > MOST_CORNERS:
                raise InputError(f"the overlay has more than {MOST_CORNERS:,} corners on the map; simplify it")
            lines.append(line)
    if not lines:
        raise InputError("the overlay has no line on the map: it must be GeoJSON in the units of the map's columns")
    return lines


def _lines(document: Any, depth: int) -> Iterator[Any]:
    """Find the lists of corners in a GeoJSON object."""
    kind = document.get("type") if isinstance(document, Mapping) else None
    if depth > DEEPEST or not isinstance(kind, str):
        raise InputError("an overlay must be a GeoJSON object of lines or polygons")
    parts = {"FeatureCollection": "features", "GeometryCollection": "geometries"}.get(kind)
    if parts is not None:
        members = document.get(parts)
        for member in members if isinstance(members, list) else ():
            yield from _lines(member, depth + 1)
    elif kind == "Feature":
        if document.get("geometry") is not None:
            yield from _lines(document["geometry"], depth + 1)
    elif kind in LINES:
        yield from _nested(document.get("coordinates"), LINES[kind])


def _nested(places: Any, levels: int) -> Iterator[Any]:
    if not isinstance(places, list):
        raise InputError("an overlay's coordinates must be lists of numbers")
    if levels == 1:
        yield places
        return
    for part in places:
        yield from _nested(part, levels - 1)


def _places(corners: list[Any]) -> Floats:
    places = corners_of(corners)
    if places is None and corners:
        raise InputError("every corner of an overlay must be two numbers, both finite")
    return np.empty((0, 2)) if places is None else places


def _thinned(line: Floats, finest: Floats) -> Floats:
    """Leave out corners in the same small square as the one before; both ends stay."""
    with np.errstate(over="ignore"):  # farther away than any map: one square
        squares = np.floor(line / finest)
    kept = np.ones(len(line), dtype=bool)
    kept[1:-1] = (squares[1:-1] != squares[:-2]).any(axis=1) if len(line) > 2 else False
    return np.asarray(line[kept])
