"""`sfumato map`, `people` and `sample`: every kind of file, what they say, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.maps import evaluate, people, sharp_people

from .conftest import QUICK, Run, plain

HERE = ("--extent", "-3,3;-3,3", "--size", "12")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "map.png"


@pytest.fixture
def other(run: Run, files: dict[str, Path], tmp_path: Path) -> Path:
    """A second release of the same columns."""
    path = tmp_path / "other.sfm"
    arguments = ("--bandwidth", "1", "--epsilon", "2", "--no-ledger", "--quiet", *QUICK)
    assert run("release", files["csv"], "-o", path, *arguments).exit_code == 0
    return path


@pytest.mark.parametrize(
    ("kind", "start"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>"), ("csv", b'"lon","lat"'), ("geojson", b'{"')],
)
def test_every_kind_of_file(run: Run, released: Path, tmp_path: Path, kind: str, start: bytes) -> None:
    path = tmp_path / f"map.{kind}"
    result = run("map", released, "-o", path, *HERE, "--longitude-latitude", "--title", "Five hundred")
    assert result.exit_code == 0, result.output
    content = path.read_bytes()
    assert content.startswith(start)
    guarantee = str(sfumato.load(released).guarantee)
    assert guarantee in plain(result.stderr)
    assert "noise alone" in result.stdout
    if kind in ("svg", "html", "geojson"):
        assert b"Five hundred" in content
        assert b"epsilon = 1 (pure)" in content


def test_the_cells_are_the_releases_answers(run: Run, released: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    document = json.loads(run("map", released, "-o", path, *HERE, "--json").stdout)
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 144
    places = [[float(row["lon"]), float(row["lat"])] for row in rows]
    answers = sfumato.load(released).query(places)
    assert [float(row["value"]) for row in rows] == pytest.approx(answers, abs=1e-12)
    assert document["private"] is True
    assert document["bytes"] == path.stat().st_size
    cutoff = evaluate(sfumato.load(released), extent=(-3, 3), size=12).cutoff
    noisy = [float(row["value"]) < cutoff * float(row["std"]) for row in rows]
    assert document["noise_share"] == pytest.approx(np.mean(noisy))


def test_one_column_with_the_other_fixed_is_a_curve(run: Run, released: Path, tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    result = run("map", released, "-o", path, "--columns", "lat", "--at", "lon=0.5", "--extent", "-2,2", "--size", "9")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(path.open()))
    places = [[0.5, float(row["lat"])] for row in rows]
    assert [float(row["value"]) for row in rows] == pytest.approx(sfumato.load(released).query(places), abs=1e-12)


def test_the_difference_of_two_releases(run: Run, released: Path, other: Path, tmp_path: Path) -> None:
    path = tmp_path / "change.csv"
    assert run("map", released, "--minus", other, "-o", path, *HERE).exit_code == 0
    row = list(csv.DictReader(path.open()))[50]
    place = [[float(row["lon"]), float(row["lat"])]]
    (first, first_error), (second, second_error) = (
        sfumato.load(release).query(place, return_std=True) for release in (released, other)
    )
    assert float(row["value"]) == pytest.approx(first[0] - second[0], abs=1e-12)
    assert float(row["std"]) == pytest.approx(np.hypot(first_error[0], second_error[0]), rel=1e-9)


def test_a_comparison_with_private_points_is_marked(
    run: Run, released: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    picture, refused, page = tmp_path / "compare.svg", tmp_path / "refused.html", tmp_path / "compare.html"
    result = run("map", released, "-o", picture, *HERE, "--compare", files["csv"])
    assert result.exit_code == 0, result.output
    assert "NOT PRIVATE" in result.stderr
    assert "NOT PRIVATE" in picture.read_text()
    result = run("map", released, "-o", refused, *HERE, "--compare", files["npy"])
    assert result.exit_code == 2
    assert "--not-private" in plain(result.stderr)
    assert not refused.exists()
    assert run("map", released, "-o", page, *HERE, "--compare", files["parquet"], "--not-private").exit_code == 0
    assert 'role="alert">NOT PRIVATE' in page.read_text()


def test_public_points_are_projected(run: Run, released: Path, files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "dots.csv"
    result = run("map", released, "-o", path, "--projection", "pca", "--public", files["csv"])
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(path.open()))
    points = np.load(files["npy"])
    assert [float(row["value"]) for row in rows] == pytest.approx(sfumato.load(released).query(points), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass --extent"),
        ([*HERE, "-o", "map.jpg"], "choose one of these endings"),
        (["--extent", "0,1;west,2"], "--extent must be numbers"),
        ([*HERE, "--size", "1"], "size"),
        ([*HERE, "--columns", "lat"], "pass --at with one"),
        ([*HERE, "--columns", "lat", "--at", "lon"], "NAME=VALUE"),
        ([*HERE, "--columns", "height"], "no column 'height'"),
        ([*HERE, "--projection", "pca"], "belong together"),
        ([*HERE, "--minus", "a.sfm", "--compare", "b.csv"], "exclude each other"),
        ([*HERE, "-o", "map.geojson"], "pass --longitude-latitude"),
        ([*HERE, "-o", "map.csv", "--compare", "b.csv"], "is not exported"),
        ([*HERE, "-o", "map.geojson", "--projection", "pca", "--public", "p.csv"], "no places on the earth"),
        ([*HERE, "--longitude-latitude", "--columns", "lat,lon"], "pass --columns in the other order"),
        ([*HERE, "--compare", "missing.csv"], "no such file"),
    ],
)
def test_refusals(
    run: Run, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    output = () if "-o" in arguments else ("-o", "map.png")
    result = run("map", released, *output, *arguments)
    assert result.exit_code == 2, result.output
    assert message in plain(result.stderr)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_map_is_kept_without_force(run: Run, released: Path, target: Path) -> None:
    target.write_text("old")
    assert run("map", released, "-o", target, *HERE).exit_code == 2
    assert target.read_text() == "old"
    assert run("map", released, "-o", target, *HERE, "--force").exit_code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


def test_people_in_a_box_and_in_a_polygon(run: Run, released: Path, other: Path, tmp_path: Path) -> None:
    made = sfumato.load(released)
    document = json.loads(run("people", released, "--region", "-1,1;-1,1", "--json").stdout)
    estimate = people(made, [(-1, 1), (-1, 1)])
    assert document["people"]["value"] == pytest.approx(estimate.value)
    assert document["people"]["upper"] == pytest.approx(estimate.upper)
    square = tmp_path / "square.geojson"
    square.write_text(json.dumps({"type": "Polygon", "coordinates": [[[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]]}))
    result = run("people", released, "--region", square)
    assert str(made.guarantee) in plain(result.stderr)
    assert "95 %" in result.stdout
    difference = json.loads(run("people", released, "--region", square, "--minus", other, "--json").stdout)
    expected = estimate - people(sfumato.load(other), [(-1, 1), (-1, 1)])
    assert difference["people"]["value"] == pytest.approx(expected.value, rel=1e-6, abs=1e-6)
    assert len(difference["guarantees"]) == 2


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ("missing.geojson", "no such file"),
        ("0,1;a,2", "--region must be numbers"),
        ("0,1", "1 columns"),
        ("broken.json", "is not JSON"),
        ("list.json", "not a GeoJSON object"),
        ("endless.json", "more than the 1000 that are read; pass a GeoJSON file"),
    ],
)
def test_regions_that_are_refused(
    run: Run, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, region: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    Path("list.json").write_text("[]")
    Path("endless.json").symlink_to("/dev/zero")
    monkeypatch.setattr("sfumato.cli.people.LARGEST_TEXT", 1000)
    result = run("people", released, "--region", region)
    assert result.exit_code == 2
    assert message in plain(result.stderr)


def test_synthetic_points_as_csv_and_npy(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    # Fixed features and little noise: the total over the extent is hundreds of its deviations above zero.
    released = tmp_path / "clear.sfm"
    clear = ("--bandwidth", "1", "--epsilon", "100", "--option", "n_features=400", "--n-hint", "500")
    made = run("release", files["csv"], "-o", released, *clear, "--feature-seed", "3", "--no-ledger", "--quiet")
    assert made.exit_code == 0, made.output
    table, array = tmp_path / "points.csv", tmp_path / "points.npy"
    common = ("-k", "50", "--extent", "-4,4;-4,4", "--seed", "3")
    result = run("sample", released, "-o", table, *common)
    assert result.exit_code == 0, result.output
    assert "50 synthetic points" in result.stdout
    assert json.loads(run("sample", released, "-o", array, *common, "--json").stdout)["count"] == 50
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    points = np.load(array)
    assert points.shape == (50, 2)
    assert np.allclose([[float(row["lon"]), float(row["lat"])] for row in rows], points)
    assert run("sample", released, "-o", tmp_path / "points.txt", *common).exit_code == 2
    assert "--extent" in plain(run("sample", released, "-o", tmp_path / "wide.csv").stderr)


def test_a_bandwidth_in_metres(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    common = ("release", files["csv"], "--epsilon", "1", "--no-ledger", "--quiet", *QUICK)
    path = tmp_path / "metres.sfm"
    result = run(*common, "-o", path, "--bandwidth-metres", "100000", "--latitude", "60")
    assert result.exit_code == 0, result.output
    kernel = sfumato.load(path).kernel
    assert kernel is not None
    assert np.allclose(kernel.bandwidth, [100_000 / 55_800, 100_000 / 111_412], rtol=1e-4)
    for wrong in (
        ("--bandwidth-metres", "5"),
        ("--latitude", "5", "--bandwidth", "1"),
        ("--bandwidth", "1", "--bandwidth-metres", "5", "--latitude", "5"),
    ):
        refused = run(*common, "-o", tmp_path / "no.sfm", *wrong)
        assert refused.exit_code == 2
        assert "--bandwidth-metres M together with --latitude LAT" in plain(refused.stderr)
    swapped = run(
        *common, "-o", tmp_path / "no.sfm", "--columns", "lat,lon", "--bandwidth-metres", "5", "--latitude", "5"
    )
    assert "longitude comes first" in plain(swapped.stderr)


@pytest.fixture
def gridded(run: Run, files: dict[str, Path], tmp_path: Path) -> Path:
    """A release by the grid, which counts sharply."""
    path = tmp_path / "grid.sfm"
    arguments = ("--bandwidth", "1", "--epsilon", "5", "--bounds", "-4,4", "--n-hint", "500", "--no-ledger", "--quiet")
    assert run("release", files["csv"], "-o", path, *arguments).exit_code == 0
    return path


def square(low: float, high: float, **properties: object) -> dict[str, object]:
    ring = [[low, low], [high, low], [high, high], [low, high], [low, low]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def test_sharp_counts_stand_beside_smoothed_ones(
    run: Run, gridded: Path, released: Path, files: dict[str, Path]
) -> None:
    """The interval of the smoothed count alone was taken for one of the people who are there."""
    points = np.load(files["npy"])
    truth = int(((points >= -1) & (points <= 0.5)).all(axis=1).sum())
    document = json.loads(run("people", gridded, "--region", "-1,0.5;-1,0.5", "--json").stdout)
    sharp = sharp_people(sfumato.load(gridded), [(-1, 0.5), (-1, 0.5)])
    assert document["sharp"]["value"] == pytest.approx(sharp.value)
    # The bracket holds the count for certain; noise of 6 standard errors moves its ends in one run of 1e6.
    assert sharp.low - 6 * sharp.low_std <= truth <= sharp.high + 6 * sharp.high_std
    text = run("people", gridded, "--region", "-1,0.5;-1,0.5").stdout
    assert "sharp" in text and "smoothed" in text
    refused = run("people", released, "--region", "-1,1;-1,1")
    assert "sums that belong to places" in " ".join(plain(refused.stdout).split())
    assert json.loads(run("people", released, "--region", "-1,1;-1,1", "--json").stdout)["sharp"] is None


def test_a_table_of_many_regions(run: Run, gridded: Path, tmp_path: Path) -> None:
    regions = tmp_path / "regions.geojson"
    features = [square(-2, 0, name="south-west", colour="red"), square(0, 2)]
    regions.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    table, drawn = tmp_path / "table.csv", tmp_path / "table.geojson"
    result = run("people", gridded, "--region", regions, "-o", table)
    assert result.exit_code == 0, result.output
    assert "2 regions" in result.stdout
    rows = list(csv.DictReader(table.open()))
    assert [row["region"] for row in rows] == ["south-west", "2"]
    sharp = sharp_people(sfumato.load(gridded), [(-2, 0), (-2, 0)])
    assert float(rows[0]["sharp_lower"]) == pytest.approx(sharp.lower, rel=1e-3, abs=0.5)
    assert run("people", gridded, "--region", regions, "-o", drawn, "--as", "shares").exit_code == 0
    document = json.loads(drawn.read_text())
    first = document["features"][0]
    assert first["geometry"] == features[0]["geometry"]
    assert first["properties"]["colour"] == "red"
    assert 0 < first["properties"]["smoothed"] < 1
    assert "epsilon = 5" in document["guarantee"][0] and document["quantity"] == "shares"
    assert "GeoJSON" in plain(run("people", gridded, "--region", "0,1;0,1", "-o", tmp_path / "a.csv").stderr)


def test_differences_say_whether_they_are_of_shares_or_counts(
    run: Run, gridded: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    """Twice the people, with the same shares everywhere: more of them by one measure, no change by the other."""
    double = tmp_path / "double.npy"
    np.save(double, np.tile(np.load(files["npy"]), (2, 1)))
    more = tmp_path / "more.sfm"
    arguments = ("--bandwidth", "1", "--epsilon", "5", "--bounds", "-4,4", "--n-hint", "1000", "--no-ledger", "--quiet")
    assert run("release", double, "-o", more, *arguments).exit_code == 0
    region = ("--region", "-2,2;-2,2")
    found = {
        what: json.loads(run("people", more, "--minus", gridded, *region, "--as", what, "--json").stdout)
        for what in ("counts", "shares")
    }
    assert found["counts"]["quantity"] == "difference of counts" and found["counts"]["people"]["lower"] > 100
    assert abs(found["shares"]["people"]["value"]) < 0.1
    for what, words in (("counts", "difference of counts"), ("shares", "difference of shares")):
        page = tmp_path / f"{what}.html"
        result = run("map", more, "--minus", gridded, "-o", page, *HERE, "--as", what)
        assert result.exit_code == 0, result.output
        assert f"of {what}" in result.stdout
        assert words in page.read_text()


def test_one_pair_is_the_extent_of_all_columns(run: Run, released: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    result = run("map", released, "-o", path, "--extent", "-3,3", "--size", "4")
    assert result.exit_code == 0, result.output
    assert len(list(csv.DictReader(path.open()))) == 16


def test_a_comparison_reports_the_noise_of_the_private_map(
    run: Run, released: Path, files: dict[str, Path], target: Path
) -> None:
    """It reported that of the exact density, which has none."""
    alone = json.loads(run("map", released, "-o", target, *HERE, "--json").stdout)["noise_share"]
    compared = run("map", released, "-o", target, *HERE, "--compare", files["csv"], "--force", "--json")
    assert json.loads(compared.stdout)["noise_share"] == alone > 0


def test_a_category_stands_at_one_of_its_values(run: Run, tmp_path: Path) -> None:
    rows = ["x,town"] + [f"{index % 7 / 7},{'north' if index % 3 else 'south'}" for index in range(600)]
    (tmp_path / "towns.csv").write_text("\n".join(rows))
    made = (
        sfumato.PrivateKDE(bandwidth=0.3, epsilon=5, n_hint=600, bounds=(0, 1), categories={"town": ["north", "south"]})
        .fit(tmp_path / "towns.csv")
        .release_
    )
    made.save(tmp_path / "towns.sfm")
    heights = {}
    for town in ("north", "south"):
        path = tmp_path / f"{town}.csv"
        result = run("map", tmp_path / "towns.sfm", "-o", path, "--columns", "x", "--at", f"town={town}", "--size", "5")
        assert result.exit_code == 0, result.output
        heights[town] = sum(float(row["value"]) for row in csv.DictReader(path.open()))
    assert heights["north"] > 1.3 * heights["south"] > 0
    wrong = run("map", tmp_path / "towns.sfm", "-o", tmp_path / "a.csv", "--columns", "x", "--at", "town=west")
    assert "north, south" in plain(wrong.stderr)
    drawn = run("map", tmp_path / "towns.sfm", "-o", tmp_path / "a.csv", "--columns", "x,town")
    assert "is a category" in plain(drawn.stderr)


def test_lines_are_drawn_over_maps_and_nothing_else_of_their_file(run: Run, released: Path, tmp_path: Path) -> None:
    coast = tmp_path / "coast.geojson"
    line = {"type": "LineString", "coordinates": [[-2, -2], [0, 1], [2, 2]]}
    coast.write_text(json.dumps({"type": "Feature", "properties": {"secret": "</script>"}, "geometry": line}))
    for kind in ("html", "png", "svg"):
        path = tmp_path / f"map.{kind}"
        result = run("map", released, "-o", path, *HERE, "--overlay", coast, "--log")
        assert result.exit_code == 0, result.output
        assert b"secret" not in path.read_bytes()
    endless = run("map", released, "-o", tmp_path / "b.png", *HERE, "--overlay", "/dev/zero")
    assert endless.exit_code == 2 and "that are read; pass a GeoJSON file" in plain(endless.stderr)
    refused = run("map", released, "-o", tmp_path / "a.csv", *HERE, "--overlay", coast)
    assert refused.exit_code == 2 and "--overlay" in plain(refused.stderr)
