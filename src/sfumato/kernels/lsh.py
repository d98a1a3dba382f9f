"""Kernels that are collision probabilities of locality-sensitive hashes: ``L1LSH``, ``L2LSH``, ``Hat``, ``Erfc``.

With ``u = A^-1 (x - y)``, random directions ``a`` and a random offset ``b`` uniform in [0, 1), the hash
``floor(a . A^-1 x + b)`` puts x and y into the same bucket with probability ``E max(0, 1 - |a . u|)``. For p-stable
directions ``a . u`` has the law of ``|u|_p`` times one stable number (M. Datar, N. Immorlica, P. Indyk, V. Mirrokni,
"Locality-sensitive hashing scheme based on p-stable distributions", SoCG 2004), which gives, with ``c = |u|_p``:

- Cauchy directions (p = 1): ``(2/pi) atan(1/c) - (c/pi) log(1 + 1/c^2)``;
- normal directions (p = 2): ``erf(1/(c sqrt 2)) - c sqrt(2/pi) (1 - exp(-1/(2 c^2)))``.

Both fall like 1/c, so they have no finite integral and no normalised density. A grid with a random offset in every
coordinate gives the product of hats ``max(0, 1 - |u_j|)``.

``Erfc``, ``erfc(c) / (2 - erfc(c))`` with ``c = |u|_2``, is the share of two balls that is common. It lies within 0.16
of the Gaussian ``exp(-(c / 0.394)^2)`` (Wagner et al. 2023, C.4) and is a collision probability, which the Gaussian is
not known to be. Its hash carves space by random balls (`quantizers.hashes.carving`), at a cost that grows exponentially
with the number of columns: it is for up to about three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.deferred import cdist, erf, erfc
from sfumato.kernels.base import ScaledKernel, register
from sfumato.public.portable import FloatArray

# Distances beyond these are 0 or infinite for every purpose; inside, c^2 and 1 / c^2 are finite.
SMALLEST_DISTANCE, LARGEST_DISTANCE = 1e-150, 1e150


@register
@dataclass(frozen=True, init=False, repr=False)
class L1LSH(ScaledKernel):
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
class L2LSH(ScaledKernel):
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
class Hat(ScaledKernel):
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


@register
@dataclass(frozen=True, init=False, repr=False)
class Erfc(ScaledKernel):
    """``k(x, y) = erfc(c) / (2 - erfc(c))`` with ``c = |A^-1 (x - y)|_2``.

    Examples
    --------
    >>> Erfc(2.0).value([[0.0]], [[1.0]]).round(6)
    array([[0.315357]])
    """

    name = "erfc"

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        shared = erfc(cdist(U, V))
        return np.asarray(shared / (2.0 - shared))
