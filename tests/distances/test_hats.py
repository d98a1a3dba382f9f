"""Numbers of records in intervals, read off releases of distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.distances import PrivateDistance, interval_counts
from sfumato.errors import InputError

ROWS = np.column_stack([np.random.default_rng(0).beta(2, 3, size=20_000), np.random.default_rng(1).random(20_000)])
LOWER, UPPER = np.array([0.0, 0.1, 0.4, 0.77, -3.0, 0.5]), np.array([0.25, 0.9, 0.45, 1.0, 5.0, 0.5])
FACTS: dict[str, Any] = {"epsilon": 1, "bounds": (0, 1), "n_hint": 20_000}


def exact(column: int) -> np.ndarray:
    values = ROWS[:, column]
    return np.array([((values >= low) & (values < high)).sum() for low, high in zip(LOWER, UPPER, strict=True)])


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize(
    ("method", "delta"), [("hat", 0.0), ("hat-gaussian", 1e-6), ("tree-published", 0.0), ("tree-consistent", 0.0)]
)
def test_counts_are_within_their_errors(method: str, delta: float, column: int) -> None:
    away = []
    for seed in range(60):  # of 25 a single Laplace number of eight deviations was enough: one round in 200
        model = PrivateDistance(**FACTS, method=method, delta=delta, random_state=seed, options=_small(method)).fit(
            ROWS
        )
        counts, errors = model.interval_counts(LOWER, UPPER, column, return_std=True)
        away.append((counts - exact(column)) / np.maximum(errors, 1))
    typical = np.sqrt(np.square(away).mean(axis=0))
    assert (typical < 1.8).all()
    assert typical[:5].max() > 0.2  # not absurdly wide
    assert np.array_equal(model.interval_counts(LOWER, UPPER, column), counts)


def _small(method: str) -> dict[str, int]:
    return {"levels": 10} if method.startswith("hat") else {"depth": 10}


def test_all_records_and_none() -> None:
    release = PrivateDistance(**FACTS, random_state=1).fit(ROWS).release_
    counts, errors = interval_counts(release, [-1.0, 0.3, -5.0], [2.0, 0.3, -4.0])
    assert abs(counts[0] - 20_000) < 6 * errors[0] and counts[1] == 0.0 and counts[2] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], [0.1]), "must not be above"),
        (([0.1, 0.2], [0.5]), "equally many"),
        (([np.nan], [0.5]), "finite"),
        (([0.1], [0.5], 2), "column must be"),
    ],
    ids=str,
)
def test_bad_intervals_are_named(arguments: tuple[Any, ...], message: str) -> None:
    release = PrivateDistance(**FACTS, random_state=1).fit(ROWS).release_
    with pytest.raises(InputError, match=message):
        interval_counts(release, *arguments)


def test_other_releases_hold_no_counts() -> None:
    for metric in ("l2", "sqeuclidean"):
        release = PrivateDistance(metric, **FACTS, random_state=1).fit(ROWS).release_
        with pytest.raises(InputError, match="do not hold counts"):
            interval_counts(release, [0.1], [0.5])
