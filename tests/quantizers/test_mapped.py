"""A quantizer behind a map reads and encodes the images, and nothing else."""

from __future__ import annotations

import numpy as np

from sfumato.kernels import Circle, Curved, Gaussian
from sfumato.quantizers import Box, FourierQuantizer
from sfumato.quantizers.answer import Known
from sfumato.quantizers.curving import CurvedPoints
from sfumato.quantizers.mapped import Mapped

KERNEL = Curved(Gaussian(2.0), {0: Circle(24)})
INNER = FourierQuantizer.draw(KERNEL.images, 3, 50, seed=1, bounds=(-4, 4))
BEHIND = CurvedPoints(KERNEL, INNER, Box((0.0, -4.0), (24.0, 4.0)))
POINTS = np.random.default_rng(0).uniform([0, -4], [24, 4], size=(30, 2))


def test_integers_and_answers_are_the_inner_ones_of_the_images() -> None:
    assert isinstance(BEHIND, Mapped) and (BEHIND.size, BEHIND.bound) == (INNER.size, INNER.bound)
    images = BEHIND.apply(POINTS)
    assert (BEHIND.encode(POINTS) == INNER.encode(images)).all()
    sums, known = BEHIND.encode(POINTS).sum(axis=0).astype(float), Known(1.0, count=30)
    assert (BEHIND.read(POINTS, sums, known).total == INNER.read(images, sums, known).total).all()
