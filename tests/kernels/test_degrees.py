"""Metres as degrees on the ellipsoid, against the length of its own meridian and equator."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels.degrees import STEEPEST, check_longitude_first, metres, metres_per_degree


def test_a_quarter_of_the_meridian_has_its_known_length() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    northward = [metres_per_degree(42.5 * (node + 1))[1] for node in nodes]
    # From the equator to 85 degrees on WGS 84, by the series for the meridian's length in the third flattening.
    n = (f := 1 / 298.257223563) / (2 - f)
    top, radius = math.radians(85), 6_378_137.0 / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
    terms = (-3 / 2 * (n - n**3 / 8), 15 / 16 * n**2, -35 / 48 * n**3)
    length = radius * (top + sum(term * math.sin(2 * k * top) for k, term in enumerate(terms, 1)))
    assert 42.5 * float(weights @ northward) == pytest.approx(length, rel=1e-9)


def test_degrees_of_longitude_shrink_towards_the_poles_and_nothing_tells_south_from_north() -> None:
    eastward = [metres_per_degree(latitude)[0] for latitude in (0.0, 30.0, 60.0, STEEPEST)]
    assert eastward == sorted(eastward, reverse=True) and metres_per_degree(-40.0) == metres_per_degree(40.0)
    assert eastward[0] * 360 == pytest.approx(2 * math.pi * 6_378_137.0)
    assert metres(1000.0, 40.0) * metres_per_degree(40.0) == pytest.approx([1000.0, 1000.0])


@pytest.mark.parametrize("latitude", [85.1, -90.0, math.nan])
def test_no_metres_near_the_poles(latitude: float) -> None:
    with pytest.raises(InputError, match="latitude must lie between"):
        metres(100.0, latitude)


@pytest.mark.parametrize("length", [0.0, -1.0, math.inf, math.nan])
def test_lengths_are_positive(length: float) -> None:
    with pytest.raises(InputError, match="positive number"):
        metres(length, 0.0)


def test_longitude_comes_first() -> None:
    check_longitude_first(("lng", "lat"))
    check_longitude_first(("", ""))
    for names in (("Latitude", "Longitude"), ("y", "lng"), ("a", "b", "c")):
        with pytest.raises(InputError, match="longitude"):
            check_longitude_first(names)
