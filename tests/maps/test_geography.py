"""Metres and degrees, against independent values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato import InputError
from sfumato.maps import metres
from sfumato.maps.geography import check_longitude_first, length_text, metres_per_degree, scale_bar


@pytest.mark.parametrize(
    ("latitude", "longitude_length", "latitude_length"),
    [(0, 111_319.5, 110_574.3), (40.7, 84_513, 111_047), (60, 55_800.0, 111_412.3), (-60, 55_800.0, 111_412.3)],
)
def test_lengths_of_a_degree(latitude: float, longitude_length: float, latitude_length: float) -> None:
    # Published tables of the WGS 84 ellipsoid; at 40.7 by its series in cosines of multiples of the latitude.
    assert metres_per_degree(latitude) == pytest.approx((longitude_length, latitude_length), rel=3e-4)


def test_a_bandwidth_in_metres_is_that_long_on_the_earth() -> None:
    latitude, length = 52.4, 500.0
    east, north = metres(length, latitude)
    radius = 6_371_000.0
    haversine = 2 * radius * math.asin(math.cos(math.radians(latitude)) * math.sin(math.radians(east) / 2))
    assert haversine == pytest.approx(length, rel=0.005)  # the earth is a sphere to within half a per cent
    assert radius * math.radians(north) == pytest.approx(length, rel=0.005)


@pytest.mark.parametrize("arguments", [(0.0, 50.0), (-5.0, 50.0), (np.inf, 50.0), (100.0, 89.0), (100.0, np.nan)])
def test_lengths_and_latitudes_that_mean_nothing_are_refused(arguments: tuple[float, float]) -> None:
    with pytest.raises(InputError):
        metres(*arguments)


@pytest.mark.parametrize("names", [("lat", "lon"), ("Latitude", "x"), ("x", "lng"), ("lon",), ("a", "b", "c")])
def test_columns_that_are_not_longitude_and_latitude_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        check_longitude_first(names)


@pytest.mark.parametrize("names", [("lon", "lat"), ("x", "y"), ("pickup_longitude", "pickup_latitude")])
def test_other_columns_pass(names: tuple[str, ...]) -> None:
    check_longitude_first(names)


@pytest.mark.parametrize("width", [3.0, 999.0, 80_000.0, 4e6])
def test_scale_bars_are_round_and_short_enough(width: float) -> None:
    bar = scale_bar(width)
    assert width / 10 <= bar <= width / 4
    assert length_text(bar).split()[0].rstrip("0").rstrip(".") in ("1", "2", "5", "0.5", "0.2", "0.1")
