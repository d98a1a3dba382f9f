"""Grids: what is asked where, sections, differences, exact twins, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from sfumato import InputError, PrivateKDE, Release
from sfumato.maps import compare, evaluate
from sfumato.maps.interval import deviations
from sfumato.maps.views import column_names
from sfumato.release.release import Count

from .conftest import BOUNDS, make_points, noisy_copies, release_of


def test_every_cell_is_the_answer_at_its_centre(release: Release) -> None:
    field = evaluate(release, size=16)
    assert [axis.name for axis in field.axes] == ["east", "north"]
    assert field.values.shape == (16, 16)
    for row, column in [(0, 0), (3, 12), (15, 7)]:
        place = [[field.axes[0].centres[column], field.axes[1].centres[row]]]
        answer, error = release.query(place, return_std=True)
        assert field.values[row, column] == pytest.approx(answer[0], abs=1e-12)
        assert field.errors[row, column] == pytest.approx(error[0], rel=1e-9)
    assert (field.axes[1].lower, field.axes[1].upper) == BOUNDS[1]


def test_columns_that_at_leaves_are_drawn(release: Release, many: Release) -> None:
    rest = {"a": 1.0, "b": 1.0, "c": 2.0}
    drawn, named = evaluate(many, at=rest, size=4), evaluate(many, columns=["d", "e"], at=rest, size=4)
    assert [axis.name for axis in drawn.axes] == ["d", "e"]
    assert np.array_equal(drawn.values, named.values)
    first, second = column_names(release)
    assert [axis.name for axis in evaluate(release, at={first: 0.0}, size=4).axes] == [second]


def test_columns_can_be_swapped_and_parts_shown(release: Release) -> None:
    field = evaluate(release, columns=["north", "east"], extent=[(2, 8), (-2, 0)], size=8)
    assert [(axis.name, axis.lower, axis.upper) for axis in field.axes] == [("north", 2, 8), ("east", -2, 0)]
    place = [[field.axes[1].centres[5], field.axes[0].centres[2]]]
    assert field.values[5, 2] == pytest.approx(release.query(place)[0], abs=1e-12)


def test_a_section_fixes_the_other_columns(many: Release) -> None:
    field = evaluate(many, columns=["d", "a"], at={"b": 1, "c": 2, "e": 3}, size=8)
    place = [[field.axes[1].centres[6], 1, 2, field.axes[0].centres[1], 3]]
    assert field.values[6, 1] == pytest.approx(many.query(place)[0], abs=1e-9)
    assert field.caption.view == "at b = 1, c = 2, e = 3"
    curve = evaluate(many, columns=[2], at={"a": 0, "b": 0, "d": 0, "e": 0}, size=8)
    assert curve.values.shape == (8,)
    assert curve.band is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": None}, "has 5 .* pass columns="),
        ({"columns": ["a", "x"]}, "no column 'x'"),
        ({"columns": ["a", "a"], "at": {}}, "different columns"),
        ({"columns": list("abc")}, "one or two"),
        ({"columns": ["a", "b"], "at": {"c": 0, "d": 0}}, "column 'e' is not drawn"),
        ({"columns": ["a", "b"], "at": {"c": 0, "d": 0, "e": np.nan}}, "finite"),
        ({"columns": ["a", "b"], "at": {"a": 1, "c": 0, "d": 0, "e": 0}}, "'a' is not one of them"),
    ],
)
def test_sections_that_say_too_little_or_too_much_are_refused(
    many: Release, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(many, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 1}, "size"),
        ({"size": 10**6}, "size"),
        ({"extent": (1, 0)}, "lower < upper"),
        ({"extent": (0, np.inf)}, "finite"),
        ({"extent": [(0, 1)] * 3}, "2 drawn columns"),
        ({"extent": "wide"}, "pair"),
    ],
)
def test_extents_and_sizes_that_cannot_be_drawn_are_refused(
    release: Release, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(release, **arguments)


def test_a_box_that_nobody_declared_asks_for_an_extent(points: np.ndarray) -> None:
    boundless = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=4000).fit(points).release_
    with pytest.raises(InputError, match="bandwidths wide .* pass extent="):
        evaluate(boundless)
    assert evaluate(boundless, extent=(-4, 4), size=4).values.shape == (4, 4)


def test_a_difference_subtracts_answers_and_adds_variances(release: Release, noisy: Release) -> None:
    first, second, difference = (
        evaluate(release, size=8), evaluate(noisy, size=8), evaluate(release, minus=noisy, size=8),
    )  # fmt: skip
    assert difference.signed
    assert np.allclose(difference.values, first.values - second.values)
    assert np.allclose(difference.errors**2, first.errors**2 + second.errors**2)
    assert len(difference.caption.guarantees) == 2


@pytest.mark.parametrize(
    "other",
    [{"bandwidth": 0.7}, {"columns": ("x", "y")}, {"points": make_points()[:, :1], "bounds": (-4, 4), "bandwidth": 1}],
    ids=["bandwidth", "columns", "dimension"],
)
def test_releases_that_do_not_compare_are_refused(release: Release, points: np.ndarray, other: dict[str, Any]) -> None:
    columns = ("east", "north") if "points" not in other else ("east",)
    with pytest.raises(InputError, match="difference needs"):
        evaluate(release, minus=release_of(**{"points": points, "columns": columns, **other}), size=4)


def test_intervals_are_around_the_values(release: Release) -> None:
    field = evaluate(release, size=4)
    lower, upper = field.interval()
    assert np.allclose(upper - lower, 2 * deviations() * field.errors)
    assert np.allclose((upper + lower) / 2, field.values)


def test_noise_is_below_the_cutoff_and_negative_densities_are_noise(noisy: Release) -> None:
    field = evaluate(noisy, size=8)
    made = replace(field, values=np.array([[3.0, 1.0], [-1.0, -3.0]]), errors=np.ones((2, 2)), cutoff=2.0)
    assert made.below_noise.tolist() == [[False, True], [True, True]]
    assert replace(made, signed=True).below_noise.tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("matrix", [False, True], ids=["product", "matrix"])
@pytest.mark.parametrize("outside", ["clip", "drop"])
def test_the_exact_twin_is_the_kernel_sum_of_the_rows_that_the_release_kept(
    points: np.ndarray, matrix: bool, outside: str
) -> None:
    odd = np.vstack([points[:300], [[np.nan, 1.0]], [[-9.0, 6.0], [0.0, 40.0]]])
    bandwidth: Any = [[0.6, 0.2], [0.0, 1.5]] if matrix else (0.6, 1.5)
    settings: dict[str, Any] = {"method": "fourier", "options": {"n_features": 40, "outside": outside}, "n_hint": 300}
    made = release_of(odd, bandwidth=bandwidth, **settings)
    kept = points[:300] if outside == "drop" else np.clip(np.delete(odd, 300, axis=0), *np.array(BOUNDS).T)
    field = evaluate(made, size=6)
    exact, private, difference = compare(field, made, odd)
    expected = made.kernel.exact_density(kept, field.queries).reshape(6, 6)
    assert np.allclose(exact.values, expected, rtol=1e-12, atol=1e-14)
    assert np.array_equal(private.values, field.values)
    assert np.allclose(difference.values, field.values - expected)
    assert all(layer.caption.warning for layer in (exact, private, difference))


def test_a_section_has_an_exact_twin_too(many: Release) -> None:
    rows = np.random.default_rng(5).normal(size=(200, 5))
    field = evaluate(many, columns=["e", "b"], at={"a": 0.5, "c": 1, "d": 0}, size=5)
    exact, _, _ = compare(field, many, rows)
    assert np.allclose(exact.values.ravel(), many.kernel.exact_density(rows, field.queries), rtol=1e-12)
    curve = evaluate(many, columns=["c"], at={"a": 0.5, "b": 1, "d": 0, "e": 2}, size=5)
    exact, _, _ = compare(curve, many, rows)
    assert np.allclose(exact.values, many.kernel.exact_density(rows, curve.queries), rtol=1e-12)


def test_comparisons_that_make_no_sense_are_refused(release: Release, noisy: Release, points: np.ndarray) -> None:
    field = evaluate(release, size=4)
    with pytest.raises(InputError, match="columns"):
        compare(field, release, points[:, :1])
    with pytest.raises(InputError, match="difference"):
        compare(evaluate(release, minus=noisy, size=4), release, points)
    with pytest.raises(InputError, match="no rows"):
        compare(field, release, np.full((3, 2), np.nan))
    with pytest.raises(InputError, match="kernel"):
        compare(field, replace(release, kernel=None), points)


def test_empty_maps_show_no_islands(points: np.ndarray) -> None:
    """Of maps of nobody at most one in twenty may show anything; two standard errors showed islands in every one."""
    # Only the values are of nobody. Means need a count; that of nobody would make every error bar infinite.
    made = replace(release_of(points, epsilon=1, method="fourier"), count=Count(4000, 36.0, public=False))
    sizes = [evaluate(copy, size=32) for copy in noisy_copies(made, np.empty((0, 2)), 30)]
    islands = sum(not field.below_noise.all() for field in sizes)
    assert islands <= binom.isf(1e-6, 30, 0.05)
    assert sum(bool((field.values >= 2 * field.errors).any()) for field in sizes) > 25


def test_differences_of_counts_are_sums(release: Release, noisy: Release) -> None:
    field = evaluate(release, minus=noisy, quantity="counts", size=6)
    expected = release.total(field.queries) - noisy.total(field.queries)
    assert np.allclose(field.values.ravel(), expected)
    with pytest.raises(InputError, match="quantity"):
        evaluate(release, quantity="people", size=4)


def test_records_per_area_add_up_to_everybody(release: Release) -> None:
    field = evaluate(release, extent=[(-6, 6), (-5, 25)], size=120)
    area = np.prod([(axis.upper - axis.lower) / axis.cells for axis in field.axes])
    assert field.per_area is not None
    assert field.values.sum() * field.per_area * area == pytest.approx(release.count.value, rel=0.02)
