"""The Erfc kernel ``erfc(c) / (2 - erfc(c))``, ``c = |A^-1 (x - y)|_2``: the share of two balls that is common.

It lies within 0.16 of the Gaussian ``exp(-(c / 0.394)^2)`` (Wagner et al. 2023, C.4) and is a collision
probability, which the Gaussian is not known to be. Its hash carves space by random balls (`quantizers.hashes.balls`),
at a cost that grows exponentially with the number of columns: it is for up to about three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import erfc

from sfumato.kernels.lsh import CollisionKernel
from sfumato.kernels.registry import register
from sfumato.public.portable import FloatArray


@register
@dataclass(frozen=True, init=False, repr=False)
class Erfc(CollisionKernel):
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
