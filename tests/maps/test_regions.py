"""People in regions: what is estimated, how sure, and differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import binom

from sfumato import InputError, Release
from sfumato.maps import Estimate, people, regions
from sfumato.maps.interval import deviations
from sfumato.maps.quadrature import quadrature
from tests.work import counted_calls

from .conftest import BANDWIDTH, make_points, noisy_copies, release_of

FALSE_ALARM = 1e-6
REGION = [(-2.0, 0.0), (4.0, 9.0)]


def smoothed(points: np.ndarray, region: Any, bandwidth: Any = BANDWIDTH) -> float:
    """Exact smoothed people of a Gaussian kernel exp(-|x - y|^2 / s^2) in a box."""
    shares = np.ones(len(points))
    for column, ((low, high), length) in enumerate(zip(region, bandwidth, strict=True)):
        places = points[:, column]
        shares *= (erf((high - places) / length) - erf((low - places) / length)) / 2
    return float(shares.sum())


def square(low: float, high: float) -> list[list[float]]:
    return [[low, low], [high, low], [high, high], [low, high], [low, low]]


@pytest.mark.parametrize("region", [REGION, [(-4.0, 4.0), (0.0, 20.0)]], ids=["part", "all"])
def test_intervals_of_grids_hold_the_smoothed_number_at_their_rate(
    release: Release, points: np.ndarray, region: Any
) -> None:
    truth, copies = smoothed(points, region), 150
    estimates = [people(copy, region) for copy in noisy_copies(release, points, copies)]
    held = sum(estimate.lower <= truth <= estimate.upper for estimate in estimates)
    assert held >= binom.ppf(FALSE_ALARM, copies, 0.95)
    errors = np.array([estimate.value for estimate in estimates]) - truth
    typical = math.sqrt(float((errors**2).mean()))
    # The root mean square of 150 errors is within 30 % of its expectation but for one run in 1e6.
    assert 0.6 < typical / estimates[0].std < 1.3


@pytest.mark.parametrize("region", [REGION, [(-4.0, 4.0), (0.0, 20.0)]], ids=["part", "all"])
@pytest.mark.parametrize("method", ["fourier", "lsq-rff"])
def test_intervals_of_random_features_hold_it_too(points: np.ndarray, region: Any, method: str) -> None:
    truth, copies, held = smoothed(points[:2000], region), 80, 0
    for seed in range(copies):
        made = release_of(
            points[:2000], method=method, n_hint=2000, feature_seed=seed, random_state=seed,
            options={"n_features": 200},
        )  # fmt: skip
        estimate = people(made, region)
        held += estimate.lower <= truth <= estimate.upper
    assert held >= binom.ppf(FALSE_ALARM, copies, 0.95)


def test_answers_share_their_noise_so_variances_are_not_added(release: Release) -> None:
    nodes, weights = quadrature(REGION, release.kernel.column_scales(2))
    _, errors = release.query(nodes, return_std=True)
    volume = math.exp(release.kernel.log_integral(2))
    as_if_independent = release.count.value * math.sqrt(float((weights**2) @ errors**2)) / volume
    assert people(release, REGION).std > 2 * as_if_independent


def test_polygons_agree_with_boxes_and_holes_are_cut_out(release: Release) -> None:
    box = people(release, [(-2.0, 1.0), (-2.0, 1.0)])
    outer = people(release, {"type": "Polygon", "coordinates": [square(-2.0, 1.0)]})
    assert outer.value == pytest.approx(box.value, rel=1e-4)
    assert outer.std == pytest.approx(box.std, rel=1e-3)
    hole = {"type": "Polygon", "coordinates": [square(-2.0, 1.0), square(-1.0, 0.0)[::-1]]}
    inner = people(release, {"type": "Polygon", "coordinates": [square(-1.0, 0.0)]})
    assert people(release, hole).value == pytest.approx(outer.value - inner.value, rel=1e-4, abs=1e-3)


def test_features_and_several_parts_add_up(release: Release) -> None:
    parts = [square(-2.0, -1.0), square(0.0, 1.5)]
    apart = [people(release, {"type": "Polygon", "coordinates": [part]}).value for part in parts]
    together = {"type": "MultiPolygon", "coordinates": [[part] for part in parts]}
    features = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [part]}} for part in parts],
    }
    assert people(release, together).value == pytest.approx(sum(apart), rel=1e-9)
    assert people(release, features).value == pytest.approx(sum(apart), rel=1e-9)


def test_a_triangle_is_integrated_exactly() -> None:
    triangle = {"type": "Polygon", "coordinates": [[[0, 0], [4, 1], [1, 3]]]}
    nodes, weights = quadrature(triangle, np.array([0.5, 0.7]))
    assert weights.sum() == pytest.approx(5.5, rel=1e-12)
    assert weights @ nodes / weights.sum() == pytest.approx([5 / 3, 4 / 3], rel=1e-12)


def test_a_difference_has_the_added_variance(release: Release, noisy: Release) -> None:
    first, second = people(release, REGION), people(noisy, REGION)
    difference = first - second
    assert difference.value == pytest.approx(first.value - second.value)
    assert difference.std == pytest.approx(math.hypot(first.std, second.std))
    assert difference.upper - difference.lower == pytest.approx(2 * deviations() * difference.std)


def test_a_change_of_people_is_found(points: np.ndarray, release: Release) -> None:
    more = np.vstack([points, make_points(3000, seed=9)])
    change = people(release_of(more), REGION) - people(release, REGION)
    truth = smoothed(more, REGION) - smoothed(points, REGION)
    # Six standard errors: one run in 1e6 even for noise with the tails of a Laplace variable.
    assert abs(change.value - truth) < 10 * change.std
    assert change.lower > 0


def test_one_column_is_counted_as_well(curve: Release, points: np.ndarray) -> None:
    estimate = people(curve, [(-2.0, 0.0)])
    truth = smoothed(points[:, :1], [(-2.0, 0.0)], [0.6])
    assert abs(estimate.value - truth) < 10 * estimate.std
    assert estimate.std < 0.2 * truth


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ([(0, 1)], "1 columns but the points have 2"),
        ([(1, 0), (0, 1)], "lower < upper"),
        ({"type": "Point", "coordinates": [0, 0]}, "Polygon"),
        ({"type": "Polygon"}, "lacks its parts"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}, "three or more corners"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, "a"]]]}, "finite numbers"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 10**400]]]}, "finite numbers"),
        ({"type": "FeatureCollection", "features": []}, "no polygon"),
        ([(0, 1e6), (0, 1e6)], "so many bandwidths"),
    ],
)
def test_regions_that_cannot_be_are_refused(release: Release, region: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        people(release, region)


def test_sides_of_too_many_nodes_are_refused_before_they_are_made(
    curve: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "sides_of", lambda box, lengths: pytest.fail("the nodes were made"))
    with pytest.raises(InputError, match="so many bandwidths.*4,000,000 are the most"):
        people(curve, [(0, 1e7)])


def test_polygons_need_two_columns_and_counting_a_kernel(curve: Release, release: Release) -> None:
    with pytest.raises(InputError, match="two columns"):
        people(curve, {"type": "Polygon", "coordinates": [square(0.0, 1.0)]})
    with pytest.raises(InputError, match="kernel"):
        people(replace(release, kernel=None), REGION)


def test_estimates_print_and_check_their_level() -> None:
    assert str(Estimate(1234.4, 10.0, 0.99)) == "1,234 +- 10 (99 %: 1,202 to 1,267)"
    with pytest.raises(InputError, match="level"):
        _ = Estimate(1.0, 1.0, 95).lower


def test_a_tall_region_takes_few_calls() -> None:
    """A loop over its 100,000 lines took ten seconds; that the nodes are the right ones shows in the area."""
    tall = {"type": "Polygon", "coordinates": [[[2, 2], [3, 32768], [3, 3], [2, 2]]]}
    with counted_calls() as calls:
        nodes, weights = quadrature(tall, np.array([0.5, 0.5]))
    assert len(calls) < 2_000
    assert len(nodes) > 90_000 and weights.sum() == pytest.approx(32765 / 2)


@pytest.mark.parametrize("method", ["grid", "histogram", "lattice"])
def test_a_region_in_which_no_answer_is_positive_has_an_error(method: str) -> None:
    points, places = np.random.default_rng(0).normal(-3.0, 0.3, size=(2000, 2)), (2.0, 3.0, 4.0)
    settings: dict[str, Any] = {
        "bandwidth": 0.5,
        "n_hint": 2000,
        "bounds": (-5, 5),
        "feature_seed": 1,
        "random_state": 0,
    }
    settings |= {"delta": 1e-6} if method == "lattice" else {}
    made = release_of(points, method=method, epsilon=1, **settings)
    found = [people(made, [(a, a + 0.1), (b, b + 0.1)]) for a in places for b in places]
    assert min(estimate.value for estimate in found) < 0
    assert all(0 < estimate.std < math.inf for estimate in found)
