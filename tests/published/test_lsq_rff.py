"""(alpha, eta) guarantees: the variance bound is attained, the sizes are the smallest, and the promise is kept."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from sfumato import PrivateKDE
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Laplacian
from sfumato.methods.request import Request
from sfumato.published.lsq_rff import _terms, median_of_means, records_needed
from sfumato.quantizers import FourierQuantizer

FALSE_ALARM = 1e-6


def _request(**arguments: Any) -> Request:
    settings: dict[str, Any] = {
        "kernel": Gaussian(1.0),
        "dimension": 1,
        "epsilon": Fraction(8),
        "n": 1000,
        "feature_seed": 1,
        "options": {"alpha": 0.3, "eta": 0.1},
        "bounds": (-9, 9),
    }
    return Request(**settings | arguments)


# Half of the records at either side of the query: the term's variance is 3 P / 2, its bound, with P = 1/2.
WORST = np.repeat([[-8.0], [8.0]], 500, axis=0)


def test_the_bound_of_a_terms_variance_is_attained() -> None:
    quantizer = FourierQuantizer.draw(Gaussian(1.0), 1, 40_000, 3, layout="phase", bounds=(-9, 9))
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(WORST, sums)
    terms = quantizer.term_values(np.zeros((1, 1)), sums / len(WORST))[0]
    # The standard error of the mean square over 40,000 terms of kurtosis below 6 is below 0.009.
    assert np.mean(terms**2) == pytest.approx(0.75, abs=0.045)


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [({"alpha": 0.3, "eta": 0.1}, 8), ({"alpha": 0.15, "eta": 0.02, "density": 0.5}, 40)],
    ids=str,
)
def test_a_promise_for_each_query_is_kept(options: dict[str, Any], epsilon: int) -> None:
    request = _request(epsilon=Fraction(epsilon), options=options)
    needed = records_needed(request)
    points = np.resize(WORST, (needed, 1))
    queries = np.array([[0.0], [8.0], [1.0]])
    exact = request.kernel.exact_density(points, queries)
    errors = np.array(
        [
            PrivateKDE(
                Gaussian(1.0),
                epsilon=epsilon,
                method="lsq-rff",
                n_hint=needed,
                bounds=(-9, 9),
                options=options,
                random_state=seed,
                feature_seed=seed,
            )
            .fit(points)
            .query(queries)
            - exact
            for seed in range(60)
        ]
    )
    for column in np.abs(errors).T:
        failures = int((column > options["alpha"]).sum())
        assert binomtest(failures, len(column), options["eta"], alternative="greater").pvalue > FALSE_ALARM
    # Chebyshev and Chernoff are generous, but not by orders of magnitude.
    assert np.quantile(np.abs(errors), 0.9) > options["alpha"] / 20


def test_a_promise_for_all_queries_is_kept() -> None:
    options = {"alpha": 0.4, "eta": 0.2, "all_queries": True}
    request = _request(epsilon=Fraction(30), options=options, bounds=(-3, 3))
    needed = records_needed(request)
    points = np.random.default_rng(0).uniform(-3, 3, size=(needed, 1))
    queries = np.linspace(-3, 3, 400)[:, None]
    exact = request.kernel.exact_density(points, queries)
    worst = []
    for seed in range(30):
        model = PrivateKDE(
            Gaussian(1.0),
            epsilon=30,
            n_hint=needed,
            bounds=(-3, 3),
            options=options,
            random_state=seed,
            feature_seed=seed,
        ).fit(points)
        worst.append(np.abs(model.query(queries) - exact).max())
    failures = int((np.array(worst) > 0.4).sum())
    assert binomtest(failures, len(worst), 0.2, alternative="greater").pvalue > FALSE_ALARM
    assert max(worst) > 0.4 / 40


def test_the_number_of_records_is_the_one_of_the_formula() -> None:
    request = _request(neighbours="replace", options={"alpha": 0.1, "eta": 0.09})
    groups = math.ceil(2 * math.log(1 / (0.9 * 0.09)) / math.log(16 / 7))
    formula = 32 * 2 * groups * math.sqrt(1.5) / (8 * 0.1**2)
    needed = records_needed(request)
    assert needed == pytest.approx(1.01 * formula, rel=0.01)  # 1.01 for the integer tables
    assert median_of_means(replace(request, n=needed)).groups == groups
    with pytest.raises(InputError, match=f"it takes {needed}"):
        median_of_means(replace(request, n=needed - 1))


@pytest.mark.parametrize("n", [3000, 10_000, 10**6])
def test_the_number_of_terms_is_the_smallest_that_keeps_the_variance(n: int) -> None:
    request = _request(n=n, neighbours="replace")
    groups, error = 6, 0.3
    terms = _terms(request, error, groups, 1.5)

    def variance(terms: int) -> float:
        return 1.01 * (1.5 / terms + (2 * 2 * groups / (8 * n)) ** 2 * terms)

    assert variance(terms) <= error**2 / 8 < variance(terms - 1)


def test_more_is_needed_for_all_queries_in_more_dimensions_and_wider_bounds() -> None:
    options = {"alpha": 0.3, "eta": 0.1}
    together = options | {"all_queries": True}
    sizes = [
        records_needed(_request(options=options)),
        records_needed(_request(options=together, bounds=(-1, 1))),
        records_needed(_request(options=together)),
        records_needed(_request(options=together, kernel=Gaussian(0.1))),
        records_needed(_request(options=together, dimension=5)),
    ]
    assert sizes == sorted(sizes)
    assert sizes[4] > 3 * sizes[2]
    matrix = Gaussian([[1.0, 0.0], [0.0, 1.0]])
    plain = records_needed(_request(options=together, dimension=2))
    assert records_needed(_request(options=together, dimension=2, kernel=matrix)) == plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"alpha": 0.1}}, "must both be numbers between 0 and 1, got eta = None"),
        ({"options": {"alpha": 0.1, "eta": 1}}, "got eta = 1"),
        ({"options": {"alpha": 0.1, "eta": 0.1, "groups": 3}}, "choose groups themselves"),
        ({"options": {"alpha": 0.1, "eta": 0.1, "all_queries": 1}}, "all_queries must be True or False"),
        ({"options": {"alpha": 0.1, "eta": 0.1, "all_queries": True}, "bounds": None}, "all_queries needs bounds="),
        ({"options": {"alpha": 0.1, "eta": 0.1, "all_queries": True}, "kernel": Laplacian(1.0)}, "Gaussian kernel"),
    ],
    ids=str,
)
def test_refusals_name_the_problem(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        median_of_means(_request(**arguments))
