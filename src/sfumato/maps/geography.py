"""The shape of a map of longitude and latitude, and its scale bar; lengths in degrees are `sfumato.kernels.degrees`."""

from __future__ import annotations

import math

from sfumato.kernels.degrees import check_longitude_first, metres, metres_per_degree

__all__ = ["check_longitude_first", "length_text", "metres", "metres_per_degree", "scale_bar"]


def scale_bar(width_metres: float) -> float:
    """Round length in metres of a bar that takes about a quarter of a map.

    Examples
    --------
    >>> scale_bar(80_000), scale_bar(3_000)
    (20000.0, 500.0)
    """
    target = width_metres / 4
    power = 10.0 ** math.floor(math.log10(target))
    return max(step * power for step in (1, 2, 5) if step * power <= target)


def length_text(length: float) -> str:
    """Show a length for people.

    Examples
    --------
    >>> length_text(500), length_text(20_000)
    ('500 m', '20 km')
    """
    return f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
