"""Cells as CSV and GeoJSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from sfumato import InputError, Release
from sfumato.maps import evaluate, project
from sfumato.maps.export import to_csv, to_geojson


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_csv_has_every_cell_with_its_interval(release: Release) -> None:
    field = evaluate(release, size=6)
    rows = rows_of(to_csv(field))
    assert list(rows[0]) == ["east", "north", "value", "std", "lower", "upper"]
    table = np.array([[float(number) for number in row.values()] for row in rows])
    answers, errors = release.query(table[:, :2], return_std=True)
    assert np.allclose(table[:, 2], answers, rtol=1e-9)
    assert np.allclose(table[:, 3], errors, rtol=1e-9)
    assert (table[:, 4] < table[:, 2]).all()
    assert np.allclose(table[:, 5] - table[:, 2], table[:, 2] - table[:, 4])


def test_curves_and_dots_are_exported_too(curve: Release, many: Release) -> None:
    rows = rows_of(to_csv(evaluate(curve, size=5)))
    assert list(rows[0]) == ["age", "value", "std", "lower", "upper"]
    assert len(rows) == 5
    public = np.random.default_rng(0).normal(size=(7, 5))
    rows = rows_of(to_csv(project(many, public)))
    assert [float(row["value"]) for row in rows] == pytest.approx(many.query(public), rel=1e-9)


def test_a_column_named_as_an_output_column_is_refused(release: Release) -> None:
    with pytest.raises(InputError, match="'std'"):
        to_csv(evaluate(replace(release, columns=("std", "y")), size=4))


def test_geojson_cells_tile_the_map_and_carry_the_guarantee(release: Release) -> None:
    field = evaluate(release, size=5, title="People")
    document = json.loads(to_geojson(field))
    assert document["type"] == "FeatureCollection"
    assert str(release.guarantee) in document["guarantee"]
    assert document["statement"] == release.statement()
    assert len(document["features"]) == 25
    areas = 0.0
    for feature, value, error in zip(document["features"], field.values.ravel(), field.errors.ravel(), strict=True):
        ring = np.array(feature["geometry"]["coordinates"][0])
        assert np.array_equal(ring[0], ring[-1])
        areas += float(np.sum(ring[:-1, 0] * ring[1:, 1] - ring[1:, 0] * ring[:-1, 1]) / 2)  # counterclockwise
        assert feature["properties"]["value"] == pytest.approx(value, rel=1e-6)
        assert feature["properties"]["std"] == pytest.approx(error, rel=1e-6)
        centre = (ring[0] + ring[2]) / 2
        assert feature["properties"]["value"] == pytest.approx(release.query([centre])[0], rel=1e-5, abs=1e-9)
    assert areas == pytest.approx(8 * 20)


@pytest.mark.parametrize(
    ("columns", "extent", "message"),
    [(("lat", "lon"), None, "longitude comes first"), (("lon", "lat"), [(0, 1), (80, 95)], "in degrees")],
)
def test_geojson_needs_degrees_in_their_order(
    release: Release, columns: tuple[str, ...], extent: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        to_geojson(evaluate(replace(release, columns=columns), extent=extent, size=4))  # type: ignore[arg-type]


def test_geojson_needs_a_map(curve: Release) -> None:
    with pytest.raises(InputError, match="two columns"):
        to_geojson(evaluate(curve, size=4))
