"""Distances between points, as values beside the kernels: exact sums for tests, and a document for release files.

A distance is not a similarity: it grows as points move apart, and no bandwidth belongs to it. It is a `Kernel` because
a release of distances is read like one of kernel values, as a sum over the records of a function of record and query.
`sfumato.PrivateDistance` releases it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel, register
from sfumato.kernels.scale import Bandwidth
from sfumato.public.codec import Optional, Real, Schema, Text
from sfumato.public.portable import FloatArray

METRICS = ("l1", "l2", "sqeuclidean", "lpp")
_SCIPY = {"l1": "cityblock", "l2": "euclidean", "sqeuclidean": "sqeuclidean"}
_TEXTS = {"l1": "|x - y|_1", "l2": "|x - y|_2", "sqeuclidean": "|x - y|_2^2"}


@register
@dataclass(frozen=True, repr=False)
class Distance(Kernel):
    """``|x - y|_1``, ``|x - y|_2``, ``|x - y|_2^2`` or ``sum_j |x_j - y_j|^p``.

    Parameters
    ----------
    metric : {"l1", "l2", "sqeuclidean", "lpp"}
        Which distance.
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
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(map(repr, METRICS))}, got {self.metric!r}")
        if self.metric != "lpp":
            if self.p is not None:
                raise InputError(f"p is the power of metric='lpp'; metric={self.metric!r} has none")
            return
        p = self.p
        if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 1 <= p <= 2:
            raise InputError(f"metric='lpp' needs p=, a power from 1 to 2, got {p!r}")
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
