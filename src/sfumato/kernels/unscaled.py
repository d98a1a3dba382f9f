"""Kernels without a bandwidth: of angles, of sets, the inner product; and distances.

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

**Distance**, a value beside the kernels: exact sums for tests, and a document for release files. A distance is not a
similarity: it grows as points move apart, and no bandwidth belongs to it. It is a `Kernel` because a release of
distances is read like one of kernel values, as a sum over the records of a function of record and query.
`sfumato.PrivateDistance` releases it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from sfumato.deferred import cdist
from sfumato.errors import InputError
from sfumato.kernels.base import Bandwidth, Kernel, register
from sfumato.public.codec import Optional, Real, Schema, Text, Whole, brief
from sfumato.public.portable import FloatArray
from sfumato.public.ranges import LARGEST_LENGTH, SMALLEST_LENGTH, check_length, plain_number

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
            raise InputError(f"power must be a whole number from 1 to {MOST_POWER}; got {brief(self.power)}")

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
    schema = Schema(radius=Real(SMALLEST_LENGTH, LARGEST_LENGTH))

    def __post_init__(self) -> None:
        radius = plain_number(self.radius)
        if isinstance(radius, bool) or not isinstance(radius, int | float):
            raise InputError(f"radius must be a positive length in the points' units; got {brief(radius)}")
        check_length("radius", radius)
        object.__setattr__(self, "radius", float(radius))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> InnerProduct:
        """Make the kernel with a bandwidth as its radius, or with radius 1."""
        bandwidth = plain_number(bandwidth)
        if bandwidth is not None and not isinstance(bandwidth, int | float):
            raise InputError("the kernel 'inner-product' takes one number as its bandwidth: the points' largest length")
        return cls(1.0 if bandwidth is None else bandwidth)

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return np.asarray((X / self.radius) @ (Y / self.radius).T)


METRICS = ("l1", "l2", "sqeuclidean", "lpp")
# What SciPy and scikit-learn call them.
SYNONYMS = {"cityblock": "l1", "manhattan": "l1", "euclidean": "l2"}
_SCIPY = {"l1": "cityblock", "l2": "euclidean", "sqeuclidean": "sqeuclidean"}
_TEXTS = {"l1": "|x - y|_1", "l2": "|x - y|_2", "sqeuclidean": "|x - y|_2^2"}


@register
@dataclass(frozen=True, repr=False)
class Distance(Kernel):
    """``|x - y|_1``, ``|x - y|_2``, ``|x - y|_2^2`` or ``sum_j |x_j - y_j|^p``.

    Parameters
    ----------
    metric : {"l1", "l2", "sqeuclidean", "lpp"}
        Which distance; "manhattan" and "cityblock" are other names of "l1", "euclidean" of "l2".
    p : float, optional
        The power of "lpp", from 1 to 2. Its ends are l1 and squared l2, and become those.

    Examples
    --------
    >>> Distance("l1").value([[0.0, 0.0]], [[3.0, 4.0]])
    array([[7.]])
    >>> Distance("lpp", p=1)
    Distance('l1')
    """

    metric: str
    p: float | None = None
    name = "distance"
    schema = Schema(metric=Text(*METRICS), p=Optional(Real(1.0, 2.0)))

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str) or self.metric not in (*METRICS, *SYNONYMS):
            known = ", ".join(map(repr, (*METRICS, *SYNONYMS)))
            raise InputError(f"metric must be one of {known}; got {brief(self.metric)}")
        object.__setattr__(self, "metric", SYNONYMS.get(self.metric, self.metric))
        if self.metric != "lpp":
            if self.p is not None:
                raise InputError(f"p is the power of metric='lpp'; metric={self.metric!r} has none")
            return
        p = self.p
        if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 1 <= p <= 2:
            raise InputError(f"metric='lpp' needs p=, a power from 1 to 2, got {brief(p)}")
        ends = {1.0: "l1", 2.0: "sqeuclidean"}
        object.__setattr__(self, "metric", ends.get(float(p), "lpp"))
        object.__setattr__(self, "p", None if float(p) in ends else float(p))

    @property
    def power(self) -> float:
        """The power p of a column's part, for the distances that are sums over the columns."""
        if self.metric == "l2":
            raise InputError("the distance l2 is not a sum over the columns")
        return {"l1": 1.0, "sqeuclidean": 2.0}.get(self.metric) or float(self.p or 0.0)

    def farthest(self, Y: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Largest distance from each query to a point of a box.

        Examples
        --------
        >>> Distance("l1").farthest(np.array([[0.2, 3.0]]), np.zeros(2), np.ones(2))
        array([3.8])
        """
        reach = np.maximum(np.abs(Y - lower), np.abs(Y - upper))
        if self.metric == "l2":
            return np.asarray(np.sqrt(np.square(reach).sum(axis=1)))
        return np.asarray((reach**self.power).sum(axis=1))

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        if self.metric == "lpp":
            return np.asarray(cdist(X, Y, "minkowski", p=self.power) ** self.power)
        return np.asarray(cdist(X, Y, _SCIPY[self.metric]))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> NoReturn:
        """Refuse: a distance is no similarity."""
        raise InputError("a distance is not a kernel of similarity: use sfumato.PrivateDistance(metric=...)")

    def __str__(self) -> str:
        return _TEXTS.get(self.metric) or f"sum |x - y|^{self.p:g}"

    def __repr__(self) -> str:
        return f"Distance({self.metric!r})" if self.p is None else f"Distance({self.metric!r}, p={self.p!r})"
