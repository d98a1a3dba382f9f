"""Polygons over cells: rings of GeoJSON, cut to a box, and which cells they hold, cut or leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import InputError
from sfumato.maps.polygons import CUT, IN, OUT, Cells, clipped, covered, features_of, polygon_states, rings_of

SQUARE = {"type": "Polygon", "coordinates": [[[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]]]}


def _area(ring: np.ndarray) -> float:
    x, y = ring.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


@pytest.mark.parametrize("region", [SQUARE, {"type": "Feature", "geometry": SQUARE}])
def test_rings_are_found_wherever_they_stand(region: dict[str, Any]) -> None:
    [ring] = rings_of(region)
    assert _area(ring) == 4.0


@pytest.mark.parametrize(
    "region", [{"type": "Point"}, {"type": "Polygon"}, {"type": "Polygon", "coordinates": [[[0, 0]]]}]
)
def test_what_is_no_polygon_is_refused(region: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        rings_of(region)


def test_features_keep_their_properties() -> None:
    feature = {"type": "Feature", "geometry": SQUARE, "properties": {"name": "park"}}
    assert features_of({"type": "FeatureCollection", "features": [feature]}) == [({"name": "park"}, SQUARE)]


def test_a_ring_is_cut_to_the_box() -> None:
    [ring] = clipped(rings_of(SQUARE), np.array([0.0, 0.0]), np.array([2.0, 2.0]))
    assert _area(ring) == pytest.approx(1.0)
    assert clipped(rings_of(SQUARE), np.array([4.0, 4.0]), np.array([5.0, 5.0])) == []


def test_cells_are_held_cut_or_left_out_and_areas_add_up() -> None:
    ring = np.array([[0.5, 0.0], [3.5, 0.0], [3.5, 2.5], [0.5, 2.5]])
    states = polygon_states([ring], Cells((5, 4), (0.0, 0.0), (5.0, 4.0)))
    assert states[:, 0].tolist() == [CUT, IN, IN, CUT, OUT]
    assert states[:, 2].tolist() == [CUT, CUT, CUT, CUT, OUT] and (states[:, 3] == OUT).all()
    heights = (np.arange(250) + 0.5) / 100
    assert covered([ring], 5, heights).sum() / 100 == pytest.approx(_area(ring))
