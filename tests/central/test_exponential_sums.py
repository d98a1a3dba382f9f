"""Smooth kernels: predicted error, budgets that add up, splits, files, and law 1."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import PrivateKDE, load, plan
from sfumato.central import exponential_sums
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian, Rational
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.body import StackedDiscs
from sfumato.quantizers import ExponentialSums
from sfumato.quantizers.exponential_sums import check_terms
from sfumato.release import from_content

N, EPSILON, DIMENSION = 2000, 4, 6  # errors are those of 8,000 records at epsilon = 1: rows are what costs
RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.normal(size=(20, DIMENSION)) * 2
POINTS = CENTRES[RANDOM.integers(20, size=N + 60)] + RANDOM.normal(size=(N + 60, DIMENSION)) * 0.7
POINTS, QUERIES = POINTS[:N], POINTS[N:]
KERNELS = {
    "l2": Rational(1.0, "l2"),
    "sqeuclidean": Rational(1.0, "sqeuclidean"),
    "l1": Rational(3.0, "l1"),
    "l2 squared": Rational(2.0, "l2", power=2),
    "root of sqeuclidean": Rational(1.0, "sqeuclidean", power=0.5),
}


def _request(**arguments: Any) -> Request:
    facts: dict[str, Any] = {
        "kernel": Rational(1.0),
        "dimension": DIMENSION,
        "epsilon": Fraction(EPSILON),
        "n": N,
        "feature_seed": 1,
        "bounds": (-12, 12),
    }
    return Request(**facts | arguments)


def _errors(kernel: Rational, exact: np.ndarray, density: float, method: str, runs: int, **options: Any) -> np.ndarray:
    made = []
    for seed in range(runs):
        model = PrivateKDE(
            kernel,
            epsilon=EPSILON,
            method=method,
            bounds=(-12, 12),
            n_hint=N,
            options={"density": density, **options},
            feature_seed=seed,
            random_state=seed,
        ).fit(POINTS)
        answers, bars = model.query(QUERIES, return_std=True)
        made.append((answers - exact, bars))
    return np.array(made)


@pytest.mark.parametrize("name", KERNELS)
def test_error_follows_the_prediction_and_beats_an_even_split(name: str) -> None:
    kernel, runs = KERNELS[name], 30
    exact = kernel.exact_density(POINTS, QUERIES)
    density = float(exact.mean())
    rmse = {}
    for split in ("best", "even"):
        made = _errors(kernel, exact, density, "exponential-sums", runs, split=split)
        squares = np.mean(made[:, 0] ** 2, axis=1)
        rmse[split] = math.sqrt(squares.mean())
        if split == "best":
            predicted, even = (
                METHODS["exponential-sums"]
                .predict(_request(kernel=kernel, options={"density": density, **more}), density)
                .rmse
                for more in ({}, {"split": "even"})
            )
            assert predicted < 0.75 * even
            # 30 runs know their error to 8 %: limits are five of these away or more.
            assert 0.65 < rmse[split] / predicted < 1.5
            assert 0.65 < math.sqrt(np.mean(made[:, 1] ** 2)) / rmse[split] < 1.5
            # t statistic of 5.5 over 30 runs: a false alarm below 1e-5 for one kernel, and biases are near 0.1 rmse
            drift = made[:, 0].mean(axis=1)
            assert abs(drift.mean()) < 5.5 * drift.std() / math.sqrt(runs) + 0.2 * rmse[split]
    assert rmse["best"] < rmse["even"]  # 0.6 to 0.77 of it, with a deviation of 0.05


def test_the_split_beats_one_draw_and_the_published_structure() -> None:
    kernel = KERNELS["l2"]
    exact = kernel.exact_density(POINTS, QUERIES)
    density = float(exact.mean())
    predicted = {}
    for method in ("exponential-sums", "fourier", "exponential-sums-published"):
        predicted[method] = METHODS[method].predict(_request(kernel=kernel, options={"density": density}), density).rmse
        measured = math.sqrt(np.mean(_errors(kernel, exact, density, method, 25)[:, 0] ** 2))
        assert 0.6 < measured / predicted[method] < 1.6  # 25 runs know it to a tenth
    assert predicted["exponential-sums"] < 0.85 * predicted["fourier"]
    assert predicted["exponential-sums"] < 0.4 * predicted["exponential-sums-published"]


def test_auto_takes_the_split_for_pure_and_one_draw_with_delta() -> None:
    assert METHODS.choose(_request()) == "exponential-sums"
    assert METHODS.choose(_request(delta=1e-6)) == "fourier-gaussian"
    assert METHODS.choose(_request(kernel=Gaussian(1.0), bounds=None)) == "fourier"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("split", ["best", "even"])
def test_budgets_add_up_to_the_claim(neighbours: str, split: str) -> None:
    request = _request(neighbours=neighbours, options={"split": split})
    mechanism = METHODS.build("exponential-sums", request)
    law, quantizer = mechanism.noise, mechanism.encoder
    assert isinstance(law, StackedDiscs)
    assert isinstance(quantizer, ExponentialSums)
    spent = sum(
        noise.rate * request.factor * part.radius for noise, part in zip(law.parts, quantizer.parts, strict=True)
    )
    assert request.feature_epsilon * Fraction(99, 100) < spent <= request.feature_epsilon
    assert law.block == quantizer.size
    assert [part.groups for part in quantizer.parts] == list(law.blocks)


def test_the_best_split_is_the_best() -> None:
    made = exponential_sums.design(_request())
    varies = exponential_sums.pair_variances(Rational(1.0), made.approximation.rates, 0.02, 2.0)
    needs = np.array(made.approximation.weights) * varies**0.25
    costs = np.array(made.approximation.weights) ** 2 * np.sqrt(varies)
    shares = np.array([float(share) for share in made.shares])
    assert costs @ (1 / shares) < 1.02 * needs.sum() ** 2
    assert costs @ (1 / shares) < 0.9 * costs.sum() * len(shares)


def test_releases_are_read_back(tmp_path: Path) -> None:
    for method in ("exponential-sums", "exponential-sums-published"):
        model = PrivateKDE(KERNELS["l1"], epsilon=1, method=method, n_hint=N, random_state=1).fit(POINTS)
        path = tmp_path / f"{method}.sfm"
        model.release_.save(path)
        again = load(path)
        assert np.array_equal(again.query(QUERIES), model.query(QUERIES))
        assert "exponential-sums" in repr(again)


@pytest.mark.parametrize("spoiled", ["rates", "weights", "structures"])
def test_a_spoiled_header_is_refused(spoiled: str) -> None:
    model = PrivateKDE(KERNELS["l2"], epsilon=1, method="exponential-sums", n_hint=100, random_state=1).fit(
        POINTS[:100]
    )
    header = model.release_.describe()
    header["quantizer"] = {**header["quantizer"], spoiled: header["quantizer"][spoiled][1:]}
    with pytest.raises(ReleaseFileError):
        from_content(header, {"values": np.array(model.release_.values)})


def test_the_plan_is_what_is_built() -> None:
    made = plan(n_hint=N, dimension=DIMENSION, epsilon=EPSILON, kernel=KERNELS["l2"], bounds=(-12, 12))
    assert made.method == "exponential-sums"
    release = made.estimator(random_state=1).fit(POINTS[:500]).release_
    assert release.reader.terms == made.chosen.sizes["n_features"]
    assert len(release.to_bytes()) <= made.chosen.predicted.file_size
    low, high = made.interval
    assert low < made.error < high


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": Gaussian(1.0)}, "kernel rational"),
        ({"epsilon": Fraction(1, 10**4)}, "so little budget"),
        ({"options": {"split": "odd"}}, "'best' or 'even'"),
        ({"options": {"tolerance": 1e-9}}, "tolerance"),
        ({"options": {"n_features": 10**6}}, "allow"),
        ({"options": {"per_group": 3}}, "unknown option"),
    ],
)
def test_refusals_name_the_problem(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        METHODS.build("exponential-sums", _request(**arguments))


@pytest.mark.parametrize("density", [1e-9, 0.001, 0.3, 0.999])
@pytest.mark.parametrize("distance", ["l2", "sqeuclidean"])
def test_variances_of_pairs_are_possible_ones(density: float, distance: str) -> None:
    kernel = Rational(1.0, distance)
    varies = exponential_sums.pair_variances(kernel, exponential_sums.exponential_sum(1.0, 1e-4).rates, density)
    assert ((varies >= 0) & (varies <= 0.5)).all()
    assert np.argmax(varies) > 0 or density < 0.01  # the widest term hardly varies, unless everything is far away


def test_a_matrix_for_so_many_terms_that_a_reader_takes_too_long_is_refused() -> None:
    wide = _request(kernel=Rational(np.eye(400)), dimension=400, options={"tolerance": 1e-6})
    with pytest.raises(InputError, match="products.*a bandwidth that is no matrix"):
        exponential_sums.design(wide)
    terms = len(exponential_sums.design(_request(options={"tolerance": 1e-6})).pairs)
    with pytest.raises(InputError, match="products.*a bandwidth that is no matrix"):
        check_terms(Rational(np.eye(400)), 400, terms)
    check_terms(Rational(1.0), 400, terms)
