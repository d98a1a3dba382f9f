"""Histograms that bandwidths are read from: where rows go, and how little one record changes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sfumato.bandwidth.statistics import PAIR_CELLS, PairDistances, _pair_up, placed
from sfumato.engines import Threads
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

N = 10_000
NORMAL = np.random.default_rng(0).normal(size=(N, 3))


@pytest.mark.parametrize("outside", ["clip", "drop"])
def test_rows_outside_are_placed_as_declared(outside: str) -> None:
    box = Box.from_bounds((0, 1), 1, outside)
    rows = placed(np.array([[0.5], [2.0], [np.nan], [-1.0]], dtype=np.float32), box)
    assert rows.ravel().tolist() == ([0.5, 1.0, 0.0] if outside == "clip" else [0.5])


def test_one_record_changes_the_pairs_by_one_at_most_whatever_the_coins() -> None:
    statistic = PairDistances(Box.from_bounds((-1, 1), 1), "gaussian", 0.02, 3, (1.0,))
    rows = np.array([[-1.0], [1.0], [0.3], [0.31], [0.9]])

    def counts(kept: list[int], groups: tuple[int, ...]) -> np.ndarray:
        sizes, cells, first = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros((3, 1))
        _pair_up(rows[kept], np.array(groups)[kept], sizes, first, cells, statistic._edges, 2)
        return np.bincount(cells[sizes == 2], minlength=PAIR_CELLS)

    changes = set()
    for groups in product(range(3), repeat=5):
        full = counts(list(range(5)), groups)
        assert (full == counts([4, 2, 0, 3, 1], groups)).all()
        for left_out in range(5):
            changes.add(int(np.abs(full - counts([i for i in range(5) if i != left_out], groups)).sum()))
    assert changes == {0, 1}


def test_about_as_many_pairs_are_found_as_predicted() -> None:
    statistic = PairDistances(Box.from_bounds((-8, 8), 3), "gaussian", 0.02, N, (1.0,) * 3)
    found = statistic.count(Threads(), open_source(NORMAL), SecureBits.seeded(3)).sum()
    # About 0.15 n of variance: five standard deviations.
    assert found == pytest.approx(statistic.pairs, abs=5 * np.sqrt(0.15 * N))


@pytest.mark.parametrize("later", [1, PAIR_CELLS // 2, PAIR_CELLS - 1])
def test_pairs_that_the_noise_of_farther_cells_hides_are_taken_for_none(later: int) -> None:
    """Few pairs at first are doubtful again farther on: a bandwidth comes out all the same, the widest."""
    statistic = PairDistances(Box.from_bounds((-8, 8), 2), "gaussian", 0.02, N, (1.0, 1.0))
    nothing, few = np.zeros(PAIR_CELLS, dtype=np.int64), np.zeros(PAIR_CELLS, dtype=np.int64)
    few[[0, later]] = 30, 3
    assert np.array_equal(statistic.read(few, 9.0), statistic.read(nothing, 9.0))
    few[0] = 100_000
    assert (statistic.read(few, 9.0) < statistic.read(nothing, 9.0)).all()
