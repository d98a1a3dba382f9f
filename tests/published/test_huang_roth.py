"""The learner of convex functions: zero with a thousand records, sensible with many."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.kernels import Distance
from sfumato.methods.registry import DISTANCES
from sfumato.privacy.bits import SecureBits
from sfumato.published import huang_roth
from sfumato.published.huang_roth import CELLS, Learner
from tests.distances.runs import built, request, run

GRID = np.linspace(0, 1, 51)[:, None]


@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1"])
def test_it_answers_zero_with_a_thousand_records(epsilon: str) -> None:
    rows = np.random.default_rng(0).random((1000, 1))
    mechanism = built("huang-roth", epsilon=Fraction(epsilon))
    sums = mechanism.encoder.encode(rows).sum(axis=0)
    assert mechanism.algorithm is not None
    for seed in range(20):
        published = mechanism.algorithm(sums, None, SecureBits.seeded(seed))  # type: ignore[arg-type]
        assert not published.any()
    learner = Learner.of(request(epsilon=Fraction(epsilon)))
    assert 2 * learner.slack > 1000 * CELLS / 2  # above the largest sum of distances of even records


def test_its_error_is_that_of_zero_and_the_hats_are_a_hundred_times_better() -> None:
    rows = np.random.default_rng(1).random((1000, 1))
    zero = run(built("huang-roth"), rows, GRID, 5, "zero")
    assert zero.rmse == pytest.approx(DISTANCES["huang-roth"].predict(request(), 0.0).rmse, rel=0.05)
    exact = Distance("l1").exact_density(rows, GRID) * 1000
    assert np.allclose(zero.errors, -exact)
    assert run(built("hat"), rows, GRID, 20, "hat").rmse < zero.rmse / 100


def test_with_many_records_it_learns_within_its_promise() -> None:
    counts = np.bincount(np.random.default_rng(2).binomial(CELLS, 0.3, size=3_000_000), minlength=CELLS + 1)
    facts = request(n=3_000_000)
    learner, bits = Learner.of(facts), SecureBits.seeded(3)
    points = np.arange(CELLS + 1)
    exact = np.abs(points[:, None] - points) @ counts
    learned = learner.learn(counts, bits)
    assert np.abs(learned - exact).max() < 3 * learner.slack
    assert np.abs(learned - exact).max() < 0.1 * exact.max()


def test_no_more_anchors_than_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    interpolate = np.interp

    def spy(points: Any, known: list[int], values: list[int]) -> Any:
        drawn.append(list(known))
        return interpolate(points, known, values)

    monkeypatch.setattr(huang_roth.np, "interp", spy)
    Learner(anchors=4, epsilon=Fraction(1), slack=0).learn(np.full(9, 1000), SecureBits.seeded(4))
    assert 1 <= len(drawn) <= 4 and drawn[0][0] in (0, 8)
