"""The Laplacian kernel ``exp(-|A^-1 (x - y)|_1)``, for one bandwidth s ``exp(-|x - y|_1 / s)``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.kernels.base import ShiftInvariantKernel
from sfumato.kernels.pairwise import exp_negative
from sfumato.kernels.registry import register
from sfumato.public.portable import FloatArray
from sfumato.public.streams import PublicStream


@register
@dataclass(frozen=True, init=False, repr=False)
class Laplacian(ShiftInvariantKernel):
    """``k(x, y) = exp(-|A^-1 (x - y)|_1)``; its frequencies are standard Cauchy for the unit bandwidth.

    Examples
    --------
    >>> Laplacian(2.0).value([[0.0, 0.0]], [[1.0, -1.0]]).round(6)
    array([[0.367879]])
    """

    name = "laplacian"
    product = True

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        return exp_negative(cdist(U, V, "cityblock"))

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-np.abs(differences)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        return stream.cauchys(count * dimension).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return dimension * math.log(2.0)
