"""Buckets of hash functions: a relative error, also for a small cluster."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.fast import HashingKDE
from sfumato.kernels import (
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Rational,
)

RANDOM = np.random.default_rng(0)
POINTS = np.vstack([RANDOM.normal(size=(9000, 5)), RANDOM.normal(size=(100, 5)) * 0.1 + 6])
QUERIES = np.vstack([POINTS[:30], POINTS[-10:]])


def _error(answers: np.ndarray, exact: np.ndarray) -> float:
    return math.sqrt(float(np.mean(np.square(answers - exact))))


HASHED: dict[str, Kernel] = {
    "laplacian": Laplacian(1.5),
    "gaussian": Gaussian(2.0),
    "exponential": Exponential(1.0),
    "rational": Rational(0.1),
    "rational, squares": Rational(0.3, "sqeuclidean"),
    "rational, l1": Rational(0.2, "l1"),
}


@pytest.mark.parametrize("name", HASHED)
def test_buckets_give_a_relative_error(name: str) -> None:
    kernel = HASHED[name]
    exact = kernel.exact_density(POINTS, QUERIES)
    big = exact >= 0.01
    assert big.sum() >= 10
    models = [HashingKDE(kernel, relative_error=0.1, smallest=0.01, seed=seed).fit(POINTS) for seed in range(4)]
    answers, bars = np.moveaxis([model.query(QUERIES, return_std=True) for model in models], 1, 0)
    assert _error(answers[:, big] / exact[big], np.ones(big.sum())) < 0.12
    scores = (answers - exact) / bars
    assert np.abs(scores).max() < 8  # of four runs; 4.3 was the most of eight
    # Queries share their hash functions: the mean square of a run is 0.8 to 1.1, with a deviation of 0.3 to 0.7.
    assert 0.5 < math.sqrt(np.mean(scores**2)) < 1.8


def test_buckets_find_a_small_cluster_that_a_sample_misses() -> None:
    kernel, cluster = Gaussian(1.0), POINTS[-10:]
    exact = kernel.exact_density(POINTS, cluster)
    assert 0.008 < exact.mean() < 0.012  # one point in ninety
    models = [HashingKDE(kernel, relative_error=0.1, smallest=0.01, seed=seed).fit(POINTS) for seed in range(4)]
    hashed = _error(np.array([model.query(cluster) for model in models]) / exact, np.ones(10))
    samples = [
        _error(kernel.exact_density(POINTS[RANDOM.choice(len(POINTS), models[0].tables)], cluster) / exact, np.ones(10))
        for _ in range(20)
    ]
    assert hashed < 0.1
    assert hashed < 0.4 * math.sqrt(np.mean(np.square(samples)))


def test_buckets_of_projected_points() -> None:
    points = RANDOM.normal(size=(4000, 256))
    kernel = Exponential(10.0)
    exact = kernel.exact_density(points, points[:30])
    model = HashingKDE(kernel, smallest=0.05, project_to=128).fit(points)
    assert _error(model.query(points[:30]) / exact, np.ones(30)) < 0.15
