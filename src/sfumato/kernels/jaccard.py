"""The Jaccard kernel on sets, ``|x and y| / |x or y|``: how often the smallest element of a random order is shared.

A set is a row of zeros and ones, one column for each possible element; a value above 1/2 means that the element is in
the set. Two empty sets are equal. The collision probability is A. Broder's ("On the resemblance and containment of
documents", 1997).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel
from sfumato.kernels.registry import register
from sfumato.kernels.scale import Bandwidth
from sfumato.public.portable import FloatArray

MEMBER = 0.5


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

    def to_document(self) -> dict[str, Any]:
        """Plain JSON values: ``{"kernel": "jaccard"}``."""
        return {"kernel": self.name}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Jaccard:
        """Rebuild what `to_document` wrote."""
        return cls()
