r"""Short sums of exponentials for ``(1 + h)^-power``, with a proven error for every ``h >= 0``.

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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import loggamma

from sfumato.errors import InputError
from sfumato.public.portable import FloatArray

SMALLEST_ERROR, LARGEST_ERROR = 1e-10, 0.1
ROUNDING = 1e-13  # of the weights, rates and bounds, each good to a few units of 1e-16
FARTHEST_RATE = 800.0  # exp(-t) vanishes beyond


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
        raise InputError(f"the error of a sum of exponentials must lie between 1e-10 and 0.1, got {error!r}")
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
