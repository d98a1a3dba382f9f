"""How points become integers: the domain, the units and the bits of a pool mechanism, chosen from what is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.request import Request
from sfumato.public.domain import Domain
from sfumato.quantizers.base import Floats

MOST_POINT_BITS, FEWEST_POINT_BITS, DEFAULT_POINT_BITS = 20, 8, 10
WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH = 17, 8
# The table of Cauchy numbers is cut at its 2^-18 quantile. Sums over more columns are too often without the large ones
# that they should have: beyond, kernel values would be off by more than 0.015.
MOST_CAUCHY_COLUMNS = 1 << 10


@dataclass(frozen=True)
class PointGrid:
    """Units of the points' integers.

    Attributes
    ----------
    domain : Domain
        The bounds.
    point_bits : int
        A characteristic length has ``2**point_bits`` units.
    scales : tuple of float
        Units per data unit, one for each column.
    origin : {"middle", "zero"}
        Where integers are measured from.
    """

    domain: Domain
    point_bits: int
    scales: tuple[float, ...]
    origin: str

    def parameters(self) -> dict[str, Any]:
        """Return the protocol's fields."""
        return {"point_bits": self.point_bits, "scales": list(self.scales), "origin": self.origin}


def fit_grid(request: Request, lengths: Floats, largest: int, *, sum_bits: int, together: bool = True) -> PointGrid:
    """Choose the finest grid on which projections of the domain stay exact, measured from its middle.

    Parameters
    ----------
    request : Request
        With the bounds, if there are any; else the widest default on which points keep 10 bits per length is taken.
    lengths : ndarray
        Characteristic length of each column.
    largest : int
        Largest magnitude of a number that a coordinate is multiplied with.
    sum_bits : int
        Sums stay below ``2**sum_bits``.
    together : bool
        Whether a sum runs over all columns, or each column stands alone.
    """

    def bits(reach: Floats) -> int:
        spans = reach / lengths
        span = float(spans.sum() if together else spans.max())
        return min(MOST_POINT_BITS, math.floor(sum_bits - math.log2(span * largest)))

    domain = _declared(request)
    if domain is None:
        for power in range(WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH - 1, -1):
            reach = lengths * 2.0**power
            if bits(reach) >= DEFAULT_POINT_BITS:
                break
        domain = Domain(tuple((-reach).tolist()), tuple(reach.tolist()), declared=False)
    point_bits = bits(np.array(domain.upper) - np.array(domain.middle))
    if point_bits < FEWEST_POINT_BITS:
        raise InputError(
            f"the bounds span too many bandwidths for exact integers in {request.dimension} dimensions; pass tighter "
            "bounds or a larger bandwidth"
        )
    return PointGrid(domain, point_bits, tuple((2.0**point_bits / lengths).tolist()), "middle")


def refuse_columns(request: Request) -> str | None:
    """Say why the Cauchy numbers of devices do not serve so many columns, or return None."""
    if request.dimension <= MOST_CAUCHY_COLUMNS:
        return None
    return f"Cauchy numbers on devices are for {MOST_CAUCHY_COLUMNS} columns at most; project the points to fewer"


def unit_grid(request: Request, largest: int, *, sum_bits: int) -> PointGrid:
    """Choose the grid of directions: the domain is [-1, 1] by default, integers are measured from zero."""
    domain = _declared(request) or Domain((-1.0,) * request.dimension, (1.0,) * request.dimension, declared=False)
    reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    length = float(reach.max())
    point_bits = min(MOST_POINT_BITS, math.floor(sum_bits - math.log2(request.dimension * largest)))
    return PointGrid(domain, point_bits, (2.0**point_bits / length,) * request.dimension, "zero")


def member_grid(request: Request) -> PointGrid:
    """Choose the grid of sets: above 1/2, a value rounds to 1 and its column is a member."""
    domain = _declared(request) or Domain((0.0,) * request.dimension, (1.0,) * request.dimension, declared=False)
    return PointGrid(domain, 0, (1.0,) * request.dimension, "zero")


def _declared(request: Request) -> Domain | None:
    if request.bounds is None:
        return None
    return Domain(request.bounds.lower, request.bounds.upper)
