"""The check of a hash family: right ones hold, one that collides too often does not."""

from __future__ import annotations

import numpy as np

from sfumato.kernels import L2LSH, Gaussian, Laplacian
from sfumato.quantizers.hashes.base import check_family, family_for
from sfumato.quantizers.hashes.carving import Binning
from sfumato.quantizers.hashes.linear import PStable

POINTS = np.random.default_rng(0).normal(size=(5, 2))


def test_families_are_found_by_their_kernels() -> None:
    assert family_for(L2LSH(1.0)) is PStable and family_for(Laplacian(1.0)) is Binning
    assert family_for(Gaussian(1.0)) is None and family_for(None) is None


def test_a_right_family_holds_and_one_for_another_bandwidth_does_not() -> None:
    assert check_family(PStable, L2LSH(1.0), POINTS, rows=4000).holds

    class Wider(PStable):
        """Hashes as for a bandwidth of its own."""

        @classmethod
        def draw(cls, kernel: L2LSH, *arguments: object, **options: object) -> PStable:  # type: ignore[override]
            return PStable.draw(L2LSH(1.5), *arguments, **options)  # type: ignore[arg-type]

    found = check_family(Wider, L2LSH(1.0), POINTS, rows=4000)
    assert not found.holds and found.observed > found.claimed
