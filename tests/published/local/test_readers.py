"""Reports read as points: the density of the reported points, with their spread as the noise."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels import Gaussian
from sfumato.published.local.readers import ReportedPoints
from sfumato.quantizers.box import Box


def test_reports_are_read_as_the_points_that_they_are() -> None:
    reports = np.random.default_rng(0).integers(-4, 5, size=(50, 2)).astype(float)
    reader = ReportedPoints(Gaussian(1.0), Box((0.0, 0.0), (2.0, 2.0)), (0.25, 0.5), reports=50, blur=0.0)
    points, queries = 1.0 + reports * [0.25, 0.5], np.array([[0.5, 0.5], [1.0, 2.0]])
    assert reader.points(reports.reshape(-1)) == pytest.approx(points)
    reading = reader.weigh(queries, reports.reshape(-1))
    assert reading.total / 50 == pytest.approx(Gaussian(1.0).exact_density(points, queries))
    assert reader.size == 100
