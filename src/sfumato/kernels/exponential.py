r"""The kernel ``exp(-|u|_p)``, ``u = A^-1 (x - y)``: exponential of a norm, not of its power. For p = 2, the default.

Frequencies, for every p from 1 to 2. ``exp(-s^(1/p))`` is the Laplace transform of the positive stable law of index 1/p
(S. Bochner), so with T of that law and independent symmetric p-stable ``a_j``, whose characteristic function is
``exp(-|t|^p)``,

    E exp(i T^(1/p) a . u) = E exp(-T |u|_p^p) = exp(-|u|_p),

and ``w = T^(1/p) a`` is an exact draw. For p = 2 it is the multivariate Cauchy law, for p = 1 (T = 1) independent
Cauchy numbers. T comes from M. Kanter's formula: with theta uniform in (0, pi), E exponential and alpha = 1/p,
``T^alpha = sin(alpha theta)^alpha / sin(theta) * (sin((1 - alpha) theta) / E)^(1 - alpha)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels.base import ShiftInvariantKernel, register
from sfumato.kernels.exact import exp_negative
from sfumato.kernels.scale import Bandwidth
from sfumato.public import portable
from sfumato.public.codec import Real
from sfumato.public.portable import FloatArray
from sfumato.public.streams import PublicStream


@register
@dataclass(frozen=True, init=False, repr=False)
class Exponential(ShiftInvariantKernel):
    """``k(x, y) = exp(-|A^-1 (x - y)|_p)``.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``, a length in data units.
    p : float
        The norm, from 1 to 2; p = 1 is the Laplacian kernel.

    Examples
    --------
    >>> Exponential(5.0).value([[0.0, 0.0]], [[3.0, 4.0]]).round(6)
    array([[0.367879]])
    """

    p: float
    name = "exponential"
    schema = ShiftInvariantKernel.schema.extended(p=Real(1.0, 2.0))

    def __init__(self, bandwidth: Bandwidth, p: float = 2.0) -> None:
        super().__init__(bandwidth)
        if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 1.0 <= p <= 2.0:
            raise InputError(f"p must be a number from 1 to 2; got {p!r}")
        object.__setattr__(self, "p", float(p))

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        if self.p == 2.0:
            return exp_negative(cdist(U, V))
        return exp_negative(cdist(U, V, "minkowski", p=self.p))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        # The scales come from a stream of their own, so that the first m of a longer draw are the draw of m.
        scales = PublicStream(int(stream.words(1)[0]), "exponential/scales")
        directions = stream.stables(count * dimension, self.p).reshape(count, dimension).T
        return directions if self.p == 1.0 else directions * _stable_powers(scales, count, 1.0 / self.p)

    def _unit_log_integral(self, dimension: int) -> float:
        # The volume of the unit ball of the norm, times the integral of d r^(d-1) exp(-r).
        ball = dimension * (math.log(2.0) + math.lgamma(1.0 + 1.0 / self.p)) - math.lgamma(1.0 + dimension / self.p)
        return ball + math.lgamma(1.0 + dimension)

    def __repr__(self) -> str:
        return f"Exponential(bandwidth={self.scale!r}, p={self.p!r})"


def _stable_powers(stream: PublicStream, count: int, alpha: float) -> FloatArray:
    """``T^alpha`` for positive stable T of index alpha below 1, two words each; see the module's text."""
    u, v = np.ascontiguousarray(stream.uniforms(2 * count).reshape(count, 2).T)
    half_turns = 0.5 * u  # theta = pi u, in turns
    _, sine = portable.cos_sin_turns(half_turns)
    _, sine_alpha = portable.cos_sin_turns(alpha * half_turns)
    _, sine_rest = portable.cos_sin_turns((1.0 - alpha) * half_turns)
    log_ratio = portable.log(sine_rest) - portable.log(-portable.log(v))
    logarithm = alpha * portable.log(sine_alpha) - portable.log(sine) + (1.0 - alpha) * log_ratio
    return portable.exp(logarithm)
