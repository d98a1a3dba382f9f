"""Kernels of a norm: ``exp(-|u|_p)`` and ``1 / (1 + h)^power``.

**Exponential**, ``exp(-|u|_p)``, ``u = A^-1 (x - y)``: exponential of a norm, not of its power. For p = 2, the default.

Frequencies, for every p from 1 to 2. ``exp(-s^(1/p))`` is the Laplace transform of the positive stable law of index 1/p
(S. Bochner), so with T of that law and independent symmetric p-stable ``a_j``, whose characteristic function is
``exp(-|t|^p)``,

    E exp(i T^(1/p) a . u) = E exp(-T |u|_p^p) = exp(-|u|_p),

and ``w = T^(1/p) a`` is an exact draw. For p = 2 it is the multivariate Cauchy law, for p = 1 (T = 1) independent
Cauchy numbers. T comes from M. Kanter's formula: with theta uniform in (0, pi), E exponential and alpha = 1/p,
``T^alpha = sin(alpha theta)^alpha / sin(theta) * (sin((1 - alpha) theta) / E)^(1 - alpha)``.

**Rational**, ``1 / (1 + h)^power``: smooth, with heavy tails; and the short sums of exponentials that stand for it.

With ``u = A^-1 (x - y)``, ``h`` is ``|u|_2`` ("l2"), ``|u|_2^2`` ("sqeuclidean") or ``|u|_1`` ("l1"): the smooth
kernels of Backurs et al. (2024) (Table 1, section 3). With T of the Gamma law of shape `power`,

    (1 + h)^-power = E exp(-T h),

a mixture of Exponential, Gaussian or Laplacian kernels over bandwidths. So a frequency of the mixture is a frequency of
`exp(-h)`, times T (or sqrt(T) for the square): one draw is unbiased for the whole kernel.

T comes from Marsaglia and Tsang's rejection (2000), a = power (or power + 1 below 1, times U^(1 / power)): with
d = a - 1/3 and c = 1 / sqrt(9 d), a normal x and a uniform u give d v, v = (1 + c x)^3, if v > 0 and
log u < x^2 / 2 + d - d v + d log v. Candidates are tried in the order of their streams, so the first m of a longer draw
are the draw of m.

**Sums of exponentials** for ``(1 + h)^-power``, with a proven error for every ``h >= 0``.

Source: the reduction of smooth kernels to exponential ones in Backurs et al. (2024) (Theorem 3.1, Corollary 3.2);
here by the trapezoidal rule, whose error has a closed bound. With ``t = e^s``,

    (1 + h)^-b = (1 / Gamma(b)) integral over all s of f(s) ds,    f(s) = exp(b s - e^s (1 + h)),

and the rule of step d, ``s_j = j d``, gives terms ``a_j exp(-t_j h)`` with ``t_j = e^(j d)`` and
``a_j = d exp(b j d - t_j) / Gamma(b)``.

Error. (i) All terms j from minus to plus infinity: the Fourier transform of f at w is
``Gamma(b - i w) (1 + h)^(-b + i w)``, so by Poisson's formula the sum differs from the integral by at most
``2 sum over k >= 1 of |Gamma(b + 2 pi i k / d)| / Gamma(b)``, times ``(1 + h)^-b <= 1``. (ii) Terms below j_0, left
out: at most ``d e^(b d j_0) / (Gamma(b) (e^(b d) - 1))``, a geometric series. (iii) Terms above j_1, left out: at most
the sum of their weights, which fall like ``exp(-e^s)``. `error` is the sum of the three; the number of terms grows like
the square of log(1 / error) at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sfumato.deferred import cdist, loggamma
from sfumato.errors import InputError
from sfumato.kernels.base import Bandwidth, register
from sfumato.kernels.exact import exp_negative, squared_distances
from sfumato.kernels.shift_invariant import Gaussian, Laplacian, ShiftInvariantKernel
from sfumato.public import portable
from sfumato.public.codec import Real, Text, brief
from sfumato.public.portable import FloatArray, PublicStream
from sfumato.roots import brentq


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
            raise InputError(f"p must be a number from 1 to 2; got {brief(p)}")
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


SMALLEST_POWER, LARGEST_POWER = 0.125, 64.0
CANDIDATES = 1024
SMALLEST_ERROR, LARGEST_ERROR = 1e-10, 0.1
ROUNDING = 1e-13  # of the weights, rates and bounds, each good to a few units of 1e-16
FARTHEST_RATE = 800.0  # exp(-t) vanishes beyond


# The kernel exp(-h) of each distance, and by which power of T its bandwidth shrinks.
MIXED: dict[str, tuple[type[ShiftInvariantKernel], float]] = {
    "l2": (Exponential, 1.0),
    "sqeuclidean": (Gaussian, 0.5),
    "l1": (Laplacian, 1.0),
}
_DISTANCES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "l2": cdist,
    "sqeuclidean": squared_distances,
    "l1": lambda U, V: np.asarray(cdist(U, V, "cityblock")),
}


@register
@dataclass(frozen=True, init=False, repr=False)
class Rational(ShiftInvariantKernel):
    """``k(x, y) = 1 / (1 + h(A^-1 (x - y)))^power``.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``, a length in data units.
    distance : {"l2", "sqeuclidean", "l1"}
        ``h``: the Euclidean distance, its square, or the sum of absolute values.
    power : float
        From 1/8 to 64.

    Examples
    --------
    >>> Rational(5.0).value([[0.0, 0.0]], [[3.0, 4.0]])
    array([[0.5]])
    >>> Rational(1.0, "sqeuclidean", power=2).value([[0.0]], [[3.0]])
    array([[0.01]])
    """

    distance: str
    power: float
    name = "rational"
    schema = ShiftInvariantKernel.schema.extended(distance=Text(*MIXED), power=Real(SMALLEST_POWER, LARGEST_POWER))

    def __init__(self, bandwidth: Bandwidth, distance: str = "l2", power: float = 1.0) -> None:
        super().__init__(bandwidth)
        if not isinstance(distance, str) or distance not in MIXED:
            raise InputError(f"distance must be one of {', '.join(MIXED)}; got {brief(distance)}")
        number = isinstance(power, int | float | np.number) and not isinstance(power, bool)
        if not number or not SMALLEST_POWER <= power <= LARGEST_POWER:
            raise InputError(f"power must be a number from {SMALLEST_POWER:g} to {LARGEST_POWER:g}; got {brief(power)}")
        object.__setattr__(self, "distance", distance)
        object.__setattr__(self, "power", float(power))

    def term(self, rate: float) -> ShiftInvariantKernel:
        """Return the kernel ``exp(-rate h)``: a Laplacian, Gaussian or Exponential kernel of another bandwidth.

        Examples
        --------
        >>> Rational(6.0, "sqeuclidean").term(4.0)
        Gaussian(bandwidth=3.0)
        """
        family, shrink = MIXED[self.distance]
        return family(self.scale.multiply(rate**-shrink))

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        values = _DISTANCES[self.distance](U, V)
        values += 1.0
        return np.asarray(values**-self.power)

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        # The scales come from a stream of their own, so that the first m of a longer draw are the draw of m.
        scales = gammas(PublicStream(int(stream.words(1)[0]), "rational/scales"), count, self.power)
        family, shrink = MIXED[self.distance]
        unit = family(1.0)._unit_frequencies(stream, count, dimension)
        return unit * (scales if shrink == 1.0 else np.sqrt(scales))

    def _unit_log_integral(self, dimension: int) -> float:
        # E over T of the integral of exp(-T h), which is T^-(shrink d) times that of exp(-h).
        family, shrink = MIXED[self.distance]
        left = self.power - shrink * dimension
        if left <= 0:
            raise InputError(
                f"{self!r} has no finite integral in {dimension} column(s), so there is no normalised density; use "
                f"query, or a power above {shrink * dimension:g}"
            )
        return family(1.0)._unit_log_integral(dimension) + math.lgamma(left) - math.lgamma(self.power)

    def __repr__(self) -> str:
        power = "" if self.power == 1.0 else f", power={self.power:g}"
        return f"Rational(bandwidth={self.scale!r}, distance={self.distance!r}{power})"


def gammas(stream: PublicStream, count: int, shape: float) -> FloatArray:
    """Draw numbers of the Gamma law, the same on every machine; see the module's text.

    Examples
    --------
    >>> float(gammas(PublicStream(1, "example"), 10_000, 2.5).mean().round(1))
    2.5
    """
    normals, uniforms, powers = (PublicStream(int(word), "rational/gamma") for word in stream.words(3))
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    drawn: list[FloatArray] = []
    missing = count
    while missing > 0:
        x, u = normals.normals(CANDIDATES), uniforms.uniforms(CANDIDATES)
        root = 1.0 + c * x
        cube = np.where(root > 0.0, root * root * root, 1.0)
        accepted = (root > 0.0) & (portable.log(u) < 0.5 * x * x + d - d * cube + d * portable.log(cube))
        drawn.append(d * cube[accepted])
        missing -= len(drawn[-1])
    result = np.concatenate(drawn or [np.empty(0)])[:count]
    if shape >= 1.0:
        return result
    return result * portable.exp(portable.log(powers.uniforms(count)) / shape)


@dataclass(frozen=True)
class ExponentialSum:
    """``sum_j weights[j] exp(-rates[j] h)``, within `error` of ``(1 + h)^-power`` for every ``h >= 0``.

    Examples
    --------
    >>> made = exponential_sum(1.0, 1e-3)
    >>> len(made.rates), made.error <= 1e-3
    (11, True)
    >>> h = np.array([0.0, 1.0, 30.0])
    >>> bool(np.abs(made.value(h) - 1 / (1 + h)).max() <= made.error)
    True
    """

    power: float
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    error: float

    def value(self, h: FloatArray) -> FloatArray:
        """Value of the sum at distances of any shape."""
        return np.asarray(np.exp(-np.multiply.outer(h, np.array(self.rates))) @ np.array(self.weights))


@lru_cache(maxsize=256)
def exponential_sum(power: float, error: float) -> ExponentialSum:
    """Build the sum of exponentials for ``(1 + h)^-power`` with a proven error of at most `error`."""
    if not SMALLEST_ERROR <= error <= LARGEST_ERROR:
        raise InputError(f"the error of a sum of exponentials must lie between 1e-10 and 0.1, got {brief(error)}")
    step = float(brentq(lambda d: math.log(aliasing(power, d) / (error / 2)), 0.05, 20.0, rtol=1e-6)) * (1 - 1e-5)
    first = math.floor(math.log(error / 4 / _below(power, step, 0)) / (power * step)) + 1
    while _below(power, step, first) > error / 4:
        first -= 1
    last = math.ceil(math.log(FARTHEST_RATE) / step)
    rates = np.exp(step * np.arange(first, last + 1))
    weights = step * np.exp(power * np.log(rates) - rates - math.lgamma(power))
    tails = np.cumsum(weights[::-1])[::-1]
    kept = int((tails > error / 4).sum())  # what lies beyond adds up to a quarter of the error at most
    beyond = float(tails[kept]) if kept < len(tails) else 0.0
    proven = aliasing(power, step) + _below(power, step, first) + beyond + ROUNDING
    return ExponentialSum(power, tuple(rates[:kept].tolist()), tuple(weights[:kept].tolist()), proven)


def aliasing(power: float, step: float) -> float:
    """Largest relative error of the rule over all terms, see the module's text.

    Examples
    --------
    >>> round(aliasing(1.0, 1.0), 6)
    0.00065
    """
    total = 0.0
    for k in range(1, 10_000):
        term = 2 * math.exp(float(loggamma(complex(power, 2 * math.pi * k / step)).real) - math.lgamma(power))
        total += term
        if term < 1e-18 + 1e-16 * total:
            break
    return total


def _below(power: float, step: float, first: int) -> float:
    """Upper limit of the terms below `first`."""
    return step * math.exp(power * step * first - math.lgamma(power)) / math.expm1(power * step)
