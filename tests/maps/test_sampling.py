"""Synthetic points follow the released density."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from sfumato import InputError, PrivateKDE, Release
from sfumato.kernels import Gaussian
from sfumato.maps import evaluate, sample
from sfumato.maps.sampling import nearest_density, quality

from .conftest import BANDWIDTH, BOUNDS, noisy_copies, release_of


def test_histograms_of_drawn_points_are_near_the_density(release: Release) -> None:
    count, size = 40_000, 20
    drawn = sample(release, count, random_state=4)
    field = evaluate(release, size=size)
    edges = [axis.edges for axis in field.axes]
    histogram = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=edges)[0].T / count
    expected = np.maximum(field.values, 0) / np.maximum(field.values, 0).sum()
    # Cells hold up to 2 % of the points, known to 0.07 %; averaging over a cell and cutting noise off change less.
    assert np.abs(histogram - expected).max() < 0.006
    assert np.corrcoef(histogram.ravel(), expected.ravel())[0, 1] > 0.99


def test_drawn_points_have_the_moments_of_the_smoothed_data(release: Release, points: np.ndarray) -> None:
    drawn = sample(release, 40_000, random_state=5)
    # A Gaussian bump exp(-|x - y|^2 / s^2) has variance s^2 / 2 in each column.
    assert drawn.mean(axis=0) == pytest.approx(points.mean(axis=0), abs=0.15)
    assert drawn.var(axis=0) == pytest.approx(points.var(axis=0) + np.square(BANDWIDTH) / 2, rel=0.1)


def test_one_column_passes_a_test_against_its_density(points: np.ndarray) -> None:
    rows = points[:, :1]
    made = release_of(rows, ("age",), bandwidth=0.6, bounds=BOUNDS[0], epsilon=100)
    smooth = np.sort(np.random.default_rng(1).choice(rows[:, 0], 200_000))
    smooth += np.random.default_rng(2).normal(scale=0.6 / np.sqrt(2), size=len(smooth))
    smooth = smooth[np.abs(smooth) < 4]
    drawn = sample(made, 5_000, random_state=3)[:, 0]
    assert kstest(drawn, smooth).pvalue > 1e-6


@pytest.mark.once
def test_three_columns_stay_in_the_box_and_repeat_with_the_seed() -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    made = release_of(rows, None, bandwidth=1.0, bounds=(-3, 3), epsilon=20)
    drawn = sample(made, 500, random_state=7)
    assert drawn.shape == (500, 3)
    assert np.abs(drawn).max() <= 3
    assert np.array_equal(drawn, sample(made, 500, random_state=7))
    assert not np.array_equal(drawn, sample(made, 500))
    part = sample(made, 200, extent=[(0, 1), (-1, 0), (0, 3)])
    assert part.min(axis=0).tolist() >= [0, -1, 0]
    assert (part.max(axis=0) <= [1, 0, 3]).all()


def test_noise_is_cut_off_better_than_by_dropping_negative_values(points: np.ndarray) -> None:
    """On average over the noise, since a single map may go either way.

    The differences that are asserted are 0.030 +- 0.025 and 0.017 +- 0.007 a draw: over 40, 7 and 15 deviations.
    """
    made = release_of(points, epsilon="1/20", random_state=1)
    queries = evaluate(made, size=40).queries
    exact = made.kernel.exact_density(points, queries)
    truth = exact / exact.sum()
    empty, found = truth < 1e-5, []
    for noisy in noisy_copies(made, points, 40):
        values = noisy.query(queries)
        both = np.stack([nearest_density(values), np.maximum(values, 0) / np.maximum(values, 0).sum()])
        found.append([np.abs(both - truth).sum(axis=1), both[:, empty].sum(axis=1)])
    (nearest, cut), (nearest_empty, cut_empty) = np.mean(found, axis=0)
    assert nearest < 0.95 * cut
    assert nearest_empty < 0.9 * cut_empty


@pytest.mark.once
@pytest.mark.parametrize("values", [[3.0, 2.0, -1.0], [1.0, 0.0, 0.0], [0.5, 0.4, 0.3, -0.2], [1e-9, 2e-9]])
def test_the_nearest_density_is_the_projection_on_the_simplex(values: list[float]) -> None:
    noisy = np.array(values)
    masses, total = nearest_density(noisy), noisy.sum()
    assert masses.min() >= 0
    assert masses.sum() == pytest.approx(1)
    # The projection is where no feasible direction points downhill: the slack is equal on the support, larger off it.
    slack = masses * total - noisy
    level = slack[masses > 0]
    assert np.allclose(level, level[0])
    assert (slack >= level[0] - 1e-12).all()


@pytest.mark.once
@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        (2, {"count": 0}, "positive whole number"),
        (2, {"extent": (0, 1e5)}, "too many"),
        (2, {"extent": [(0, 1)] * 3}, "drawn columns"),
    ],
)
def test_what_cannot_be_drawn_is_refused(columns: int, arguments: dict[str, Any], message: str) -> None:
    rows = np.random.default_rng(0).normal(size=(500, columns))
    model = PrivateKDE(Gaussian(1.0), epsilon=1, n_hint=500, bounds=(-3, 3), method="fourier")
    with pytest.raises(InputError, match=message):
        sample(model.fit(rows).release_, **{"count": 10, **arguments})


@pytest.mark.once
def test_nothing_but_noise_and_no_kernel_are_refused(release: Release) -> None:
    with pytest.raises(InputError, match="nothing but noise"):
        nearest_density(np.array([-1.0, 0.5]))
    with pytest.raises(InputError, match="kernel"):
        sample(replace(release, kernel=None), 5)


@pytest.mark.once
def test_releases_and_estimators_draw_themselves(release: Release, points: np.ndarray) -> None:
    assert np.array_equal(release.sample(5, random_state=1), sample(release, 5, random_state=1))
    model = PrivateKDE(bandwidth=0.6, epsilon=5, n_hint=4000, bounds=(-4, 20)).fit(points)
    assert np.array_equal(model.sample(5, random_state=2), model.release_.sample(5, random_state=2))


def test_points_of_many_columns_follow_the_release(many: Release) -> None:
    drawn = many.sample(1500, random_state=3)
    assert drawn.shape == (1500, 5)
    # Two groups of the same size at 0 and 3 in every column, spread by 1 and by the kernel.
    middle = drawn.mean(axis=1)
    assert np.allclose(drawn.mean(axis=0), 1.5, atol=0.5)
    assert 0.25 < (middle > 1.5).mean() < 0.75
    found = quality(many, drawn)
    assert found.shown > 0.93
    assert found.misfit < 0.6
    uniform = np.random.default_rng(0).uniform(-5, 8, size=(1500, 5))
    assert quality(many, uniform).shown < found.shown


def test_where_nobody_is_found_public_points_are_asked_for() -> None:
    far = release_of(np.full((4000, 6), 90.0), None, bandwidth=1.0, bounds=(-100, 100), method="fourier", epsilon=20)
    with pytest.raises(InputError, match="start="):
        far.sample(10, random_state=0)
    near = np.random.default_rng(1).normal(90, 0.3, size=(200, 6))
    assert np.allclose(far.sample(50, start=near, random_state=0).mean(axis=0), 90, atol=1)
