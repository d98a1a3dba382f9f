"""Means and covariances as integers: hard bounds for any records, and what they are without noise."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.audit.cases.prices import places
from sfumato.central.covariances import Covariances
from sfumato.quantizers.box import Box


@pytest.mark.parametrize("columns", [1, 2, 5, 9])
@pytest.mark.parametrize("scale", [16, 128])
def test_no_record_is_beyond_the_bounds(columns: int, scale: int) -> None:
    encoder = Covariances(Box.from_bounds((-3.0, 5.0), columns), scale)
    encoded = encoder.encode(places(encoder.box))
    bound = encoder.bound
    squares = np.square(encoded).sum(axis=1)
    assert np.abs(encoded).sum(axis=1).max() <= bound.l1
    assert 0.9 * bound.l2_squared < squares.max() <= bound.l2_squared  # and some record comes near
    assert np.abs(encoded).max() <= bound.largest


def test_each_row_alone_decides_its_integers() -> None:
    random = np.random.default_rng(0)
    encoder = Covariances(Box.from_bounds((0.0, 1.0), 6), 64)
    rows = random.uniform(-0.5, 1.5, size=(500, 6))
    together = encoder.encode(rows)
    assert np.array_equal(together, np.vstack([encoder.encode(row[None]) for row in rows]))
    assert np.array_equal(together[::-1], encoder.encode(np.asfortranarray(rows[::-1])))
    assert len(encoder.encode(np.array([[np.nan] * 6, [0.5] * 6]))) == 1


def test_moments_are_read_back() -> None:
    """Values are 0.17 from 0.55 at most, so that no record is scaled down; rounding to 1 / 256 is all that is lost.

    The errors have deviations of 4e-5 in a mean and of 1e-5 in a covariance.
    """
    random = np.random.default_rng(1)
    mixing = random.normal(size=(5, 5))
    rows = 0.55 + random.uniform(-0.17, 0.17, size=(4000, 5)) @ (mixing / np.abs(mixing).sum(axis=0))
    encoder = Covariances(Box.from_bounds((0.0, 1.0), 5), 128)
    means, covariances = encoder.read(encoder.encode(rows).sum(axis=0), len(rows))
    assert means == pytest.approx(2 * (rows.mean(axis=0) - 0.5), abs=1e-3)
    assert covariances == pytest.approx(4 * np.cov(rows.T), abs=1e-4)


def test_assumed_moments_are_read_back() -> None:
    encoder, variances = Covariances(Box.from_bounds((0.0, 1.0), 3), 32), np.array([0.1, 0.02, 0.3])
    means, covariances = encoder.read(encoder.assumed(variances, 1000), 1000)
    assert means == pytest.approx(0.0) and covariances == pytest.approx(np.diag(variances), abs=1e-6)


def test_means_are_right_in_a_corner_and_show_that_covariances_are_not() -> None:
    random = np.random.default_rng(1)
    encoder = Covariances(Box.from_bounds((0.0, 4.0), 6), 128)
    for place, beyond in ((0.3, True), (1.7, False)):
        rows = place + random.uniform(-0.2, 0.2, size=(2000, 6))
        means, _ = encoder.read(encoder.encode(rows).sum(axis=0), len(rows))
        assert means == pytest.approx(rows.mean(axis=0) / 2 - 1, abs=1e-3)
        assert encoder.beyond(means) == beyond
