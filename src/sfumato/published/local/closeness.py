"""Which points count as close, and how often a hash function tells close points apart.

A metric guarantee speaks of points within a radius. For a kernel that is a collision probability, Pr[h(x) = h(x')] =
k(x, x') over the draw of one hash function, so the chance that it separates two points within a distance t is at most
`separation(t)`, the largest 1 - k there:

- ``l2-lsh``, ``l1-lsh``, ``exponential`` (p = 2), ``laplacian``: the kernel falls with the l2 or l1 distance;
- ``hat``: a product of hats is at least 1 minus the l1 distance in bandwidths;
- ``angular``: 1 - (1 - t / pi)^power, t the angle in radians;
- ``jaccard``: t itself, the Jaccard distance;
- `Steps`: any (r1, r2, p1, p2)-sensitive family, of which no more is known than these four numbers.

Devices draw hash functions from tables, which separate a little more often, the more columns the more: `excess`, an
upper bound of that (`tables` has the proofs).

The paper bounds 1 - k by 0.8 t / bandwidth (l2) and 1.2 t / bandwidth + 0.1 (l1) instead; `published` is that line,
for the calibrations as published.

The standard library only: devices check with it what an organiser claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import InputError
from sfumato.public.canonical_json import plain
from sfumato.published.local import tables


@dataclass(frozen=True)
class Closeness:
    """A metric, with the chance that one hash function separates points within a distance.

    Attributes
    ----------
    metric : str
        ``"euclidean"``, ``"manhattan"``, ``"angle"``, ``"jaccard"``, or a name of the caller's.
    separation : callable
        From a distance to the largest probability with which a hash function separates points within it.
    published : callable
        The bound that the paper puts in its place.
    excess : callable
        From a distance and a number of columns to what the tables of hash functions add to `separation` at most.
    """

    metric: str
    separation: Callable[[float], float]
    published: Callable[[float], float]
    excess: Callable[[float, int], float]


def l2_separation(t: float) -> float:
    """1 - k of `L2LSH` at t bandwidths.

    Examples
    --------
    >>> round(l2_separation(1.0), 6)
    0.631254
    """
    if t <= 0:
        return 0.0
    return math.erfc(math.sqrt(0.5) / t) - math.sqrt(2 / math.pi) * t * math.expm1(-0.5 / t**2)


def l1_separation(t: float) -> float:
    """1 - k of `L1LSH` at t bandwidths.

    Examples
    --------
    >>> round(l1_separation(1.0), 6)
    0.720636
    """
    if t <= 0:
        return 0.0
    return (2 * math.atan(t) + t * math.log1p(t**-2)) / math.pi


def _decay(t: float) -> float:
    return -math.expm1(-t)


def _line(slope: float, start: float, width: float) -> Callable[[float], float]:
    return lambda t: min(1.0, slope * t / width + start)


def _nothing(t: float, d: int) -> float:
    return 0.0


# Of each kernel: its metric, 1 - k at a distance in bandwidths, the slope and start of the line above it, and what
# tables add to it (devices have none for the exponential kernel).
_FALLING: dict[str, tuple[str, Callable[[float], float], float, float, Callable[[float, int], float]]] = {
    "l2-lsh": ("euclidean", l2_separation, 0.8, 0.0, tables.normal_projections),
    "exponential": ("euclidean", _decay, 1.0, 0.0, _nothing),
    "l1-lsh": ("manhattan", l1_separation, 1.2, 0.1, tables.cauchy_projections),
    "laplacian": ("manhattan", _decay, 1.0, 0.0, tables.random_cells),
    "hat": ("manhattan", lambda t: min(t, 1.0), 1.0, 0.0, tables.fixed_cells),
}


def closeness_of(kernel: Mapping[str, Any]) -> Closeness:
    """Return the metric of a kernel whose hash family is known.

    Parameters
    ----------
    kernel : mapping
        The kernel's document.

    Examples
    --------
    >>> closeness_of({"kernel": "l2-lsh", "bandwidth": 0.25}).metric
    'euclidean'
    >>> round(closeness_of({"kernel": "angular", "power": 1}).separation(0.1), 6)
    0.031831
    """
    document = plain(kernel)
    name = document.get("kernel")
    if name == "angular":
        power = document["power"]
        angle = lambda t: 1.0 if t >= math.pi else -math.expm1(power * math.log1p(-t / math.pi))  # noqa: E731
        return Closeness("angle", angle, angle, lambda t, d: tables.signs(power, d))
    if name == "jaccard":
        return Closeness("jaccard", lambda t: min(1.0, t), lambda t: min(1.0, t), tables.fixed_cells)
    if name not in _FALLING or document.get("p", 2.0) != 2.0:
        raise InputError(
            f"no distance is known within which the hashes of the kernel {name!r} separate seldom; use l2-lsh, l1-lsh "
            "or angular, or pass the options r1, r2, p1 and p2 of its hash family"
        )
    width = document["bandwidth"]
    if not isinstance(width, float):
        raise InputError("a radius needs one bandwidth for all columns, not one each; scale the columns instead")
    metric, separation, slope, start, excess = _FALLING[name]
    return Closeness(
        metric, lambda t: separation(t / width), _line(slope, start, width), lambda t, d: excess(t / width, d)
    )


@dataclass(frozen=True)
class Steps:
    """An (r1, r2, p1, p2)-sensitive family: points within r1 collide with probability p1 at least, within r2 with p2.

    Examples
    --------
    >>> Steps(0.1, 0.5, 0.9, 0.4).closeness().separation(0.3)
    0.6
    """

    r1: float
    r2: float
    p1: float
    p2: float

    def __post_init__(self) -> None:
        if not (0 < self.r1 < self.r2 and 0 <= self.p2 < self.p1 <= 1):
            raise InputError(
                "a sensitive family needs 0 < r1 < r2 and 0 <= p2 < p1 <= 1; "
                f"got r1={self.r1}, r2={self.r2}, p1={self.p1}, p2={self.p2}"
            )

    def separation(self, distance: float) -> float:
        """Known at two distances only; beyond r2 nothing is promised."""
        if distance <= self.r1:
            return 1.0 - self.p1
        return 1.0 - self.p2 if distance <= self.r2 else 1.0

    def closeness(self) -> Closeness:
        """Return the same as a `Closeness`; what is claimed of hash functions includes their tables."""
        return Closeness("its own distance", self.separation, self.separation, _nothing)
