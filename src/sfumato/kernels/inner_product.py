"""The inner product ``x.y / radius^2`` of points no longer than a public radius: a similarity with a sign.

Its mean over the records is ``y`` times the mean record, so a release of it is a noisy mean (Wagner 2025,
section 4). Normalised embeddings have radius 1. A mechanism scales records that are longer than the radius down to it;
the exact value here is that of the points as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel
from sfumato.kernels.registry import register
from sfumato.kernels.scale import LARGEST, SMALLEST, Bandwidth
from sfumato.public.portable import FloatArray


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

    def to_document(self) -> dict[str, Any]:
        """Plain JSON values: ``{"kernel": "inner-product", "radius": radius}``."""
        return {"kernel": self.name, "radius": self.radius}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> InnerProduct:
        """Rebuild what `to_document` wrote."""
        return cls(document["radius"])
