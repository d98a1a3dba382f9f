"""Sharp counts: brackets that hold for any records, intervals that hold the true count, and what is refused."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path
from scipy.stats import binom

from sfumato import InputError, Release
from sfumato.kernels import Gaussian
from sfumato.maps import Bracket, brackets, people, sharp_people
from sfumato.maps.brackets import Laid
from sfumato.maps.interval import deviations
from sfumato.published.histogram import HistogramQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.grid import GridQuantizer

from .conftest import noisy_copies, release_of

FALSE_ALARM = 1e-6
TRIANGLE = {"type": "Polygon", "coordinates": [[[-3.1, 1.0], [1.3, 8.2], [-1.0, 14.0]]]}
HOLE = {
    "type": "Polygon",
    "coordinates": [
        [[-3.0, 2.0], [1.0, 2.0], [1.0, 17.0], [-3.0, 17.0]],
        [[-2.0, 5.0], [-1.0, 5.0], [-1.0, 8.0], [-2.0, 8.0]],
    ],
}
PARTS = {"type": "MultiPolygon", "coordinates": [[[[-3, 3], [0, 3], [0, 9]]], [[[-1.0, 12], [9, 12], [9, 30]]]]}
BOX = [(-2.0, 0.0), (4.0, 9.0)]
ALL = [(-4.0, 4.0), (0.0, 20.0)]
REGIONS = {
    "box": BOX,
    "all": ALL,
    "beyond": [(-9.0, -1.2), (5.0, 99.0)],
    "triangle": TRIANGLE,
    "hole": HOLE,
    "parts": PARTS,
}


@pytest.fixture
def laid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a release share their grid, on which a region needs to be laid only once."""
    lay, known = Laid.on, {}
    monkeypatch.setattr(
        Laid, "on", lambda grid, region: known.setdefault((id(grid), repr(region)), None) or keep(grid, region)
    )

    def keep(grid: GridQuantizer, region: Any) -> Laid | None:
        known[id(grid), repr(region)] = lay(grid, region)
        return known[id(grid), repr(region)]


def held(region: Any, points: np.ndarray) -> np.ndarray:
    """Which points a region holds."""
    if not isinstance(region, dict):
        low, high = np.array(region).T
        return np.asarray(((points >= low) & (points <= high)).all(axis=1))
    polygons = region["coordinates"] if region["type"] == "MultiPolygon" else [region["coordinates"]]
    rings = [ring for polygon in polygons for ring in polygon]
    return np.asarray(sum(Path(ring).contains_points(points).astype(int) for ring in rings) % 2 == 1)


def on_the_edge(region: Any, count: int = 400, seed: int = 0) -> np.ndarray:
    """Points just inside and just outside the edges, where a bracket fails first, and anywhere."""
    random = np.random.default_rng(seed)
    if isinstance(region, dict):
        polygons = region["coordinates"] if region["type"] == "MultiPolygon" else [region["coordinates"]]
        rings = [np.array(ring, dtype=float) for polygon in polygons for ring in polygon]
    else:
        (a, b), (c, d) = region
        rings = [np.array([[a, c], [b, c], [b, d], [a, d]])]
    starts, ends = np.concatenate(rings), np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    which, along = random.integers(0, len(starts), size=count), random.random((count, 1))
    close = starts[which] + along * (ends - starts)[which]
    close = close + random.normal(size=(count, 2)) * 10.0 ** random.uniform(-9, -0.5, size=(count, 1))
    return np.clip(np.vstack([close, random.uniform([-4, 0], [4, 20], size=(count, 2))]), [-4, 0], [4, 20])


@pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS.keys())
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_no_record_leaves_the_bracket(region: Any, degree: int) -> None:
    """For every record alone: below its indicator, above it, with the integers that it would really add."""
    make = HistogramQuantizer if degree == 0 else GridQuantizer
    grid = make(Gaussian((0.6, 1.5)), Box((-4.0, 0.0), (4.0, 20.0)), spacing=0.7, degree=degree)
    laid = Laid.on(grid, region)
    assert laid is not None
    points = on_the_edge(region)
    encoded = grid.encode(points).reshape(-1, *grid.shape)[(slice(None), *laid.window)] / grid.scale
    inside = held(region, points)
    above, below = (np.tensordot(encoded, part, axes=2) for part in (laid.above, laid.below))
    assert (above >= inside - 1e-9).all()
    assert (below <= inside + 1e-9).all()


@pytest.mark.usefixtures("laid_once")
@pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS.keys())
def test_intervals_hold_the_true_count_at_their_rate(release: Release, points: np.ndarray, region: Any) -> None:
    truth, copies = int(held(region, np.clip(points, [-4, 0], [4, 20])).sum()), 60
    found = [sharp_people(copy, region) for copy in noisy_copies(release, points, copies)]
    assert sum(one.lower <= truth <= one.upper for one in found) >= binom.ppf(FALSE_ALARM, copies, 0.95)
    # A smooth crowd is met by the estimate itself, but for noise; 6 standard errors of a mean, and 1 % at the edge.
    middle = float(np.mean([one.value for one in found]))
    assert abs(middle - truth) < 6 * found[0].std / math.sqrt(copies) + 0.01 * len(points)


@pytest.mark.parametrize("inside", [True, False])
def test_a_crowd_on_the_edge_is_held_too(inside: bool) -> None:
    """Everybody within a hundredth of a bandwidth of one side: the smoothed count says half, the interval knows."""
    random, shift = np.random.default_rng(2), -0.003 if inside else 0.003
    crowd = np.column_stack([np.full(4000, 0.0 + shift), random.uniform(5, 8, size=4000)])
    made = release_of(crowd)
    found, truth = sharp_people(made, BOX), 4000 if inside else 0
    assert found.lower < truth < found.upper
    smooth = people(made, BOX)
    assert not smooth.lower <= truth <= smooth.upper


@pytest.mark.usefixtures("laid_once")
def test_the_noise_is_the_stated_one(release: Release, points: np.ndarray) -> None:
    found = [sharp_people(copy, BOX) for copy in noisy_copies(release, points, 150)]
    for name, stated in (("value", "std"), ("low", "low_std"), ("high", "high_std")):
        spread = np.std([getattr(one, name) for one in found])
        # The standard deviation of 150 numbers is within 30 % of its expectation but for one run in 1e6.
        assert 0.7 < spread / getattr(found[0], stated) < 1.3


def test_the_programme_is_tighter_than_the_plain_bracket(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    tight = sharp_people(release, TRIANGLE)
    monkeypatch.setattr("sfumato.maps.brackets.MOST_CONDITIONS", 0)
    plain = sharp_people(release, TRIANGLE)
    assert tight.edge < 0.6 * plain.edge
    assert tight.value == pytest.approx(plain.value)


def test_polygons_are_counted_as_boxes_are(release: Release) -> None:
    (a, b), (c, d) = BOX
    ring = {"type": "Polygon", "coordinates": [[[a, c], [b, c], [b, d], [a, d], [a, c]]]}
    box, polygon = sharp_people(release, BOX), sharp_people(release, ring)
    assert polygon.value == pytest.approx(box.value, rel=0.01)
    assert (polygon.low, polygon.high) == pytest.approx((box.low, box.high), rel=1e-3)


def test_one_and_three_columns_and_columns_of_one_node() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(3000, 3))
    for columns, region in ((1, [(-0.5, 9.0)]), (3, [(-0.5, 9.0), (-1.0, 1.0), (-9.0, 0.0)])):
        made = release_of(rows[:, :columns], None, bandwidth=1.0, bounds=(-3, 3), method="grid")
        found = sharp_people(made, region)
        assert found.lower < held(region, np.clip(rows[:, :columns], -3, 3)).sum() < found.upper
        assert columns == 3 or found.upper - found.lower < 1500
    narrow = release_of(rows[:, :2], None, bandwidth=[1.0, 50.0], bounds=(-3, 3), method="grid")
    assert sharp_people(narrow, [(0, 9), (-9, 9)]).edge < 1500
    unknown = sharp_people(narrow, [(-9, 9), (0, 9)])
    assert unknown.lower < 100 and unknown.upper > 2900


def test_a_long_column_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = GridQuantizer(Gaussian(1.0), Box((0.0,), (10_000.0,)), spacing=0.5)
    records = np.random.default_rng(1).uniform(0, 10_000, size=(2000, 1))
    encoded = grid.encode(records).sum(axis=0) / grid.scale
    tracemalloc.start()
    laid = Laid.on(grid, [(2000.0, 7000.0)])
    assert laid is not None
    below, fitted, above = (float(part @ encoded[laid.window]) for part in (laid.below, laid.fitted, laid.above))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    inside = int(((records > 2000) & (records < 7000)).sum())
    assert below <= inside <= above and abs(fitted - inside) < 2
    assert peak < 2**26  # a matrix of all cells would take 3 GB
    monkeypatch.setattr(brackets, "MOST_CELLS", 5000)
    with pytest.raises(InputError, match="smaller region, or take the smoothed count"):
        Laid.on(grid, [(2000.0, 7000.0)])


def test_nothing_of_the_bounds_is_nobody(release: Release) -> None:
    assert sharp_people(release, [(5, 6), (0, 1)]).upper == 0
    assert sharp_people(release, {"type": "Polygon", "coordinates": [[[50, 0], [51, 0], [51, 1]]]}).value == 0


def test_noise_alone_ends_no_interval_before_it_begins() -> None:
    """Where nothing lies surely within a region the lower sum is no sum, and the upper one may be noise far below."""
    nobody = Bracket(0.0, 3.0, 0.0, -60.0, 0.0, 20.0)
    assert nobody.lower == nobody.upper == 0.0
    assert Bracket(10.0, 3.0, 8.0, 12.0, 1.0, 1.0).upper == 12.0 + deviations(0.95) * 1.0


def test_differences_add_both_edges() -> None:
    first, second = Bracket(100, 3, 80, 120, 3, 3), Bracket(60, 4, 55, 65, 4, 4)
    change = first - second
    assert (change.value, change.std, change.low, change.high) == (40, 5, 15, 65)
    assert change.lower == pytest.approx(15 - 5 * deviations())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "fourier"}, "sums that belong to places"),
        ({"method": "lattice", "delta": 1e-6}, "sums that belong to places"),
        ({"method": "grid", "options": {"buckets": 64}}, "hashed into buckets"),
    ],
)
def test_releases_that_cannot_count_sharply(points: np.ndarray, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sharp_people(release_of(points, **arguments), BOX)


def test_regions_and_levels_that_cannot_be(release: Release, curve: Release, many: Release) -> None:
    with pytest.raises(InputError, match="two columns"):
        sharp_people(curve, TRIANGLE)
    with pytest.raises(InputError, match="level"):
        sharp_people(release, BOX, level=95)
    wide = release_of(np.zeros((4000, 4)), None, bandwidth=1.0, bounds=(-1, 1), method="grid")
    with pytest.raises(InputError, match="at most 3 columns|hashed"):
        sharp_people(wide, [(0, 1)] * 4)
