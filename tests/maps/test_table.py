"""Tables of regions: names, measures, shares, and a document that carries the guarantee."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato import InputError, PrivateKDE
from sfumato.maps import table

POINTS = np.random.default_rng(0).uniform(-2, 2, size=(4000, 2))
HALF = {"type": "Polygon", "coordinates": [[[-2, -2], [0, -2], [0, 2], [-2, 2], [-2, -2]]]}


@pytest.fixture(scope="module")
def release() -> object:
    model = PrivateKDE(bandwidth=0.5, epsilon=4, n_hint=4000, bounds=(-2, 2), method="grid", random_state=1)
    return model.fit(POINTS).release_


def test_every_feature_is_counted_under_its_name(release: object) -> None:
    features = [{"type": "Feature", "geometry": HALF, "properties": name} for name in ({"name": "west"}, {})]
    document = {"type": "FeatureCollection", "features": features}
    rows = table.count_features(document, lambda region: table.count_region(release, region, quantity="shares"))  # type: ignore[arg-type]
    columns = table.regions_table(rows)
    assert columns["region"] == ["west", "2"]
    assert columns["sharp_lower"][0] <= (POINTS[:, 0] < 0).mean() <= columns["sharp_upper"][0]
    made = json.loads(table.regions_geojson(rows, [release], "shares", 0.95))  # type: ignore[list-item]
    assert "epsilon = 4" in made["guarantee"][0] and made["features"][0]["properties"]["name"] == "west"


def test_a_release_less_itself_is_nothing(release: object) -> None:
    counted = table.count_region(release, [(-2, 0), (-2, 2)], minus=release)  # type: ignore[arg-type]
    assert counted.smoothed.value == 0 and counted.smoothed.std > 0


def test_what_is_no_quantity_is_refused(release: object) -> None:
    with pytest.raises(InputError, match="quantity must be"):
        table.count_region(release, HALF, quantity="people")  # type: ignore[arg-type]
