"""Hash families against their kernels, the universal rehash, and counters as a quantizer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import L1LSH, L2LSH, Angular, Erfc, Exponential, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.kernels.registry import register
from sfumato.public_randomness import PublicStream
from sfumato.quantizers import HashingQuantizer, quantizer_from_document
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes import (
    BallCarving,
    HashFamily,
    Hyperplanes,
    MinHash,
    PStable,
    check_family,
    family_for,
    register_family,
)
from sfumato.quantizers.hashes.rehash import Rehash
from sfumato.quantizers.hashes.spread import SpreadStream, normals, uniform_table

BOUNDS = (-2.0, 2.0)
RANDOM = np.random.default_rng(2)
POINTS = np.vstack([RANDOM.uniform(-1.5, 1.5, size=(3, 3)), [[1.9, -1.9, 1.9]]])
POINTS = np.vstack([POINTS, POINTS[0] + 0.05, -POINTS[0]])
SETS = (RANDOM.random((6, 12)) < 0.4).astype(np.float64)
SETS[3] = 0
HASHED: list[tuple[Kernel, NDArray[Any], Any]] = [
    (L1LSH(1.3), POINTS, BOUNDS),
    (L1LSH([0.7, 1.9, 1.2]), POINTS, None),
    (L2LSH(1.3), POINTS, BOUNDS),
    (L2LSH([0.7, 1.9, 1.2]), POINTS, None),
    (L2LSH([[1.4, 0.5, 0.0], [-0.3, 1.1, 0.2], [0.1, 0.0, 0.8]]), POINTS, BOUNDS),
    (Laplacian(1.3), POINTS, BOUNDS),
    (Laplacian([0.7, 1.9, 1.2]), POINTS, None),
    (Hat([2.0, 5.0, 3.0]), POINTS, BOUNDS),
    (Exponential(1.7), POINTS, BOUNDS),
    (Exponential([1.2, 2.0, 1.5]), POINTS, [(-2, 3), (-2, 2), (-5, 2)]),
    (Angular(), POINTS, BOUNDS),
    (Angular(4), POINTS, [(-2, 2), (-2, 3), (-5, 2)]),
    (Angular(9), POINTS, BOUNDS),
    (Erfc(1.3), POINTS[:, :1], BOUNDS),
    (Erfc([1.3, 2.0]), POINTS[:, :2], BOUNDS),
    (Jaccard(), SETS, None),
]
names = [f"{kernel!r}" for kernel, _, _ in HASHED]
hashed = pytest.mark.parametrize(("kernel", "points", "bounds"), HASHED, ids=names)


@hashed
def test_collision_probability_is_the_kernel(kernel: Kernel, points: NDArray[Any], bounds: Any) -> None:
    family = family_for(kernel)
    assert family is not None
    check = check_family(family, kernel, points, bounds=bounds, rows=6000)  # a right family fails once in a million
    assert check.holds, check
    assert check.pairs == 66


@hashed
@pytest.mark.parametrize("spread", [True, False])
def test_features_are_unbiased_for_the_kernel(
    kernel: Kernel, points: NDArray[Any], bounds: Any, spread: bool
) -> None:
    quantizer = HashingQuantizer.draw(
        kernel, points.shape[1], 4000, seed=11, width=32, bounds=bounds, value=3, spread=spread
    )
    placed = np.empty(points.shape)
    quantizer.family.lattice.place(points, placed)
    exact = kernel.value((placed + quantizer.family.lattice.centre) * quantizer.family.lattice.steps, points)
    for i in (0, 3):
        sums = np.zeros(quantizer.size, dtype=np.int64)
        assert quantizer.accumulate(points[i : i + 1], sums) == 1
        terms = quantizer.term_values(points, sums.astype(float))
        error = terms.mean(axis=1) - exact[i]
        # 6 standard errors, and the points' rounding to the grid: false alarm below 1e-8 per comparison
        assert (np.abs(error) < 6 * terms.std(axis=1) / np.sqrt(quantizer.terms) + 1e-3).all()


@pytest.mark.parametrize(
    ("family", "claimed", "points"),
    [
        (PStable, L2LSH(1.2), POINTS),
        (Hyperplanes, Exponential(1.3), POINTS),
        (BallCarving, Erfc(1.1), POINTS[:, :1]),
        (MinHash, Jaccard(), np.vstack([SETS, SETS[0]])),
    ],
    ids=["p-stable", "hyperplanes", "balls", "min-hash"],
)
def test_a_wrong_claim_is_seen(family: Any, claimed: Any, points: NDArray[Any]) -> None:
    """A family of a ten percent smaller bandwidth, or with one column overlooked, does not pass."""

    class Wrong(family):  # type: ignore[misc]
        @classmethod
        def draw(cls, kernel: Any, *arguments: Any, **named: Any) -> Any:
            other = kernel if kernel.bandwidth is None else type(kernel)(0.9 * kernel.bandwidth)
            return family.draw(other, *arguments, **named)

        def cells(self, coordinates: Any) -> Any:
            raise NotImplementedError

    if family is MinHash:
        points = points.copy()
        drawn = family.draw(claimed, 20_000, 12, PublicStream(1, "hashing/check"))
        cells = drawn.cells(points[:, ::-1].copy() * [1] * 11 + [0]) if False else None
        assert cells is None
        check = check_family(_Overlooking, claimed, points)
    else:
        check = check_family(Wrong, claimed, points, bounds=None if family is PStable else BOUNDS)
    assert not check.holds


class _Overlooking(MinHash):
    """Min-hash that never sees the first column."""

    def cells(self, coordinates: Any) -> Any:
        blind = coordinates.copy()
        blind[:, 0] = 0
        return super().cells(blind)
