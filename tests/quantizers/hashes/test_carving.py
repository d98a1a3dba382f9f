"""Grids, balls and orders: collisions as the kernels say, in few functions."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sfumato.kernels import Erfc, Hat, Jaccard, Kernel, Laplacian
from sfumato.public.portable import PublicStream
from sfumato.quantizers.hashes.base import HashFamily, check_family
from sfumato.quantizers.hashes.carving import BallCarving, Binning, MinHash

POINTS = np.random.default_rng(0).uniform(-1, 1, size=(5, 2))
SETS = np.random.default_rng(1).integers(0, 2, size=(5, 6)).astype(float)
CASES = [
    (Binning, Laplacian([1.0, 0.5]), POINTS, None),
    (Binning, Hat(2.0), POINTS, None),
    (BallCarving, Erfc(1.0), POINTS, (-1, 1)),
    (MinHash, Jaccard(), SETS, None),
]


@pytest.mark.parametrize(("family", "kernel", "points", "bounds"), CASES, ids=lambda case: str(case)[:30])
def test_points_collide_as_often_as_they_are_similar(
    family: type[HashFamily], kernel: Kernel, points: np.ndarray, bounds: object
) -> None:
    assert check_family(family, kernel, points, bounds=bounds, rows=3000).holds


def test_a_part_of_the_functions_gives_the_same_buckets() -> None:
    family = Binning.draw(Laplacian(1.0), 20, 2, PublicStream(3, "hashes"), (-1, 1))
    part = family.part(5, 9)
    assert (part.query_cells(POINTS) == family.query_cells(POINTS)[:, 5:9]).all()


@pytest.mark.parametrize("kernel", [Hat(0.5), Laplacian(0.5)], ids=str)
def test_memory_grows_with_the_columns_not_with_their_square(kernel: Kernel) -> None:
    tracemalloc.start()
    Binning.draw(kernel, 2, 5000, PublicStream(3, "hashes"), (0, 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * 8 * 5000


def test_what_has_no_axes_or_no_bounds_is_refused() -> None:
    assert "not a matrix" in str(Binning.refuse(Laplacian([[1.0, 0.5], [0.0, 1.0]]), 2, None))
    assert BallCarving.refuse(Erfc(1e-3), 2, (-1, 1)) is not None
