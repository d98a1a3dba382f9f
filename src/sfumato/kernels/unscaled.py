"""Kernels without a bandwidth: of angles, of sets, and the inner product.

**Angular**, ``(1 - theta / pi)^power``, theta the angle between x and y: how often random half-spaces agree. A random
hyperplane through the origin separates x from y with probability ``theta / pi``; `power` independent ones all agree
with the power of the complement (the geodesic kernel of Wagner et al. (2023), C.4, and its powers). Lengths do not
matter. A row of zeros has no direction: it counts as orthogonal to every other row, and as equal to itself.

**Jaccard** on sets, ``|x and y| / |x or y|``: how often the smallest element of a random order is shared. A set is a
row of zeros and ones, one column for each possible element; a value above 1/2 means that the element is in the set. Two
empty sets are equal. The collision probability is A. Broder's ("On the resemblance and containment of documents",
1997).

**Inner product**, ``x.y / radius^2`` of points no longer than a public radius: a similarity with a sign. Its mean over
the records is ``y`` times the mean record, so a release of it is a noisy mean (Wagner 2025, section 4). Normalised
embeddings have radius 1. A mechanism scales records that are longer than the radius down to it; the exact value here is
that of the points as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel, register
from sfumato.kernels.scale import LARGEST, SMALLEST, Bandwidth
from sfumato.public.codec import Real, Schema, Whole
from sfumato.public.portable import FloatArray

# One integer holds the signs of so many hyperplanes.
MOST_POWER = 32
MEMBER = 0.5


@register
@dataclass(frozen=True)
class Angular(Kernel):
    """``k(x, y) = (1 - theta / pi)^power``.

    Parameters
    ----------
    power : int
        From 1 to 32; larger ones tell smaller angles apart.

    Examples
    --------
    >>> Angular(power=2).value([[1.0, 0.0]], [[0.0, 3.0], [2.0, 0.0]])
    array([[0.25, 1.  ]])
    """

    power: int = 1
    name = "angular"
    schema = Schema(power=Whole(1, MOST_POWER))

    def __post_init__(self) -> None:
        if isinstance(self.power, bool) or not isinstance(self.power, int) or not 1 <= self.power <= MOST_POWER:
            raise InputError(f"power must be a whole number from 1 to {MOST_POWER}; got {self.power!r}")

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> Angular:
        """Make the kernel of power 1; it has no bandwidth."""
        if bandwidth is not None:
            raise InputError("the kernel 'angular' has no bandwidth; pass kernels.Angular(power=) for a narrower one")
        return cls()

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        points, queries = _unit(X), _unit(Y)
        # Twice the half angle, from the chord and its complement: exact for small angles, unlike an arc cosine.
        theta = 2 * np.arctan2(cdist(points, queries), cdist(points, -queries))
        directed = np.abs(X).max(axis=1)[:, None] > 0, np.abs(Y).max(axis=1) > 0
        theta[directed[0] != directed[1]] = math.pi / 2
        return np.asarray((1 - theta / math.pi) ** self.power)


def _unit(X: FloatArray) -> FloatArray:
    # Divided by the largest entry first, so that no square overflows.
    largest = np.abs(X).max(axis=1, keepdims=True)
    scaled = X / np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(norms > 0, norms, 1.0))


@register
@dataclass(frozen=True)
class Jaccard(Kernel):
    """``k(x, y) = |x and y| / |x or y|`` for sets as rows of zeros and ones.

    Examples
    --------
    >>> Jaccard().value([[1, 1, 0, 0]], [[1, 0, 1, 0], [0, 0, 0, 1]]).round(6)
    array([[0.333333, 0.      ]])
    """

    name = "jaccard"

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> Jaccard:
        """Make the kernel; it has no bandwidth."""
        if bandwidth is not None:
            raise InputError("the kernel 'jaccard' has no bandwidth: leave bandwidth out")
        return cls()

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        points, queries = (X > MEMBER).astype(np.float64), (Y > MEMBER).astype(np.float64)
        shared = points @ queries.T
        either = points.sum(axis=1)[:, None] + queries.sum(axis=1) - shared
        return np.asarray(np.divide(shared, either, out=np.ones_like(shared), where=either > 0))


@register
@dataclass(frozen=True)
class InnerProduct(Kernel):
    """``k(x, y) = x.y / radius^2``.

    Parameters
    ----------
    radius : float
        Public length that records do not exceed; 1 for normalised embeddings.

    Examples
    --------
    >>> InnerProduct(2.0).value([[2.0, 0.0]], [[1.0, 1.0]])
    array([[0.5]])
    """

    radius: float = 1.0
    name = "inner-product"
    schema = Schema(radius=Real(SMALLEST, LARGEST))

    def __post_init__(self) -> None:
        radius = self.radius
        if isinstance(radius, bool) or not isinstance(radius, int | float) or not SMALLEST <= radius <= LARGEST:
            raise InputError(f"radius must be a positive length in the points' units; got {radius!r}")
        object.__setattr__(self, "radius", float(radius))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> InnerProduct:
        """Make the kernel with a bandwidth as its radius, or with radius 1."""
        if bandwidth is not None and not isinstance(bandwidth, int | float):
            raise InputError("the kernel 'inner-product' takes one number as its bandwidth: the points' largest length")
        return cls(1.0 if bandwidth is None else float(bandwidth))

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return np.asarray((X / self.radius) @ (Y / self.radius).T)
