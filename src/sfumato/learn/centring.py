"""A centre that is taken off the records before they are encoded: a public point, or one that is bought.

Records no longer than r whose mean is m lie, on average, within sqrt(r^2 - |m|^2) of it (root mean square), and noise
is in proportion to the radius. So a classifier of inner products subtracts the centre from records and queries alike
and takes that radius (a tenth of r at least); records farther from the centre are brought to it. Nearest means stay
nearest means: |x - m_k| does not change when a point is taken off both. A public centre costs nothing.

Guarantee of a bought centre. A tenth of epsilon and delta buys the noisy mean of the records of all classes together,
by the method for inner products; the classes then have the rest. Both hold for one record that comes or goes, and the
second runs with public numbers from the first: they add up to (epsilon, delta). Every class's release states the sum.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.release import Release

AUTO, NONE, PRIVATE = "auto", "none", "private"
SHARE = Fraction(1, 10)
SHORTEST = 0.1  # of the radius
BOUGHT = "a part of the budget bought the centre that is taken off all records; it is public"


def checked_center(center: Any, kernel: Kernel, trust: str, dimension: int) -> str | Floats:
    """Return "none", "private" or a public centre, or refuse."""
    if isinstance(center, str):
        if center not in (AUTO, NONE, PRIVATE):
            raise InputError(f"center must be 'auto', 'none', 'private' or one number a column, got {center!r}")
        if center != PRIVATE:
            return NONE
    if not isinstance(kernel, InnerProduct) or trust != "central":
        raise InputError("center is for kernel='inner-product' and trust='central': pass center='none'")
    return PRIVATE if isinstance(center, str) else public_center(center, dimension)


def public_center(center: Any, dimension: int) -> Floats:
    """Return a public centre, one finite number a column."""
    try:
        numbers = np.asarray(center, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"center must be 'auto', 'none', 'private' or one number a column, got {center!r}") from None
    if numbers.shape != (dimension,) or not (np.abs(numbers) <= LARGEST_LENGTH).all():
        raise InputError(f"center must be {dimension} finite numbers, one a column, got shape {numbers.shape}")
    return numbers


def around(kernel: InnerProduct, center: Floats) -> InnerProduct:
    """Return the inner product of centred points.

    Examples
    --------
    >>> around(InnerProduct(5.0), np.array([3.0, 0.0])).radius
    4.0
    """
    radius = kernel.radius
    length = min(float(np.linalg.norm(center)) / radius, 1.0)
    return InnerProduct(radius * max(math.sqrt(1 - length**2), SHORTEST))


def moved_bounds(bounds: Any, center: Floats, outside: str) -> Any:
    """Return the bounds of centred points."""
    if bounds is None:
        return None
    box = Box.from_bounds(bounds, len(center), outside)
    return np.column_stack([np.array(box.lower) - center, np.array(box.upper) - center])


def bought_center(release: Release) -> Floats:
    """Read the noisy mean off a release of inner products; no coordinate is farther than the radius."""
    assert isinstance(release.kernel, InnerProduct)
    radius = release.kernel.radius
    return np.asarray(np.clip(release.query(radius * np.eye(release.dimension)), -1.0, 1.0) * radius)
