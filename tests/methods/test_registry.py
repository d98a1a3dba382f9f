"""Sizes, budgets, options and refusals of the central methods."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato import Ledger, PrivateKDE
from sfumato.central import fourier
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Rational
from sfumato.methods import plan
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.published import lsq_rff

pytestmark = pytest.mark.once
POINTS = np.random.default_rng(0).normal(size=(500, 2))


def _request(**arguments: Any) -> Request:
    settings: dict[str, Any] = {
        "kernel": Gaussian(1.0),
        "dimension": 2,
        "epsilon": Fraction(1),
        "n": 5000,
        "feature_seed": 1,
    }
    return Request(**{**settings, **arguments})


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_laplace_noise_has_the_stated_rate(neighbours: str) -> None:
    mechanism = METHODS.build("lsq-rff", _request(neighbours=neighbours, options={"n_features": 100}))
    budget = Fraction(19, 20) if neighbours == "add-remove" else Fraction(1, 2)
    assert mechanism.noise.rate == budget / (100 * lsq_rff.RADIUS)
    assert (mechanism.count_law is None) == (neighbours == "replace")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_disc_noise_has_the_stated_rate(neighbours: str) -> None:
    mechanism = METHODS.build("fourier", _request(neighbours=neighbours))
    budget = Fraction(19, 20) if neighbours == "add-remove" else Fraction(1, 2)
    assert mechanism.noise.rate == budget / fourier.RADIUS
    assert mechanism.noise.pairs == mechanism.encoder.per_group == 20


@pytest.mark.parametrize("share", ["1/10", 0.1, Fraction(1, 10)])
def test_the_count_share_splits_the_budget_exactly(share: Any) -> None:
    request = _request(options={"count_share": share})
    assert (request.count_epsilon, request.feature_epsilon) == (Fraction(1, 10), Fraction(9, 10))


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("fourier-gaussian", {}, "delta > 0"),
        ("lsq-rff", {"options": {"n_features": 0}}, "positive whole number"),
        ("lsq-rff", {"options": {"n_features": 2.5}}, "positive whole number"),
        ("lsq-rff", {"options": {"groups": 7, "n_features": 3}}, "must not exceed"),
        ("fourier", {"options": {"features": 3}}, "unknown option 'features'; this method knows"),
        ("fourier", {"options": {"count_share": 1}}, "between 0 and 1"),
        ("fourier", {"options": {"outside": "wrap"}}, "one of 'clip', 'drop'"),
        ("nearest", {}, "unknown method 'nearest'; known are auto"),
    ],
)
def test_refusals_name_the_problem(method: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        METHODS.build(method, _request(**arguments))


def test_auto_takes_the_least_predicted_error() -> None:
    assert METHODS.choose(_request()) == "fourier"
    assert METHODS.choose(_request(delta=1e-6)) == "fourier-gaussian"


@pytest.mark.parametrize("density", [0.005, 0.02, 0.1])
def test_best_sizes_minimise_the_prediction(density: float) -> None:
    features = lsq_rff.best_features(0.5, 1e5, density)
    single = [lsq_rff.predicted_rmse(size, 0.5, 1e5, density) for size in (features // 2, features, features * 2)]
    pairs = fourier.best_pairs(0.5, 1e5, density)
    paired = [fourier.predicted_rmse(size, 20, 0.5, 1e5, density) for size in (pairs // 2, pairs, pairs * 2)]
    assert single[1] == min(single)
    assert paired[1] == min(paired)


def test_pairs_with_disc_noise_beat_the_published_prediction() -> None:
    ratio = METHODS["fourier"].predict(_request(), 0.02).rmse / METHODS["lsq-rff"].predict(_request(), 0.02).rmse
    assert 0.55 < ratio < 0.68


def test_median_of_means_uses_the_groups() -> None:
    model = PrivateKDE(
        bandwidth=1.0, epsilon=1, method="lsq-rff", n_hint=500, options={"n_features": 90, "groups": 9}, random_state=3
    ).fit(POINTS)
    release = model.release_
    terms = release.reader.term_values(POINTS[:20], release.values.astype(float))
    medians = np.median(terms.reshape(20, 9, 10).mean(axis=2), axis=1) / release.count.value
    assert np.allclose(model.query(POINTS[:20]), medians)
    plain = math.sqrt(float(terms[0].var(ddof=1)) / 90) / release.count.value
    assert model.query(POINTS[:1], return_std=True)[1][0] > 1.2 * plain


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.pure and not method.baseline])
def test_a_pure_method_builds_under_delta_as_without_and_spends_none(name: str) -> None:
    kernel = Rational(1.0) if name == "exponential-sums" else Gaussian(1.0)
    asked = _request(kernel=kernel, dimension=2, bounds=(-5, 5), delta=1e-6)
    without, made = METHODS.build(name, asked.pure()), METHODS.build(name, asked)
    assert made.guarantee == without.guarantee and made.guarantee.delta == 0
    assert made.noise == without.noise and made.cost(False) == without.cost(False)
    assert made.parameters == {**without.parameters, "unspent_delta": 1e-6}
    assert "unspent_delta" not in without.parameters


def test_an_unspent_delta_is_not_charged_and_is_said() -> None:
    account = Ledger().account("people")
    account.set_budget(1, 1e-6)  # before a count is bought, all that may be spent must fit
    facts: dict[str, Any] = {"bandwidth": 0.2, "epsilon": 1, "delta": 1e-6, "bounds": (-5, 5)}
    model = PrivateKDE(**facts, n_hint="paid", ledger=account).fit(POINTS)
    assert model.release_.method == "grid" and model.release_.guarantee.delta == 0
    assert account.spent == (1, 0.0)
    assert "delta was not needed and is not spent" in repr(model.release_)
    assert "grid: delta was not needed and is not spent" in str(plan(**facts, n_hint=1000, dimension=2))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy", "l1-lsh"])
@pytest.mark.parametrize("epsilon", [0.05, 1, 8])
@pytest.mark.parametrize("n", [10**3, 10**5, 10**7])
def test_a_delta_never_makes_the_predicted_error_larger(kernel: str, epsilon: float, n: int) -> None:
    """Two columns with bounds, as of taxi rides."""
    facts: dict[str, Any] = {"kernel": kernel, "bandwidth": 0.01, "n_hint": n, "dimension": 2, "epsilon": epsilon}
    facts["bounds"] = [(-74.1, -73.7), (40.6, 40.9)]
    assert plan(**facts, delta=1e-6).error <= plan(**facts).error
