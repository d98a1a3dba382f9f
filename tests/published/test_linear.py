"""Mechanisms that add noise: errors as their formulas say, bars that tell the truth, noise of the stated rate."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato import PrivateKDE
from sfumato.methods.registry import METHODS
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.release import Count
from tests.published.requests import (
    BOUNDS,
    DENSITY,
    GAUSSIAN,
    LINEAR,
    LISTS,
    POINTS,
    QUERIES,
    TRUTH,
    N,
    facts,
    request,
)

RUNS = 80
SIZES: dict[str, dict[str, Any]] = {
    "lsq-fgt": {"rho": 4},
    "bernstein": {"degree": 5},
    "even-trig": {"degree": 6},
}
MESH = np.stack(np.meshgrid(*[(np.arange(40) + 0.5) / 40] * 2), axis=-1).reshape(-1, 2)
PREDICTED = (
    MESH * [6, 4],
    MESH * [2, 4 / 3] + [2, 4 / 3],
)  # queries all over the box, and in the middle as lsq-fgt's are
CASES = [(name, {}) for name in LINEAR] + [("lsq-fgt", {"groups": 5}), ("lsq-fgt", {"cutoff": "fixed"})]


def _exact_sums(quantizer: Any) -> np.ndarray:
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(POINTS, sums)
    return sums


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("name", "more"), CASES)
def test_error_is_the_formula(name: str, more: dict[str, Any], neighbours: str) -> None:
    settings = facts(name, **SIZES.get(name, {}), **more)
    errors, bars = [], []
    for seed in range(RUNS):
        model = PrivateKDE(
            bandwidth=1.0,
            epsilon="1/2",
            method=name,
            bounds=BOUNDS,
            n_hint=N,
            neighbours=neighbours,
            random_state=seed,
            **settings,
        ).fit(POINTS)
        answers, error = model.query(QUERIES, return_std=True)
        errors.append(answers - TRUTH)
        bars.append(error)
    release = model.release_
    reading = release.reader.weigh(QUERIES, _exact_sums(release.reader).astype(float))
    bias = reading.total / N - TRUTH
    noise = release.noise.variance * reading.weight_squares / N**2
    counts = release.count.variance * (reading.total / N**2) ** 2
    squares = (np.array(errors) ** 2).mean(axis=1)
    # t statistics of 5.5 over 80 runs: false alarms near 1e-6
    tolerance = 5.5 * squares.std() / math.sqrt(RUNS)
    assert tolerance < 0.6 * squares.mean()
    assert abs(squares.mean() - (noise + counts + bias**2).mean()) < tolerance
    drift = np.array(errors).mean(axis=1)
    assert abs(drift.mean() - bias.mean()) < 5.5 * drift.std() / math.sqrt(RUNS)
    # Bars of the expansions take the misfit for spiky data; these points are smooth and miss less.
    largest = {"histogram": 2.0, "bernstein": 4.0, "even-trig": 4.0, "lsq-fgt": 1.5}.get(name, 1.1)
    assert 0.9 < math.sqrt(np.mean(np.square(bars)) / (noise + counts + bias**2).mean()) < largest


@pytest.mark.parametrize(("name", "more"), CASES)
def test_noise_has_the_stated_variance(name: str, more: dict[str, Any]) -> None:
    """The published answers scatter around the exact ones as `weight_squares` says."""
    settings = facts(name, **SIZES.get(name, {}), **more)
    mechanism = METHODS.build(name, request(**settings))
    sums, bits = _exact_sums(mechanism.encoder), SecureBits.seeded(name)
    exact = mechanism.encoder.weigh(QUERIES, sums.astype(float))
    noisy = [
        mechanism.encoder.weigh(QUERIES, mechanism.publish(sums, Count(N, 0.0, True), bits).astype(float)).total
        for _ in range(400)
    ]
    scores = ((np.array(noisy) - exact.total) ** 2 / (mechanism.noise.variance * exact.weight_squares)).mean(axis=1)
    allowed = 0.12 if more.get("groups") else 0.0  # pi / (2 J) is for many groups of normal noise
    assert abs(scores.mean() - 1) < 5.5 * scores.std() / math.sqrt(400) + allowed


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 10)])
@pytest.mark.parametrize("name", LINEAR)
def test_predictions_of_noise_hold(name: str, epsilon: Fraction) -> None:
    asked = request(epsilon=epsilon, **facts(name, **SIZES.get(name, {})))
    predicted = METHODS[name].predict(asked, 1e-9).rmse
    mechanism = METHODS.build(name, asked)
    queries = QUERIES if name in LISTS else PREDICTED[name == "lsq-fgt"]
    reading = mechanism.encoder.weigh(queries, np.zeros(mechanism.encoder.size))
    noise = math.sqrt(mechanism.noise.variance * reading.weight_squares.mean()) / N
    assert predicted == pytest.approx(noise, rel=0.12)


@pytest.mark.parametrize(("name", "largest"), [("lsq-fgt", 4), ("bernstein", 4), ("even-trig", 30)])
def test_predicted_misfit_is_not_too_small(name: str, largest: float) -> None:
    """It is that of spiky data; smooth points miss less, above all where the error oscillates (even-trig)."""
    asked = request(epsilon=Fraction(1000), **facts(name, **SIZES[name]))
    predicted = METHODS[name].predict(asked, DENSITY).rmse
    quantizer = METHODS.build(name, asked).encoder
    bias = quantizer.weigh(QUERIES, _exact_sums(quantizer).astype(float)).total / N - TRUTH
    measured = math.sqrt((bias**2).mean())
    assert 0.7 * measured < predicted < largest * measured


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_laplace_rates(neighbours: str) -> None:
    budget = Fraction(19, 20) if neighbours == "add-remove" else Fraction(1)
    expected = {
        "lsq-fgt": 2**20 * Fraction(15, 8) ** 2 * (1 if neighbours == "add-remove" else 2),
        "bernstein": 2**15 * 36,  # values from 0 to s: replacing changes no more than adding
        "even-trig": 2**15 * (36 if neighbours == "add-remove" else 2 * 35),
        "laplace-queries": (2**15 - 1) * 40,
    }
    for name, sensitivity in expected.items():
        mechanism = METHODS.build(name, request(neighbours=neighbours, **facts(name, **SIZES.get(name, {}))))
        assert mechanism.noise.rate == budget / sensitivity, name


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_gaussian_sigmas(name: str, neighbours: str) -> None:
    mechanism = METHODS.build(name, request(neighbours=neighbours, **facts(name)))
    budget = 0.95 if neighbours == "add-remove" else 1.0
    sensitivity = math.sqrt(40) if name == "gaussian-queries" else (1 if neighbours == "add-remove" else 2)
    multiplier = mechanism.noise.sigma / (sensitivity * mechanism.encoder.scale)
    assert multiplier == pytest.approx(gaussian_multiplier(budget, 1e-6), rel=1e-3)


def test_users_get_more_noise() -> None:
    for name in LINEAR:
        settings = facts(name, **SIZES.get(name, {}))
        one = METHODS.build(name, request(**settings))
        users = {**settings, "options": {**settings["options"], "max_records_per_user": 3}}
        three = METHODS.build(name, request(unit="user", **users))
        assert three.noise.variance == pytest.approx(9 * one.noise.variance, rel=1e-3)
