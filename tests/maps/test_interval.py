"""Simultaneous bands hold whole curves at their rate, for every kind of release."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from sfumato import PrivateDistance, PrivateKDE, Release
from sfumato.maps import evaluate
from sfumato.maps import interval as band
from sfumato.privacy.laws import NoiseLaw, ReportNoise, SummedNoise
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.quantizers import base

from .conftest import BOUNDS, noisy_copies

WIDE = DiscreteLaplace(Fraction(1, 10))

FALSE_ALARM = 1e-6


def test_the_band_of_a_grid_holds_the_whole_curve_at_its_rate(curve: Release, points: np.ndarray) -> None:
    field = evaluate(curve, size=64)
    assert field.band is not None
    assert "simulated" in str(field.band)
    # Against the mean over the noise, so that the approximation's bias does not widen the band for it.
    ages, copies = points[:, :1], 500
    sums = np.zeros(curve.reader.size, dtype=np.int64)
    curve.reader.accumulate(ages, sums)
    centre = curve.reader.weigh(field.queries, sums.astype(float)).total / curve.count.value
    held = sum(
        bool((np.abs(copy.query(field.queries) - centre) <= field.band.multiplier * field.errors).all())
        for copy in noisy_copies(curve, ages, copies)
    )
    # The multiplier itself comes from 1,000 draws, and the band also holds bias and count: at least 93 %, not 99.9 %.
    assert binom.ppf(FALSE_ALARM, copies, 0.93) <= held <= binom.ppf(1 - FALSE_ALARM, copies, 0.995)


def test_the_band_of_fourier_releases_holds_the_exact_curve_at_its_rate(points: np.ndarray) -> None:
    ages, held, copies = points[:1500, :1], 0, 100
    for seed in range(copies):
        model = PrivateKDE(
            bandwidth=0.6, epsilon=1, n_hint=1500, bounds=BOUNDS[0], method="fourier", feature_seed=seed,
            random_state=seed, options={"n_features": 100},
        )  # fmt: skip
        release = model.fit(ages).release_
        field = evaluate(release, size=32)
        assert field.band is not None
        truth = release.kernel.exact_density(ages, field.queries)
        held += bool((np.abs(field.values - truth) <= field.band.multiplier * field.errors).all())
    assert held >= binom.ppf(FALSE_ALARM, copies, 0.95)
    assert held < copies or field.band.multiplier < 3.5


def test_it_lies_between_one_point_and_the_union_bound(curve: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = evaluate(curve, size=64).band
    assert simulated is not None
    monkeypatch.setattr(base, "MOST_DRAWN", 1)
    union = evaluate(curve, size=64).band
    assert union is not None
    assert "union bound over 64 points" in str(union)
    assert 2.2 < simulated.multiplier < union.multiplier < 6


def test_a_difference_has_a_band_and_a_map_has_none(curve: Release, release: Release) -> None:
    difference = evaluate(curve, minus=curve, size=16)
    assert difference.band is not None
    assert difference.band.multiplier > 2
    assert evaluate(release, size=4).band is None


@pytest.mark.parametrize(
    "noise", [ReportNoise(4.0), SummedNoise((ReportNoise(2.0), DiscreteGaussian(2))), SummedNoise((WIDE,) * 1000)]
)
def test_noise_that_is_not_drawn_again_has_the_union_bound(curve: Release, noise: NoiseLaw) -> None:
    found = evaluate(replace(curve, noise=noise), size=64).band
    assert found is not None and found.how == "union bound over 64 points"


def test_the_count_of_a_file_from_others_may_have_no_variance(curve: Release) -> None:
    """With the sign of the zero that JSON keeps, which no normal law takes for its scale."""
    exact = replace(curve, count=replace(curve.count, variance=-0.0))
    assert np.isfinite(evaluate(exact, size=16).cutoff)


@pytest.mark.parametrize("columns", [1, 2])
def test_answers_without_fixed_weights_are_drawn(columns: int) -> None:
    points = np.random.default_rng(0).uniform(size=(1000, columns))
    method: dict[str, Any] = {"method": "sqeuclidean-published", "epsilon": 1, "bounds": (0, 1), "n_hint": 1000}
    drawn = evaluate(PrivateDistance("sqeuclidean", **method).fit(points).release_, size=8)
    assert np.isfinite(drawn.values).all() and drawn.cutoff > 3


def test_more_sure_is_wider(curve: Release) -> None:
    field = evaluate(curve, size=16)
    wide = band.simultaneous_band((curve,), field.queries, [field.values], field.errors, level=0.99)
    assert field.band is not None
    assert wide.multiplier > field.band.multiplier
