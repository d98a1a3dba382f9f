"""Selection from a pool: the right rows in bounded memory, and samples in proportion to scores."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import InputError, PrivateDistance, PrivateKDE, Release
from sfumato.learn import select
from sfumato.learn import selection as module
from sfumato.learn.selection import scorer

POINTS = np.random.default_rng(0).normal(size=(3000, 4))
POOL = 2 * np.random.default_rng(1).normal(size=(5000, 4))
SEEDED: dict[str, Any] = {"epsilon": 2, "n_hint": 3000, "random_state": 3, "feature_seed": 4}


def released(**arguments: Any) -> Release:
    return PrivateKDE(**{**SEEDED, "bandwidth": 2.0, **arguments}).fit(POINTS).release_


FOURIER = released(method="lsq-rff", options={"n_features": 300})
KINDS = {
    "phases": FOURIER,
    "pairs": released(method="fourier-gaussian", delta=1e-6, options={"n_features": 200}),
    "groups": released(method="fourier"),
    "medians": released(method="lsq-rff", options={"alpha": 0.3, "eta": 0.2}),
    "bounded": released(method="lsq-rff", options={"n_features": 90}, bounds=[(-3, 5)] * 4),
    "inner product": released(kernel="inner-product", bandwidth=9.0),
    "distance": PrivateDistance("sqeuclidean", bounds=(-9, 9), **SEEDED).fit(POINTS).release_,
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_VALUES", 1)
    monkeypatch.setattr(module, "FEWEST_ROWS", 700)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_the_releases_answers(kind: str) -> None:
    release = KINDS[kind]
    sign = -1 if kind == "distance" else 1
    for rows in (POOL, POOL.astype(np.float32), 1000 + POOL):
        answers = sign * release.query(rows)
        # Single precision of phases up to 64 turns moves a cosine by 1e-5 or so, and the mean of many by less.
        assert np.abs(scorer(release)(rows) - answers).max() < 1e-5 * max(1.0, np.abs(answers).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 50, 4999])
def test_the_highest_scores_are_selected_in_order(kind: str, k: int) -> None:
    scores = scorer(KINDS[kind])(POOL)
    selection = select(KINDS[kind], POOL, k)
    assert len(selection) == k
    # A matrix product's last digits depend on the height of the block, so equals may change places.
    assert np.allclose(selection.scores, np.sort(scores)[::-1][:k], rtol=1e-6, atol=1e-8)
    assert np.allclose(selection.scores, scores[selection.positions], rtol=1e-6, atol=1e-8)
    assert len(set(selection.positions.tolist())) == k


@pytest.mark.parametrize("threads", [1, 3])
def test_every_kind_of_pool_gives_the_same_rows(threads: int, tmp_path: Path) -> None:
    table = pa.table({f"c{j}": POOL[:, j] for j in range(4)} | {"text": [f"row {i}" for i in range(5000)]})
    (tmp_path / "pool").mkdir()
    pq.write_table(table.slice(0, 1800), tmp_path / "pool" / "1.parquet", row_group_size=333)
    pq.write_table(table.slice(1800), tmp_path / "pool" / "2.parquet")
    expected = select(FOURIER, POOL, 100)
    names = [f"c{j}" for j in range(4)]
    for pool in (tmp_path / "pool", table, (POOL[i : i + 900] for i in range(0, 5000, 900))):
        columns = None if isinstance(pool, Iterator) else names
        selection = select(FOURIER, pool, 100, columns=columns, threads=threads)
        assert np.array_equal(selection.positions, expected.positions)
    assert np.array_equal(select(FOURIER, tmp_path / "pool", 0.02, columns=names).positions, expected.positions)


def test_rows_that_are_not_numbers_are_never_selected_and_equal_rows_come_in_order() -> None:
    pool = np.zeros((4000, 4))
    pool[::2] = np.nan
    pool[5, 1] = np.inf
    positions = select(FOURIER, pool, 3000).positions
    assert np.array_equal(positions, [i for i in range(1, 4000, 2) if i != 5])
    assert np.array_equal(select(FOURIER, pool, 10).positions, positions[:10])


def test_a_sample_follows_the_scores() -> None:
    """One draw of k = 1 is a row with the probability of its share: a chi-square of 9 degrees stays below 50."""
    pool = np.zeros((10, 4))
    pool[:, 0] = np.linspace(0, 2.5, 10)
    scores = np.maximum(FOURIER.query(pool), 0)
    counts = np.bincount([int(select(FOURIER, pool, 1, sample=True, random_state=s).positions[0]) for s in range(1000)])
    expected = 1000 * scores / scores.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 50  # probability 1e-7
    # 140 and 50 are expected, but for features: 1.5 times as many are three deviations away, as many are five.
    assert counts[0] > counts[9]


def test_a_sample_is_without_replacement_reproducible_and_never_of_noise() -> None:
    far = np.vstack([POOL, np.full((500, 4), 40.0) + POOL[:500]])
    first, second, other = (
        select(FOURIER, far, 600, sample=True, random_state=s, threads=t) for s, t in ((1, 1), (1, 3), (2, 2))
    )
    assert np.array_equal(first.positions, second.positions) and not np.array_equal(first.positions, other.positions)
    assert len(set(first.positions.tolist())) == 600 and (first.scores > 0).all()
    everything = select(FOURIER, far, 6000, sample=True, random_state=1)
    # Scores of single precision: of 5,500 some may be nearer to 0 than their last digits.
    least, most = ((FOURIER.query(far) > limit).sum() for limit in (1e-5, -1e-5))
    assert least <= len(everything) <= most < 5500
    unseeded = [select(FOURIER, POOL, 20, sample=True).positions for _ in range(2)]
    assert not np.array_equal(*unseeded)


@pytest.mark.once
def test_memory_does_not_grow_with_the_pool() -> None:
    def rows(count: int) -> Iterator[np.ndarray]:
        random = np.random.default_rng(0)
        return (random.normal(size=(2000, 4)) for _ in range(count))

    def peak(count: int) -> int:
        tracemalloc.start()
        select(FOURIER, rows(count), 500, threads=1)  # how far several read ahead depends on their luck
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(2)
    assert peak(100) < 1.5 * peak(10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be a positive number"),
        ({"k": 1.5}, "k must be a positive number"),
        ({"k": True}, "k must be a positive number"),
        ({"k": 0.1, "pool": iter([POOL])}, "length is not known beforehand"),
        ({"pool": POOL[:, :3]}, "3 columns and the release has 4"),
        ({"release": KINDS["distance"], "sample": True}, "sampling needs similarities"),
        ({"threads": 0}, "threads must be a positive whole number"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(**{"release": FOURIER, "pool": POOL, "k": 5, **change})
