"""Reports read as points: the density of the reported points, with their spread as the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.kernels import L1LSH, Gaussian
from sfumato.local import Protocol
from sfumato.privacy.laws import ReportNoise
from sfumato.published.local.readers import ReportedPoints
from sfumato.quantizers.box import Box


def test_a_sketch_whose_file_states_no_noise_shows_its_own_spread() -> None:
    points = np.random.default_rng(0).uniform(size=(60, 2))
    made = Protocol(L1LSH(0.5), 2, epsilon=4, participants=60, mechanism="mldp-kde", radius=0.1, bounds=(0, 1), seed=1)
    release = made.simulate(points, random_state=1)
    stated = release.query(points[:5], return_std=True)
    silent = replace(release, noise=ReportNoise(0.0)).query(points[:5], return_std=True)
    assert np.array_equal(stated[0], silent[0]) and (silent[1] > 0).all()
    assert silent[1] == pytest.approx(stated[1], rel=1e-12)  # it is counted in units of the noise, and rounded there


def test_reports_are_read_as_the_points_that_they_are() -> None:
    reports = np.random.default_rng(0).integers(-4, 5, size=(50, 2)).astype(float)
    reader = ReportedPoints(Gaussian(1.0), Box((0.0, 0.0), (2.0, 2.0)), (0.25, 0.5), reports=50, blur=0.0)
    points, queries = 1.0 + reports * [0.25, 0.5], np.array([[0.5, 0.5], [1.0, 2.0]])
    assert reader.points(reports.reshape(-1)) == pytest.approx(points)
    reading = reader.weigh(queries, reports.reshape(-1))
    assert reading.total / 50 == pytest.approx(Gaussian(1.0).exact_density(points, queries))
    assert reader.size == 100
