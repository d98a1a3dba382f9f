"""Lines over maps: only places are taken, and not too many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import InputError
from sfumato.maps.overlay import read_overlay

LOW, HIGH = (0.0, 0.0), (10.0, 10.0)


def test_lines_and_polygons_of_any_depth_are_found_and_points_ignored() -> None:
    ring = [[1, 1], [2, 1], [2, 2], [1, 1]]
    document = {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [[ring], [ring]]}},
            {"type": "Feature", "geometry": None},
            {
                "type": "GeometryCollection",
                "geometries": [
                    {"type": "Point", "coordinates": [1, 1]},
                    {"type": "LineString", "coordinates": [[3, 3, 99], [4, 4, 99]]},
                ],
            },
        ],
    }
    assert [line.shape for line in read_overlay([document], LOW, HIGH)] == [(4, 2), (4, 2), (2, 2)]


def test_lines_elsewhere_are_left_out_and_fine_ones_thinned() -> None:
    away = {"type": "LineString", "coordinates": [[20, 20], [30, 30]]}
    steps = np.linspace(0, 10, 100_000)
    fine = {"type": "LineString", "coordinates": np.column_stack([steps, steps]).tolist()}
    (line,) = read_overlay([away, fine], LOW, HIGH)
    assert len(line) < 10_000
    assert line[[0, -1]].tolist() == [[0, 0], [10, 10]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "GeoJSON object"),
        ({"type": "LineString", "coordinates": "abc"}, "lists of numbers"),
        ({"type": "LineString", "coordinates": [[0, "a"], [1, 1]]}, "two numbers"),
        ({"type": "LineString", "coordinates": [[0, float("inf")], [1, 1]]}, "finite"),
        ({"type": "LineString", "coordinates": [[50, 50], [60, 60]]}, "no line on the map"),
        ({"type": "LineString", "coordinates": [[10**400, 0], [1, 1]]}, "two numbers"),
        ({"type": "LineString", "coordinates": [{}, {"a": 1}]}, "two numbers"),
        ({"type": "LineString", "coordinates": [[0], [1], [2], [3]]}, "two numbers"),  # were taken for two corners
        ({"type": "LineString", "coordinates": [[[0, 1], [1, 2]], [[0, 1], [1, 2]]]}, "two numbers"),
        ({"type": ["LineString"], "coordinates": [[0, 0], [1, 1]]}, "GeoJSON object"),
        ({"type": {}, "coordinates": [[0, 0], [1, 1]]}, "GeoJSON object"),
    ],
)
def test_what_is_no_overlay_is_refused(document: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_overlay([document], LOW, HIGH)


def test_too_many_corners_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.maps.overlay.MOST_CORNERS", 3)
    with pytest.raises(InputError, match="simplify"):
        read_overlay([{"type": "LineString", "coordinates": [[0, 0], [3, 1], [5, 5], [9, 9]]}], LOW, HIGH)


def test_a_nest_of_collections_ends() -> None:
    document: dict[str, Any] = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    for _ in range(20):
        document = {"type": "GeometryCollection", "geometries": [document]}
    with pytest.raises(InputError, match="GeoJSON object"):
        read_overlay([document], LOW, HIGH)
