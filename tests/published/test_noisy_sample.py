"""`noisy-sample`: the mean density for everyone, every record protected, coins as they should fall."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from sfumato import PrivateKDE
from sfumato.audit import audit
from sfumato.audit.cases.published import EVERYONE, sampled, small_sample
from sfumato.methods.registry import METHODS
from sfumato.privacy.bits import SecureBits
from sfumato.published.noisy_sample import SecretSample, largest_sample, largest_step, loss
from tests.published.requests import BOUNDS, KERNEL, POINTS, QUERIES, N, request

DENSITIES = KERNEL.exact_density(POINTS, POINTS)
MEAN = float(DENSITIES.mean())


def _answers(epsilon: float, runs: int, neighbours: str = "add-remove") -> np.ndarray:
    models = [
        PrivateKDE(
            bandwidth=1.0,
            epsilon=epsilon,
            method="noisy-sample",
            bounds=BOUNDS,
            n_hint=N,
            neighbours=neighbours,
            random_state=seed,
        ).fit(POINTS)
        for seed in range(runs)
    ]
    return np.array([model.query(QUERIES) for model in models])


def test_everyone_hears_the_mean_density() -> None:
    answers = _answers(50, runs=40)
    assert (answers == answers[:, :1]).all()
    # The sample's size and densities scatter by about 12 % together: 5.5 standard errors of 40 runs.
    assert abs(answers[:, 0].mean() / MEAN - 1) < 5.5 * answers[:, 0].std() / MEAN / math.sqrt(40)
    assert 0.06 < answers[:, 0].std() / MEAN < 0.2


def test_noise_is_as_predicted() -> None:
    """Of known n: squares of what a noisy count does have so long a tail that 60 runs would not know them."""
    answers = _answers(0.2, runs=60, neighbours="replace")[:, 0]
    step = largest_step(0.2, 100, N)
    # Each record is in the sample with probability 1 / 20.
    expected = 2 / (step * 100) ** 2 + 0.95 * np.square(DENSITIES).mean() / 100
    # Nearly normal errors, since the sample scatters more than the noise: a chi-square's limits at 1e-6.
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 60) / 60
    assert low < ((answers - MEAN) ** 2).mean() / expected < high


def test_the_step_spends_the_budget() -> None:
    for epsilon, sample, records in product((1e-3, 0.05, 1.0, 20.0, 900.0), (1, 100), (100, 10**5, 10**15)):
        step = largest_step(epsilon, sample, records)
        assert epsilon * (1 - 1e-6) < loss(step, sample, records) <= epsilon
    assert largest_step(0.05, 100, 10**5) > 50 * 0.05  # what hiding the sample is worth
    assert largest_sample(100) == 140


def test_coins_sample_each_record_alike() -> None:
    algorithm = METHODS.build("noisy-sample", request(n=50, options={"sample": 5})).algorithm
    assert isinstance(algorithm, SecretSample)
    histogram = np.zeros(algorithm.queries.grid.cells, dtype=np.int64)
    histogram[[3, 10, 40]] = (1, 20, 4)
    bits = SecureBits.seeded(1)
    drawn = [algorithm.draw(histogram, bits) for _ in range(4000)]
    hits = np.bincount(np.concatenate(drawn), minlength=len(histogram))
    assert hits.sum() == hits[[3, 10, 40]].sum()
    for node, records in ((3, 1), (10, 20), (40, 4)):
        assert binomtest(int(hits[node]), 4000 * records, 0.1).pvalue > 1e-6
    together = sum(3 in each and 40 in each for each in drawn) / 4000
    assert abs(together - 0.1 * (1 - 0.9**4)) < 5 * math.sqrt(0.035 / 4000)


def test_too_large_a_sample_is_cut() -> None:
    algorithm = METHODS.build("noisy-sample", request(n=50, options={"sample": 50})).algorithm
    histogram = np.zeros(algorithm.queries.grid.cells, dtype=np.int64)
    histogram[:2] = 200
    cut = [algorithm.draw(histogram, SecureBits.seeded(seed)) for seed in range(20)]
    assert {len(each) for each in cut} == {largest_sample(50)} == {78}
    assert 0.35 < np.mean([(each == 0).mean() for each in cut]) < 0.65


def test_densities_are_held_to_the_guess_of_n() -> None:
    algorithm = METHODS.build("noisy-sample", request(n=50, options={"sample": 5})).algorithm
    histogram = np.zeros(algorithm.queries.grid.cells, dtype=np.int64)
    histogram[7] = 400
    assert algorithm.total(histogram, np.array([7, 7])) == 2 * 50 * algorithm.queries.scale


@pytest.mark.parametrize(("sample", "records"), [(1, 1), (1, 2), (1, 4), (2, 3)])
def test_exact_probabilities_keep_the_claim(sample: int, records: int) -> None:
    case = sampled(small_sample(sample, records), list(product(range(3), range(2), range(2))))
    result = audit(case)
    assert result.holds and result.lower_bound > 0.15 * result.claim.value


def test_the_noise_of_the_source_does_not_protect_the_sample() -> None:
    mechanism = small_sample(100, 100)
    algorithm = mechanism.algorithm
    # Laplace noise of scale 1 / (epsilon n) on the mean over 100 records is of rate epsilon / (100 s) on the sum.
    law = replace(algorithm.law, rate=Fraction(19, 10) / (100 * algorithm.queries.scale))
    broken = replace(mechanism, algorithm=replace(algorithm, law=law))
    assert audit(sampled(mechanism, EVERYONE)).holds
    assert not audit(sampled(broken, EVERYONE)).holds
