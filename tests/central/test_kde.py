from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato import InputError, Ledger, PrivateKDE
from sfumato.kernels import Gaussian

POINTS = np.random.default_rng(0).normal(size=(600, 2))
SEEDED: dict[str, Any] = {"bandwidth": 0.7, "epsilon": 1, "n_hint": 600, "random_state": 3, "feature_seed": 4}


@pytest.mark.once
@parametrize_with_checks(
    [PrivateKDE(bandwidth=1.0, epsilon=1.0, n_hint=10)],
    expected_failed_checks=lambda estimator: {
        "check_estimators_empty_data_messages": "a release must not depend, unpaid, on whether there are any rows",
        "check_dtype_object": "an array of objects has no numeric type; converting it would let one row stop a release",
        "check_all_zero_sample_weights_error": "a release must not depend, unpaid, on whether any weight is positive",
    },
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": None}, "epsilon is missing: pass epsilon="),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"bandwidth": None}, "bandwidth is missing: pass bandwidth="),
        ({"bandwidth": 0}, "bandwidth"),
        ({"bandwidth": -2.0}, "bandwidth"),
        ({"bandwidth": [1.0, 2.0, 3.0]}, "3"),
        ({"n_hint": None}, "n_hint is missing: pass n_hint="),
        ({"n_hint": 0}, "n_hint must be a whole number from 1"),
        ({"n_hint": "paid", "neighbours": "replace"}, "n is public"),
        ({"neighbours": "similar"}, "'add-remove', 'replace'"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"kernel": "boxcar"}, "unknown kernel 'boxcar'"),
        ({"kernel": Gaussian(1.0)}, "already has its parameters"),
        ({"bounds": [(0, 1)]}, "1 columns but the points have 2"),
        ({"bounds": (1, 0)}, "lower < upper"),
        ({"options": {"colour": 1}}, "unknown option 'colour'"),
    ],
    ids=str,
)
def test_bad_parameters_are_named_and_cost_nothing(arguments: dict[str, Any], message: str) -> None:
    account = Ledger().account("people")
    with pytest.raises(InputError, match=message):
        PrivateKDE(**{**SEEDED, **arguments, "ledger": account}).fit(POINTS)
    assert account.charges == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (POINTS[:, 0], "2-d|reshape"),
        (np.array([["a", "b"]]), "numeric|numbers"),
        ("nowhere.csv", "nowhere.csv"),
        (pd.DataFrame({"x": [1.0], "name": pd.array(["Ada"], dtype="string")}), "name"),
    ],
    ids=["1-d", "text", "missing", "text column"],
)
def test_bad_data_is_named_and_costs_nothing(data: Any, message: str) -> None:
    account = Ledger().account("people")
    with pytest.raises(InputError, match=message):
        PrivateKDE(**{**SEEDED, "ledger": account}).fit(data)
    assert account.charges == ()


def test_every_kind_of_input_gives_the_same_release(tmp_path: Path) -> None:
    frame = pd.DataFrame(POINTS, columns=["x", "y"])
    table = pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1]})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=97)
    frame.to_csv(tmp_path / "p.csv", index=False)
    np.save(tmp_path / "p.npy", POINTS)
    inputs = [
        POINTS,
        POINTS.tolist(),
        frame,
        table,
        tmp_path / "p.parquet",
        str(tmp_path / "p.csv"),
        tmp_path / "p.npy",
    ]
    releases = [PrivateKDE(**SEEDED, method="lsq-rff").fit(data).release_ for data in [*inputs, iter([POINTS])]]
    for release in releases[1:]:
        assert np.array_equal(release.values, releases[0].values)
        assert release.count == releases[0].count


def test_data_frames_give_column_names() -> None:
    model = PrivateKDE(**SEEDED).fit(pd.DataFrame(POINTS, columns=["x", "y"]))
    assert list(model.feature_names_in_) == ["x", "y"]
    assert model.release_.columns == ("x", "y")


def test_noise_is_fresh_without_a_seed_and_repeats_with_one() -> None:
    unseeded = {**SEEDED, "random_state": None}
    first, second = (PrivateKDE(**unseeded).fit(POINTS).release_ for _ in range(2))
    assert not np.array_equal(first.values, second.values)
    assert first.guarantee.private
    again, same = (PrivateKDE(**SEEDED).fit(POINTS).release_ for _ in range(2))
    assert np.array_equal(again.values, same.values)
    assert not again.guarantee.private


def test_clones_share_the_account() -> None:
    account = Ledger().account("people")
    account.set_budget(2)
    model = PrivateKDE(**{**SEEDED, "ledger": account})
    clone(model).fit(POINTS)
    copy.deepcopy(model).fit(POINTS)
    assert account.spent[0] == Fraction(2)
    assert clone(model).ledger is account


def test_queries_need_a_fit() -> None:
    for name in ("query", "density", "score_samples", "score"):
        with pytest.raises(NotFittedError):
            getattr(PrivateKDE(**SEEDED), name)(POINTS)


def test_methods_answer_as_the_release_does() -> None:
    model = PrivateKDE(**SEEDED).fit(POINTS)
    assert np.array_equal(model.query(POINTS), model.release_.query(POINTS))
    assert np.array_equal(model.query(POINTS, return_std=True)[1], model.release_.query(POINTS, return_std=True)[1])
    assert np.array_equal(model.density(POINTS), model.release_.density(POINTS))
    assert model.score(POINTS) == pytest.approx(model.score_samples(POINTS).sum())


def test_score_samples_is_in_scikit_learns_units() -> None:
    """False alarms below 1e-6, whatever the points and the noise.

    The grid's answer is a sum of Laplace numbers of total variance s^2, whose moments are at most those of one:
    E exp(r X) <= 1 / (1 - r^2 s^2 / 2), because the product of 1 - x_i is at least 1 minus their sum. With
    r s = sqrt(2) (1 - 1/22) it exceeds 16 s with probability below exp(-21.6) / 0.089 = 4.7e-9, and one of 30 answers
    does on either side with 2.8e-7. A wrong unit is a factor of at least sqrt(2); the test has power where 16 s is a
    quarter of the answer.
    """
    from sklearn.neighbors import KernelDensity

    points, kernel = POINTS[:30], Gaussian.from_sklearn(0.5)
    expected = KernelDensity(bandwidth=0.5).fit(POINTS).score_samples(points)
    model = PrivateKDE(kernel, epsilon=500, n_hint=600, bounds=(-8, 8), method="grid").fit(POINTS)
    tolerance = 16 * model.query(points, return_std=True)[1] / kernel.exact_density(POINTS, points)
    assert tolerance.max() < 0.25
    assert (np.abs(np.exp(model.score_samples(points) - expected) - 1) < tolerance).all()
