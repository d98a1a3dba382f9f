"""The constant row of a ranking: how much data spread at most, and as a rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.kernels import Gaussian, Laplacian
from sfumato.methods import plan
from sfumato.methods.ranking import largest_spread


@pytest.mark.parametrize("share", [0.3, 0.5, 0.75])
def test_no_data_spread_more_than_the_constant_rows_limit_and_a_cluster_attains_it(share: float) -> None:
    clustered = round(1000 * share)
    points = np.concatenate([np.zeros(clustered), 100.0 + 100.0 * np.arange(1000 - clustered)])[:, None]
    density = Gaussian(1.0).exact_density(points, points)
    limit = largest_spread(float(density.mean()))
    assert density.std() <= limit
    assert density.std() == pytest.approx(limit, rel=0.03)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(0.7)], ids=str)
def test_ordinary_data_spread_as_the_constant_row_says(kernel: Any) -> None:
    points = np.random.default_rng(3).normal(size=(1500, 2)) * [1.0, 3.0]
    density = kernel.exact_density(points, points)
    made = plan(n_hint=1500, epsilon=1, dimension=2, kernel=kernel, density=float(density.mean()))
    assert density.std() < made.constant.interval[1]
    assert made.constant.error == pytest.approx(density.std(), rel=0.5)
