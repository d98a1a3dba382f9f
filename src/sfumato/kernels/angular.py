"""The angular kernel ``(1 - theta / pi)^power``, theta the angle between x and y: how often random half-spaces agree.

A random hyperplane through the origin separates x from y with probability ``theta / pi``; `power` independent ones all
agree with the power of the complement (the geodesic kernel of Wagner et al. (2023), C.4, and its powers). Lengths
do not matter. A row of zeros has no direction: it counts as orthogonal to every other row, and as equal to itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel
from sfumato.kernels.registry import register
from sfumato.kernels.scale import Bandwidth
from sfumato.public.portable import FloatArray

# One integer holds the signs of so many hyperplanes.
MOST_POWER = 32


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

    def to_document(self) -> dict[str, Any]:
        """Plain JSON values: ``{"kernel": "angular", "power": power}``."""
        return {"kernel": self.name, "power": self.power}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Angular:
        """Rebuild what `to_document` wrote."""
        return cls(document["power"])


def _unit(X: FloatArray) -> FloatArray:
    # Divided by the largest entry first, so that no square overflows.
    largest = np.abs(X).max(axis=1, keepdims=True)
    scaled = X / np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(norms > 0, norms, 1.0))
