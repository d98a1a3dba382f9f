"""Error bars of projected squares cover what clipping does to records that are short or all alike."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.learn import DensityClassifier
from sfumato.learn.squared_distance import best_projections, clipped_parts, record_length

AXIS = np.eye(20)[0]
SPREAD = np.random.default_rng(1).normal(size=(3000, 20)) + 0.3
RECORDS = {
    "nothing": np.zeros((3000, 20)),
    "one place": np.tile(AXIS, (3000, 1)),
    "short": np.tile(0.5 * AXIS, (3000, 1)),
    "everywhere": SPREAD / np.linalg.norm(SPREAD, axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", RECORDS)
def test_error_bars_hold_the_truth(name: str) -> None:
    """One rotation in 400 has short records, all alike, beyond three bars: four of twenty with 2e-7."""
    records, queries = RECORDS[name], np.vstack([np.zeros(20), AXIS, -AXIS])
    truth, missed = np.square(records[:, None] - queries).sum(axis=2).mean(axis=0), 0
    for seed in range(20):
        model = DensityClassifier(
            epsilon=5, classes=["a"], n_hint=3000, rule="squared-distance", random_state=seed, feature_seed=seed
        ).fit(records, ["a"] * len(records))
        answers, errors = model.releases_["a"].query(queries, return_std=True)
        missed += (np.abs(answers - truth) >= 3 * errors).any()
        if name == "everywhere":
            assert (errors < 0.05).all()
    assert missed < 4


@pytest.mark.parametrize("clip", [0.5, 1.0, 3.0])
def test_the_length_of_records_is_found_again_from_what_clipping_left(clip: float) -> None:
    kept, square = clipped_parts(clip)
    assert 0 < square < kept < 1
    assert record_length(square, clip) == pytest.approx(1.0, abs=1e-3)
    assert record_length(square / 4, clip) < 1


def test_more_budget_and_records_pay_for_more_projections() -> None:
    few, many = best_projections(300, 1000, 0.1, 1.0), best_projections(300, 100_000, 4.0, 1.0)
    assert few < many
