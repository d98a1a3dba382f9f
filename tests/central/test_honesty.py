"""Error bars in hard cases: coins that choose records, counts drowned in noise, boxes that nobody declared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Ledger, PrivateKDE
from sfumato.kernels import Gaussian
from sfumato.privacy.body import DiscNoise

QUERIES = np.linspace(-1, 1, 9)[:, None]


def _scores(**fit: Any) -> list[float]:
    """Mean squares of errors over error bars, of 40 releases of 40,000 points at a large epsilon."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40_000, 1))
    truth = Gaussian(1.0).exact_density(points, QUERIES)
    scores = []
    for seed in range(40):
        unit = {"unit": "user", "options": {"max_records_per_user": 1}} if "users" in fit else {}
        model = PrivateKDE(bandwidth=1.0, epsilon=20, bounds=(-6, 6), n_hint=10_000, random_state=seed, **unit)
        answers, bars = model.fit(points, **fit).query(QUERIES, return_std=True)
        scores.append(float((((answers - truth) / bars) ** 2).mean()))
    return scores


@pytest.mark.parametrize(
    "fit",
    [{"sample_weight": np.full(40_000, 0.5)}, {"users": np.arange(40_000) // 10}],
    ids=["weights", "users"],
)
def test_coins_are_in_the_error_bars(fit: dict[str, Any]) -> None:
    """Bars without the coins are several times too short; the bound A (1 - A) is honest and not absurdly wide."""
    scores = _scores(**fit)
    assert np.mean(scores) < 1 + 5 * np.std(scores) / np.sqrt(40)
    assert np.mean(scores) > 0.05


def test_a_count_that_is_noise_gives_no_error_bar() -> None:
    noisy = (
        PrivateKDE(bandwidth=1.0, epsilon="1/100", bounds=(-6, 6), n_hint=50, random_state=1)
        .fit(np.zeros((50, 1)))
        .release_
    )
    # As many as there are: noise alone makes a count of three deviations once in 140 runs.
    release = replace(noisy, count=replace(noisy.count, value=50))
    assert np.isinf(release.query(QUERIES, return_std=True)[1]).all()
    assert np.isfinite(release.total(QUERIES, return_std=True)[1]).all()


def test_queries_beyond_a_default_box_ask_for_bounds() -> None:
    stamps = 1.7e9 + np.random.default_rng(0).normal(size=(500, 1)) * 3600
    model = PrivateKDE(bandwidth=3600.0, epsilon=1, n_hint=500).fit(stamps)
    assert any("no bounds were given" in condition for condition in model.release_.guarantee.conditions)
    with pytest.raises(InputError, match="release again with bounds="):
        model.query(stamps)
    bounded = PrivateKDE(bandwidth=3600.0, epsilon=100, n_hint=500, bounds=(1.69e9, 1.71e9), method="fourier").fit(
        stamps
    )
    assert bounded.query([[1.7e9]])[0] > 0.3


def test_groups_too_large_to_sample_are_refused_before_spending() -> None:
    account = Ledger().account("people")
    with pytest.raises(InputError, match="per_group"):
        PrivateKDE(
            bandwidth=1.0,
            epsilon=1,
            n_hint=500,
            method="fourier",
            options={"n_features": 400, "per_group": 400},
            ledger=account,
        ).fit(np.zeros((5, 2)))
    assert account.charges == ()
    with pytest.raises(InputError, match="at most 128 pairs"):
        DiscNoise(200, Fraction(1, 3))


@pytest.mark.parametrize("epsilon", [12, 14, 16])
def test_large_epsilons_with_delta_have_a_fine_enough_lattice(epsilon: int) -> None:
    release = PrivateKDE(bandwidth=1.0, epsilon=epsilon, delta=1e-6, n_hint=1000).fit(np.zeros((1000, 2))).release_
    assert abs(release.query([[0.0, 0.0]])[0] - 1) < 0.1


def test_long_epsilons_fit_the_grid() -> None:
    model = PrivateKDE(
        bandwidth=1.0,
        epsilon=0.123457,
        n_hint=1000,
        method="grid",
        bounds=(0, 10),
        unit="user",
        options={"max_records_per_user": 5},
    )
    release = model.fit(np.full((100, 2), 5.0), users=np.arange(100) // 5).release_
    assert release.noise.rate <= model.request(2).feature_epsilon / (5 * release.reader.bound.l1)


def test_promises_need_a_public_n() -> None:
    account = Ledger().account("people")
    options = {"alpha": 0.05, "eta": 0.05}
    with pytest.raises(InputError, match="pass n_hint as a number"):
        PrivateKDE(bandwidth=1.0, epsilon=0.5, n_hint="paid", method="lsq-rff", options=options, ledger=account).fit(
            np.zeros((200, 1))
        )
    assert account.charges == ()
