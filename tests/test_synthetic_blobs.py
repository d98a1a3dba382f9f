"""The blobs of the published experiments."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthetic import BOUNDS, SHARES, bandwidth, blobs, radius
from sfumato.errors import InputError
from sfumato.kernels import L2LSH


def test_blobs_are_ten_tight_ones_of_known_shares() -> None:
    points, queries = blobs(20_000, 6)
    assert points.shape == (20_000, 6)
    assert queries.shape == (100, 6)
    assert (points > BOUNDS[0]).all() and (points < BOUNDS[1]).all()
    centres = np.unique(points.round(1), axis=0)
    assert len(centres) >= 10
    near = np.linalg.norm(points - points[0], axis=1) < 0.2
    assert near.mean() == pytest.approx(min(SHARES, key=lambda share: abs(share - near.mean())), abs=0.03)
    assert points[near].std(axis=0) == pytest.approx(0.01, rel=0.1)


def test_the_same_seed_gives_the_same_points() -> None:
    assert (blobs(50, 2)[0] == blobs(50, 2)[0]).all()
    assert not (blobs(50, 2)[0] == blobs(50, 2, seed=1)[0]).all()


def test_the_published_bandwidth_gives_useful_densities() -> None:
    points, queries = blobs(2000, 10)
    densities = L2LSH(bandwidth(10)).exact_density(points, queries)
    assert 0.1 < densities.mean() < 0.9
    assert radius(10) < bandwidth(10) / 50


def test_no_blobs_without_points() -> None:
    with pytest.raises(InputError):
        blobs(0, 2)
