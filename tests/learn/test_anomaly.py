"""Outliers: scikit-learn's conventions, a threshold that is right about empty places, and releases that exist."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato import InputError, Ledger, PrivateKDE
from sfumato.kernels import Distance, InnerProduct
from sfumato.learn import AnomalyScore

POINTS = np.random.default_rng(0).normal(size=(4000, 2))
SEEDED: dict[str, Any] = {"bandwidth": 1.0, "epsilon": 1, "n_hint": 4000, "random_state": 3, "feature_seed": 4}


@pytest.mark.once
@parametrize_with_checks(
    # So few are expected that no count is far below: some checks fit one row, and unseeded runs would stop. Some ask
    # for outliers and others among 300 points: with 100 features 18 to 78 % of them are none (of 150 seeds), five
    # deviations from none and from all; with the few that one record is worth, all are outliers for one seed in 15.
    [AnomalyScore(bandwidth=1.0, epsilon=20, n_hint=1, feature_seed=1, method="lsq-rff", options={"n_features": 100})],
    expected_failed_checks=lambda estimator: {
        "check_estimators_empty_data_messages": "a release must not depend, unpaid, on whether there are any rows",
        "check_dtype_object": "an array of objects has no numeric type; converting it would let one row stop a release",
        "check_all_zero_sample_weights_error": "a release must not depend, unpaid, on whether any weight is positive",
        "check_sample_weight_equivalence_on_dense_data": "weights are probabilities, and noise differs from run to run",
        "check_sample_weight_equivalence_on_sparse_data": "weights are probabilities, and noise differs",
        "check_estimators_pickle": "it scores rows that are not numbers; only in training are these dropped",
    },
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "arguments",
    [
        {"method": "lsq-rff", "options": {"n_features": 12_000}, "n_hint": 40_000},
        {"bounds": (-20, 20)},
        {"bounds": (-20, 20), "delta": 1e-6},
    ],
    ids=["fourier", "grid", "delta"],
)
def test_empty_places_are_outliers_and_the_crowd_is_not(arguments: dict[str, Any]) -> None:
    """An empty place is an inlier with probability 0.13 %, and the crowd's rim is many standard errors from empty.

    Both hold for any seed. Some 500 of the 2,000 empty places are independent (they lie in an area of 1,400, and errors
    at places farther apart than about a bandwidth are uncorrelated): 2.7 inliers are expected, and 40 are as likely as
    30 of some 4 excursions of the error above three standard errors, below 1e-10. At its rim, 2.2 from the centre, the
    crowd's density is exp(-2.2^2 / 3) / 3 = 0.066; with 40,000 records and 12,000 features at epsilon = 1 an error bar
    is 0.007, so that the rim lies 9 bars from zero and 6 above the threshold: 1e-9 a place, and few are so far out.
    """
    points = np.random.default_rng(0).normal(size=({**SEEDED, **arguments}["n_hint"], 2))
    model = AnomalyScore(**{**SEEDED, **arguments}).fit(points)
    random = np.random.default_rng(1)
    places = random.uniform(-20, 20, size=(4000, 2))
    empty = places[np.linalg.norm(places, axis=1) > 8][:2000]
    assert (model.predict(empty) == 1).sum() < 40
    assert (model.predict(0.5 * points[:4000]) == 1).all()
    assert roc_auc_score(np.repeat([1, 0], 2000), model.score_samples(np.vstack([points[:2000], empty]))) > 0.98


def test_the_threshold_is_the_level() -> None:
    model = AnomalyScore(**SEEDED, level=5.0).fit(POINTS)
    answers, errors = model.release_.query(POINTS, return_std=True)
    assert model.offset_ == 5.0
    assert np.allclose(model.score_samples(POINTS), answers / errors)
    assert np.array_equal(model.predict(POINTS), np.where(answers >= 5 * errors, 1, -1))
    assert np.allclose(model.decision_function(POINTS), answers / errors - 5)


def test_a_release_that_exists_serves_too_and_costs_nothing() -> None:
    release = PrivateKDE(**SEEDED).fit(POINTS).release_
    model, fitted = AnomalyScore.of(release, level=2.0), AnomalyScore(**SEEDED, level=2.0).fit(POINTS)
    assert np.array_equal(model.score_samples(POINTS), fitted.score_samples(POINTS))
    assert np.array_equal(model.predict(POINTS), fitted.predict(POINTS))
    assert model.get_params()["epsilon"] == 1


def test_the_ledger_is_charged_once() -> None:
    account = Ledger().account("people")
    AnomalyScore(**SEEDED, ledger=account).fit(POINTS)
    assert account.spent == (1, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": -1.0}, "level must be a number of standard errors"),
        ({"level": float("nan")}, "level must be a number of standard errors"),
        ({"level": "three"}, "level must be a number of standard errors"),
        ({"kernel": InnerProduct(5.0)}, "distances and inner products are not"),
        ({"kernel": "inner-product"}, "distances and inner products are not"),
        ({"kernel": Distance("l1")}, "distances and inner products are not"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"method": "magic"}, "unknown method"),
    ],
)
def test_refusals_cost_nothing(arguments: dict[str, Any], message: str) -> None:
    account = Ledger().account("people")
    with pytest.raises(InputError, match=message):
        AnomalyScore(**{**SEEDED, **arguments, "ledger": account}).fit(POINTS)
    assert account.charges == ()


def test_the_stated_share_is_called_outliers() -> None:
    """The level of noise rejected 22 % of some data; a stated share is met by points like those it is estimated on."""
    model = AnomalyScore(**SEEDED, bounds=(-6, 6), share=0.05).fit(POINTS)
    drawn = model.release_.sample(4000, random_state=9)
    # 4,000 other draws around an estimate from 4,000: five deviations of both together are 2.4 %.
    assert (model.predict(drawn) == -1).mean() == pytest.approx(0.05, abs=0.025)
    # The records themselves are less spread than synthetic points.
    assert (model.predict(POINTS) == -1).mean() < 0.06
    public = np.random.default_rng(5).normal(size=(4000, 2))
    calibrated = AnomalyScore.of(model.release_, share=0.1, public=public)
    assert (calibrated.predict(public) == -1).mean() == pytest.approx(0.1, abs=0.002)
    assert (calibrated.predict(POINTS) == -1).mean() == pytest.approx(0.1, abs=0.04)


def test_a_share_that_cannot_be_estimated_loses_no_release() -> None:
    account = Ledger().account("people")
    with pytest.warns(UserWarning, match="pass public="):
        model = AnomalyScore(**SEEDED, share=0.05, ledger=account).fit(POINTS)
    assert account.spent == (1, 0.0)
    assert model.offset_ == 3.0
    with pytest.raises(InputError, match="share must lie above 0"):
        AnomalyScore(**SEEDED, share=2, ledger=account).fit(POINTS)
    assert [charge.epsilon for charge in account.charges] == [Fraction(1, 20), Fraction(19, 20)]
