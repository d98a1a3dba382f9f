"""`lattice`: error and error bars as predicted, the count among the sums, and less error than other methods."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import PrivateKDE
from sfumato.central import lattice
from sfumato.errors import InputError
from sfumato.kernels import Exponential, Gaussian, Kernel, Laplacian
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Limits, Request
from tests.central.repeated import repeated

RNG = np.random.default_rng(5)
POINTS = np.concatenate([RNG.normal(2, 0.6, size=(10_000, 2)), RNG.normal(4, 0.7, size=(10_000, 2))]).clip(0, 6)
QUERIES = np.concatenate([POINTS[:60], RNG.uniform(0, 6, size=(60, 2))])
TRUTH = Gaussian(1.0).exact_density(POINTS, QUERIES)


@pytest.mark.parametrize(("kernel", "columns", "most"), [(Gaussian(0.5), 4, 10), (Laplacian(0.5), 3, 20)])
def test_too_few_modes_are_predicted_and_in_the_bars(kernel: Kernel, columns: int, most: float) -> None:
    """Queries near records that sit closely in a large box, where nearly every query spread evenly has the answer 0."""
    random = np.random.default_rng(2)
    records = random.normal(2, 0.4, size=(20_000, columns)).clip(0, 6)
    truth = kernel.exact_density(records, records[:60])
    settings: dict[str, Any] = {"epsilon": 4, "delta": 1e-6, "bounds": (0, 6), "n_hint": 20_000}
    options = {"n_features": 300, "density": float(truth.mean())}
    model = PrivateKDE(kernel, method="lattice", options=options, random_state=1, **settings).fit(records)
    answers, bars = model.query(records[:60], return_std=True)
    measured = math.sqrt(np.mean((answers - truth) ** 2))
    asked = request(kernel=kernel, dimension=columns, epsilon=Fraction(4), options=options)
    # Not too small; large for records that are spread smoothly about their place, as here.
    assert 0.5 < lattice.predict(asked, float(truth.mean())).rmse / measured < most
    assert 0.5 < math.sqrt(np.mean(bars**2)) / measured < most


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_as_many_modes_as_are_asked_for(columns: int) -> None:
    """Ties at the last mode cut none off; one column has so many and no more."""
    for pairs in (1, 2, 7, 299, 300, 4000):
        built = lattice.build(request(dimension=columns, options={"n_features": pairs}))
        assert built.parameters["n_features"] == (min(pairs, 2048) if columns == 1 else pairs)


def request(**changes: Any) -> Request:
    known: dict[str, Any] = {
        "kernel": Gaussian(1.0),
        "dimension": 2,
        "epsilon": Fraction(1),
        "n": 20_000,
        "feature_seed": 1,
        "delta": 1e-6,
        "bounds": (0, 6),
        "options": {"density": 0.12},
    }
    return Request(**{**known, **changes})


def model(seed: int | None = None, **changes: Any) -> PrivateKDE:
    known: dict[str, Any] = {"bandwidth": 1.0, "epsilon": 1, "delta": 1e-6, "bounds": (0, 6), "n_hint": 20_000}
    return PrivateKDE(**{**known, "method": "lattice", "random_state": seed, **changes})


@pytest.mark.filterwarnings("ignore::sfumato.errors.NotPrivateWarning")
@pytest.mark.parametrize("changes", [{}, {"neighbours": "replace"}, {"options": {"count_share": 0.05}}], ids=str)
def test_error_and_bars_are_as_predicted(changes: dict[str, Any]) -> None:
    """Where the count's noise is most of an error, a mean of 1,000 squares deviates by 7 %: limits are five of them."""
    asked, runs = request(**{"options": {}, **changes}), 1000
    releases = repeated(METHODS.build("lattice", asked), POINTS, runs, seed=1)
    answers, bars = np.stack([release.query(QUERIES, return_std=True) for release in releases], axis=1)
    errors = answers - TRUTH
    measured, stated = np.square(errors).mean(), np.square(bars).mean()
    assert 0.6 < measured / stated < 1.5
    assert 0.6 < measured / lattice.predict(asked, float(TRUTH.mean())).rmse ** 2 < 1.5
    # Modes that are left out, and the mean of 1 / count, make a bias of 2e-5 at most.
    # The noise of the count is largest where most records are: bars of each query, and not of all together.
    assert (np.abs(errors.mean(axis=0)) < 6 * np.sqrt(np.square(bars).mean(axis=0) / runs) + 2e-5).all()


@pytest.mark.filterwarnings("ignore::sfumato.errors.NotPrivateWarning")
def test_the_count_is_one_of_the_sums() -> None:
    counts = np.array([model(seed).fit(POINTS).release_.count.value for seed in range(40)])
    count = model(0).fit(POINTS).release_.count
    assert not count.public and abs(counts.mean() - 20_000) < 6 * math.sqrt(count.variance / 40)
    assert 0.3 < counts.var() / count.variance < 2.5


def test_in_two_columns_it_needs_few_integers_and_errs_little() -> None:
    asked = request(n=100_000, options={})
    found = lattice.predict(asked, asked.density)
    assert found.integers <= 400 and found.rmse <= 5e-5
    others = [METHODS[name].predict(asked, asked.density).rmse for name in ("fourier-gaussian",)]
    assert found.rmse < min(others) / 10
    assert METHODS.choose(asked) == "lattice"


def test_limits_are_kept() -> None:
    for limits in (Limits(work_per_query=40), Limits(work_per_record=40), Limits(file_size=4000)):
        found = lattice.predict(request(limits=limits), 0.1)
        assert found.work_per_query <= limits.work_per_query and found.work_per_record <= limits.work_per_record
        assert found.file_size <= limits.file_size
        assert lattice.build(request(limits=limits)).parameters["n_features"] <= 20 or limits.file_size < 5000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0.0}, "delta > 0"),
        ({"bounds": None}, "public bounds"),
        ({"kernel": Exponential(1.0)}, "product over the columns"),
        ({"dimension": 6}, "up to 5 columns"),
        ({"bounds": (0, 1e6)}, "tighter bounds"),
        ({"epsilon": Fraction(200)}, "epsilon up to"),
        ({"limits": Limits(work_per_record=1)}, "no room"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    assert message in str(lattice.refuse(request(**changes)))


def test_a_tiny_budget_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(InputError, match="larger epsilon"):
        lattice.build(request(epsilon=Fraction(1, 10**8), delta=1e-60))


def test_a_release_is_saved_and_read(tmp_path: Any) -> None:
    release = model().fit(POINTS).release_
    release.save(tmp_path / "map.sfm")
    again = sfumato.load(tmp_path / "map.sfm")
    np.testing.assert_array_equal(again.query(QUERIES), release.query(QUERIES))
    with pytest.raises(InputError, match="outside the bounds"):
        again.query([[7.0, 0.0]])


def test_users_and_weights_take_part() -> None:
    users = np.arange(len(POINTS)) // 2
    limited = model(unit="user", options={"max_records_per_user": 2}).fit(POINTS, users=users)
    weighted = model().fit(POINTS, sample_weight=np.full(len(POINTS), 0.5))
    for release in (limited.release_, weighted.release_):
        answer, error = release.query(QUERIES, return_std=True)
        assert (np.abs(answer - TRUTH) < 6 * error).all()


@pytest.mark.parametrize(("epsilon", "delta"), [("1/10000", 1e-6), ("15", 1e-12), ("40", 1e-6)])
def test_auto_never_takes_what_cannot_be_built(epsilon: str, delta: float) -> None:
    asked = request(n=10**7, epsilon=Fraction(epsilon), delta=delta, options={})
    assert METHODS.build("auto", asked).guarantee.epsilon == Fraction(epsilon)
