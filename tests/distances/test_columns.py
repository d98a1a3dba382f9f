"""What mechanisms for distances share: rows one by one, counts off noisy sums, forecasts from the noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.distances.columns import count_reader, evenly, forecast_by_reading, kept_row
from sfumato.distances.hat import HatQuantizer
from sfumato.kernels import Distance
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers.box import Box


def test_a_row_is_clipped_or_dropped_by_itself() -> None:
    lower, upper, values = np.zeros(2), np.ones(2), np.empty(2)
    assert kept_row(np.array([0.5, 7.0]), lower, upper, False, values) and values.tolist() == [0.5, 1.0]
    assert not kept_row(np.array([0.5, 7.0]), lower, upper, True, values)
    assert not kept_row(np.array([np.nan, 0.5]), lower, upper, False, values)


def test_public_points_are_spread_over_the_box_and_the_same_for_everybody() -> None:
    box = Box((0.0, -2.0), (1.0, 2.0))
    points = evenly(box, 2000, "records")
    assert (points == evenly(box, 2000, "records")).all() and box.holds(points).all()
    assert points.mean(axis=0) == pytest.approx([0.5, 0.0], abs=0.1)


def test_the_count_is_read_off_the_sums_with_the_noise_that_it_has() -> None:
    class Half:
        count_squares = 0.25

        def count(self, sums: np.ndarray) -> float:
            return float(sums[0]) / 2

    law = DiscreteLaplace(Fraction(1, 10))
    count = count_reader(Half(), law)(np.array([41]))
    assert (count.value, count.variance, count.public) == (20, law.variance / 4, False)


def test_the_forecast_is_the_error_of_the_noise_where_nothing_is_missed() -> None:
    request = Request(Distance("l1"), dimension=2, epsilon=Fraction(1), n=10_000, bounds=(0, 1))
    coarse, fine = (
        forecast_by_reading(made, DISTANCES.build("hat", made), 0.0)
        for made in (request, Request(Distance("l1"), dimension=2, epsilon=Fraction(4), n=10_000, bounds=(0, 1)))
    )
    assert fine.rmse < coarse.rmse <= coarse.worst


def test_widths_of_columns_are_made_once() -> None:
    hats = HatQuantizer(Distance("l1"), Box((0.0,) * 3, (1.0,) * 3), bins=1, units=(9,) * 3, profile=(1 << 24,))
    assert hats.lengths is hats.lengths  # every column asks for its own: made again, the work is quadratic
