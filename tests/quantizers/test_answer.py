from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.kernels import Gaussian
from sfumato.quantizers import Bound, Box, FourierQuantizer
from sfumato.quantizers.answer import Known, Reading
from sfumato.quantizers.base import LinearQuantizer

QUERIES = np.random.default_rng(0).normal(size=(6, 2))


class Coordinates(LinearQuantizer):
    """A user's own family: the inner product of points in the unit square, as fixed-point integers."""

    name = "coordinates"
    box = Box((0.0, 0.0), (1.0, 1.0))  # type: ignore[assignment]
    width = 2  # type: ignore[assignment]
    bound = Bound(l1=2000, l2_squared=2 * 1000**2, largest=1000)  # type: ignore[assignment]

    def encode(self, rows: Any, coins: Any = None) -> Any:
        return np.rint(np.clip(rows, 0, 1) * 1000).astype(np.int64)

    def weights(self, Y: Any) -> Any:
        return Y / 1000

    def weigh(self, Y: Any, sums: Any) -> Reading:
        weights = self.weights(Y)
        return Reading(weights @ sums, (weights**2).sum(axis=1), np.full(len(Y), 0.25))

    def to_document(self) -> Any:
        return {"quantizer": self.name}, {}


def test_linear_answers_carry_the_noise_of_their_weights() -> None:
    quantizer = Coordinates()
    sums = np.zeros(2, dtype=np.int64)
    points = np.random.default_rng(1).uniform(size=(50, 2))
    assert quantizer.accumulate(points, sums) == 50
    answer = quantizer.read(QUERIES, sums.astype(float), Known(9.0))
    assert np.allclose(answer.total, points.sum(axis=0) @ QUERIES.T, atol=0.2)
    assert np.allclose(answer.standard_error, 3 * np.linalg.norm(QUERIES, axis=1) / 1000)
    assert np.array_equal(answer.bias, np.full(6, 0.25))


@pytest.mark.parametrize("groups", [1, 5])
def test_monte_carlo_error_bars_match_the_spread_over_draws(groups: int) -> None:
    """The mean square of 400 standard errors against the variance of 400 answers, both known to 8 %: 5 deviations."""
    totals, squares = [], []
    for seed in range(400):
        quantizer = FourierQuantizer.draw(Gaussian(1.0), 2, 200, seed, layout="phase")
        noise = np.random.default_rng(seed).normal(size=200) * 30_000
        sums = quantizer.encode(QUERIES[:3]).sum(axis=0) + noise
        answer = quantizer.read(QUERIES[3:4], sums, Known(1.0, groups=groups))
        totals.append(answer.total[0])
        squares.append(answer.standard_error[0] ** 2)
    assert np.mean(squares) / np.var(totals) == pytest.approx(1, abs=0.4)


def test_one_term_has_no_spread_to_judge_by() -> None:
    quantizer = FourierQuantizer.draw(Gaussian(1.0), 2, 1, 3)
    assert np.isinf(quantizer.read(QUERIES, np.ones(2), Known(1.0)).standard_error).all()
