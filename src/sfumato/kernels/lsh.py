"""Kernels that are collision probabilities of locality-sensitive hashes: ``L1LSH``, ``L2LSH`` and ``Hat``.

With ``u = A^-1 (x - y)``, random directions ``a`` and a random offset ``b`` uniform in [0, 1), the hash
``floor(a . A^-1 x + b)`` puts x and y into the same bucket with probability ``E max(0, 1 - |a . u|)``. For p-stable
directions ``a . u`` has the law of ``|u|_p`` times one stable number (M. Datar, N. Immorlica, P. Indyk, V. Mirrokni,
"Locality-sensitive hashing scheme based on p-stable distributions", SoCG 2004), which gives, with ``c = |u|_p``:

- Cauchy directions (p = 1): ``(2/pi) atan(1/c) - (c/pi) log(1 + 1/c^2)``;
- normal directions (p = 2): ``erf(1/(c sqrt 2)) - c sqrt(2/pi) (1 - exp(-1/(2 c^2)))``.

Both fall like 1/c, so they have no finite integral and no normalised density. A grid with a random offset in every
coordinate gives the product of hats ``max(0, 1 - |u_j|)``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import erf

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel
from sfumato.kernels.registry import register
from sfumato.kernels.scale import Bandwidth, Scale
from sfumato.public.portable import FloatArray

# Distances beyond these are 0 or infinite for every purpose; inside, c^2 and 1 / c^2 are finite.
SMALLEST_DISTANCE, LARGEST_DISTANCE = 1e-150, 1e150


@dataclass(frozen=True, init=False, repr=False)
class CollisionKernel(Kernel):
    """A kernel of ``u = A^-1 (x - y)`` that is the collision probability of a hash.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``: one length in data units (the width of a bucket), one for each column, or a square invertible matrix.
    """

    scale: Scale

    def __init__(self, bandwidth: Bandwidth) -> None:
        object.__setattr__(self, "scale", Scale.of(bandwidth))

    @abstractmethod
    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        """Collision probability for each pair of rows, unit bandwidth."""

    @property
    def bandwidth(self) -> float | FloatArray:
        """The bandwidth as a number, a read-only vector or a read-only matrix."""
        return self.scale.bandwidth

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        self.scale.check(X.shape[1])
        # Coordinates far from the origin lose digits when divided: measure from the middle of the queries.
        centre = Y.mean(axis=0) if len(Y) else np.zeros(Y.shape[1])
        return self._unit_pairwise(self.scale.divide(X - centre), self.scale.divide(Y - centre))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> Self:
        """Make the family's kernel from a bandwidth."""
        if bandwidth is None:
            raise InputError(f"the kernel {cls.name!r} needs a bandwidth: pass bandwidth=, the width of a bucket")
        return cls(bandwidth)

    def to_document(self) -> dict[str, Any]:
        """Plain JSON values: ``{"kernel": name, "bandwidth": number, list or rows}``."""
        return {"kernel": self.name, "bandwidth": self.scale.to_document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild what `to_document` wrote."""
        return cls(document["bandwidth"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bandwidth={self.scale!r})"


@register
@dataclass(frozen=True, init=False, repr=False)
class L1LSH(CollisionKernel):
    """Collision probability of ``floor(a . A^-1 x + b)`` with Cauchy directions; see the module's text.

    Examples
    --------
    >>> L1LSH(2.0).value([[0.0, 0.0]], [[1.0, -1.0]]).round(6)
    array([[0.279364]])
    """

    name = "l1-lsh"

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        c = np.clip(cdist(U, V, "cityblock"), SMALLEST_DISTANCE, LARGEST_DISTANCE)
        return np.asarray((2 * np.arctan(1 / c) - c * np.log1p(c**-2)) / math.pi)


@register
@dataclass(frozen=True, init=False, repr=False)
class L2LSH(CollisionKernel):
    """Collision probability of ``floor(a . A^-1 x + b)`` with normal directions; see the module's text.

    Examples
    --------
    >>> L2LSH(2.0).value([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
    array([[0.368746]])
    """

    name = "l2-lsh"

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        c = np.clip(cdist(U, V), SMALLEST_DISTANCE, LARGEST_DISTANCE)
        return np.asarray(erf(math.sqrt(0.5) / c) + math.sqrt(2 / math.pi) * c * np.expm1(-0.5 * c**-2))


@register
@dataclass(frozen=True, init=False, repr=False)
class Hat(CollisionKernel):
    """``k(x, y) = prod_j max(0, 1 - |u_j|)``: the collision probability of a grid with random offsets.

    Examples
    --------
    >>> Hat(2.0).value([[0.0, 0.0]], [[0.5, 1.0]])
    array([[0.375]])
    """

    name = "hat"

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        product = np.ones((len(U), len(V)))
        for u, v in zip(U.T, V.T, strict=True):
            product *= np.maximum(0.0, 1.0 - np.abs(u[:, None] - v))
        return product
