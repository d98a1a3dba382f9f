"""Projections, signs and tessellations: collisions as the kernels say, in few functions."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels import L1LSH, L2LSH, Angular, Exponential, Kernel
from sfumato.public.portable import PublicStream
from sfumato.quantizers.hashes.base import HashFamily, check_family
from sfumato.quantizers.hashes.linear import Hyperplanes, PStable, SignedProjections

POINTS = np.random.default_rng(0).uniform(-1, 1, size=(5, 3))
CASES = [
    (PStable, L1LSH(2.0), None),
    (PStable, L2LSH([1.0, 2.0, 0.5]), None),
    (SignedProjections, Angular(power=2), (-1, 1)),
    (Hyperplanes, Exponential(1.0), (-1, 1)),
]


@pytest.mark.parametrize(("family", "kernel", "bounds"), CASES, ids=lambda case: str(case)[:30])
def test_points_collide_as_often_as_they_are_similar(family: type[HashFamily], kernel: Kernel, bounds: object) -> None:
    assert check_family(family, kernel, POINTS, bounds=bounds, rows=3000).holds


def test_opposite_directions_have_opposite_signs() -> None:
    family = SignedProjections.draw(Angular(power=4), 10, 3, PublicStream(3, "hashes"), (-1, 1))
    cells = family.query_cells(np.array([[0.3, -0.2, 0.9], [-0.3, 0.2, -0.9]]))
    assert (cells[0] ^ cells[1] == 15).all()


def test_hyperplanes_need_bounds() -> None:
    assert Hyperplanes.refuse(Exponential(1.0), 3, None) is not None
    assert Hyperplanes.refuse(Exponential(1.0), 3, (-1, 1)) is None
