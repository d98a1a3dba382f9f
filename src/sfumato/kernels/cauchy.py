"""The Cauchy kernel, a product over the columns of ``1 / (1 + u^2)`` with ``u = A^-1 (x - y)``.

It is written with maximum 1; a factor of 2 for each column, as in some papers, would only rescale every answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.kernels.base import ShiftInvariantKernel
from sfumato.kernels.registry import register
from sfumato.public.portable import FloatArray
from sfumato.public.streams import PublicStream


@register
@dataclass(frozen=True, init=False, repr=False)
class Cauchy(ShiftInvariantKernel):
    """``k(x, y) = prod_j 1 / (1 + u_j^2)``; its frequencies are standard Laplace for the unit bandwidth.

    Examples
    --------
    >>> Cauchy(1.0).value([[0.0, 0.0]], [[1.0, 2.0]])
    array([[0.1]])
    """

    name = "cauchy"
    product = True

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        denominator = np.ones((len(U), len(V)))
        factor = np.empty_like(denominator)
        # Far away in many columns the product may overflow; the kernel is then 0, rightly.
        with np.errstate(over="ignore"):
            for u, v in zip(U.T, np.ascontiguousarray(V.T), strict=True):
                np.subtract(u[:, None], v, out=factor)
                np.square(factor, out=factor)
                factor += 1.0
                denominator *= factor
        return np.divide(1.0, denominator, out=denominator)

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.square(differences)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        return stream.laplaces(count * dimension).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return dimension * math.log(math.pi)
