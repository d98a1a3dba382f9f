"""Bars of cells: a bias that is relative to the answer stays so where noise hides how many records a cell has."""

from __future__ import annotations

import numpy as np

from sfumato.kernels import Gaussian, Overlap, Product
from sfumato.quantizers import Box, Cells, GridQuantizer
from sfumato.quantizers.answer import Known


def test_a_cell_without_records_has_no_large_bias() -> None:
    """Counted by the records that its noisy sums show, fewer than none, the bias would be most of the noise itself."""
    grid = GridQuantizer(Gaussian(1.0), Box((-4.0, -4.0), (4.0, 4.0)), 0.8, 1)
    cells = Cells(Product(Gaussian(1.0), {2: Overlap(["a", "b"])}), grid)
    random = np.random.default_rng(1)
    noise = random.normal(0, 30 * grid.scale, cells.size)
    noise[grid.size :] -= noise[grid.size :].mean() + 1
    queries = np.column_stack([random.uniform(-3, 3, (30, 2)), np.ones(30)])
    answer = cells.read(queries, noise, Known(900.0 * grid.scale**2, count=1e5))
    assert np.median(answer.bias) < 0.1 * np.median(answer.standard_error) / 1e5
