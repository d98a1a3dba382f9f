"""The kernel ``exp(-sum_j |u_j|^p)`` with ``u = A^-1 (x - y)``, from Laplacian (p = 1) to Gaussian (p = 2).

Each coordinate of a frequency is p-stable, because ``exp(-|t|^p)`` is the characteristic function of that law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels.base import ShiftInvariantKernel
from sfumato.kernels.pairwise import exp_negative
from sfumato.kernels.registry import register
from sfumato.kernels.scale import Bandwidth
from sfumato.public.portable import FloatArray
from sfumato.public.streams import PublicStream


@register
@dataclass(frozen=True, init=False, repr=False)
class StableExponential(ShiftInvariantKernel):
    """``k(x, y) = exp(-sum_j |u_j|^p)``; its frequencies are symmetric p-stable for the unit bandwidth.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``, a length in data units.
    p : float
        From 1 to 2.

    Examples
    --------
    >>> StableExponential(2.0, p=1.5).value([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
    array([[0.367879]])
    """

    p: float
    name = "stable-exponential"
    product = True

    def __init__(self, bandwidth: Bandwidth, p: float) -> None:
        super().__init__(bandwidth)
        if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 1.0 <= p <= 2.0:
            raise InputError(f"p must be a number from 1 to 2; got {p!r}")
        object.__setattr__(self, "p", float(p))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> NoReturn:
        """Refuse: the family needs p as well."""
        raise InputError(f"the kernel {cls.name!r} needs p: pass an object, kernels.StableExponential(bandwidth, p)")

    def to_document(self) -> dict[str, Any]:
        """Plain JSON values, with the field ``p``."""
        return {**super().to_document(), "p": self.p}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StableExponential:
        """Rebuild what `to_document` wrote."""
        return cls(document["bandwidth"], document["p"])

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        return exp_negative(cdist(U, V, "minkowski", p=self.p) ** self.p)

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-(np.abs(differences) ** self.p)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        return stream.stables(count * dimension, self.p).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return dimension * (math.log(2.0) + math.lgamma(1.0 + 1.0 / self.p))

    def __repr__(self) -> str:
        return f"StableExponential(bandwidth={self.scale!r}, p={self.p!r})"
