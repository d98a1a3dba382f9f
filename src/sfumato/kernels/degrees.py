"""Longitude and latitude: a length in metres as lengths in degrees.

A kernel measures differences in the columns' own units, so a bandwidth in metres becomes one bandwidth in degrees of
longitude and one in degrees of latitude, at one public latitude (that of the city, never one read off the data). Over
a map of a city or a region the change of the first with latitude is small: 1 % per 0.5 degrees at 50 degrees north.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.errors import InputError
from sfumato.public.codec import brief
from sfumato.public.portable import FloatArray

# The WGS 84 ellipsoid: equatorial radius in metres, and squared eccentricity.
EQUATORIAL_RADIUS, ECCENTRICITY_SQUARED = 6_378_137.0, 6.694_379_990_14e-3
STEEPEST = 85.0  # degrees of latitude; nearer to the poles, longitude is no measure of place


def metres_per_degree(latitude: float) -> tuple[float, float]:
    """Length of one degree of longitude and of one degree of latitude, in metres.

    Examples
    --------
    >>> [round(length) for length in metres_per_degree(0.0)]
    [111319, 110574]
    >>> [round(length) for length in metres_per_degree(60.0)]
    [55800, 111412]
    """
    if not -STEEPEST <= latitude <= STEEPEST:
        raise InputError(f"latitude must lie between -{STEEPEST:g} and {STEEPEST:g} degrees, got {brief(latitude)}")
    angle = math.radians(latitude)
    flattening = 1 - ECCENTRICITY_SQUARED * math.sin(angle) ** 2
    eastward = EQUATORIAL_RADIUS * math.cos(angle) / math.sqrt(flattening)
    northward = EQUATORIAL_RADIUS * (1 - ECCENTRICITY_SQUARED) / flattening**1.5
    return math.radians(eastward), math.radians(northward)


def metres(bandwidth_metres: float, latitude: float) -> FloatArray:
    """Bandwidth in degrees, one for longitude and one for latitude, of a length in metres.

    Parameters
    ----------
    bandwidth_metres : float
        The length at which two places stop being similar.
    latitude : float
        A public latitude in degrees, such as that of the city.

    Returns
    -------
    ndarray of two lengths: of the longitude column, then of the latitude column

    Examples
    --------
    >>> metres(500, latitude=40.7).round(5)
    array([0.00592, 0.0045 ])
    """
    if not (math.isfinite(bandwidth_metres) and bandwidth_metres > 0):
        raise InputError(f"a bandwidth in metres must be a positive number, got {brief(bandwidth_metres)}")
    return bandwidth_metres / np.array(metres_per_degree(latitude))


def check_longitude_first(names: Sequence[str]) -> None:
    """Refuse columns that are not two, or that are named the other way round.

    Examples
    --------
    >>> check_longitude_first(("lat", "lon"))
    Traceback (most recent call last):
    sfumato.errors.InputError: longitude comes first: the columns are 'lat', 'lon'; pass columns= in the other order
    """
    if len(names) != 2:
        raise InputError(f"longitude and latitude are two columns, got {len(names)}; pass columns= with those two")
    if names[0].lower().startswith("lat") or names[1].lower().startswith(("lon", "lng")):
        raise InputError(
            f"longitude comes first: the columns are {names[0]!r}, {names[1]!r}; pass columns= in the other order"
        )
