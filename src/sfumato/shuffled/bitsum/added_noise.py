"""Protocols that send only ones: a message if the bit is 1, and a share of noise messages that nobody can tell from it.

The view of one instance is the number of messages, the sum of the bits plus a noise count N. It has the law of N or of
N + 1, whatever the bits of the others, so that one pair of laws is the worst case. Its loss ln(P(v) / P(v - 1)) follows
from the ratio of neighbouring probabilities, which is known in closed form; probabilities come from products of ratios,
tails from Chernoff's bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sfumato.errors import InputError
from sfumato.shuffled.bitsum.curves import Pair
from sfumato.shuffled.bitsum.protocol import Floats

Values = NDArray[np.int64]

LARGEST_WINDOW = 5 * 10**6  # values; arrays of them take a few hundred megabytes


def chernoff_window(mean: float, exponent: Callable[[float], float], tail: float) -> tuple[int, int]:
    """Return the ends of an interval of counts that leaves out at most `tail`.

    Parameters
    ----------
    mean : float
        Mean of the counts.
    exponent : callable
        Cramer's function: the count lies beyond x, away from the mean, with probability at most exp(-exponent(x)).
    tail : float
        Probability that may be left out.

    Examples
    --------
    >>> chernoff_window(100.0, lambda x: poisson_exponent(x, 100.0), 1e-6)
    (51, 159)
    """
    needed = math.log(2 / tail)
    low = 0 if exponent(0.0) < needed else math.floor(brentq(lambda x: exponent(x) - needed, 0.0, mean))
    end = 2 * mean + 1
    while exponent(end) < needed:
        end *= 2
    high = math.ceil(brentq(lambda x: exponent(x) - needed, mean, end))
    if high - low > LARGEST_WINDOW:
        raise InputError(
            f"the noise would need about {mean:.1g} messages an instance, more than can be calibrated; "
            "take a larger epsilon or delta, or fewer instances"
        )
    return low, high


def poisson_exponent(x: float, mean: float) -> float:
    """Cramer's function of a Poisson count.

    Examples
    --------
    >>> poisson_exponent(0.0, 3.0)
    3.0
    """
    return (x * math.log(x / mean) if x else 0.0) - x + mean


def negative_binomial_exponent(x: float, shape: float, mean: float) -> float:
    """Cramer's function of a negative binomial count.

    Examples
    --------
    >>> round(math.exp(-negative_binomial_exponent(0.0, 1.0, 3.0)), 10)  # a geometric count of mean 3 is 0
    0.25
    """
    return (x * math.log(x / mean) if x else 0.0) - (x + shape) * math.log((x + shape) / (mean + shape))


def negative_binomial_log_moment(tilt: float, shape: float, rate: float) -> float:
    """Return ln E[exp(tilt * count)] of a negative binomial count, for a tilt below its rate.

    Examples
    --------
    >>> round(math.exp(negative_binomial_log_moment(math.log(1.5), 1.0, math.log(2))), 10)  # sum of (3/4)^k / 2
    2.0
    """
    return shape * math.log(math.expm1(-rate) / math.expm1(tilt - rate))


def law_from_ratios(log_ratios: Floats) -> Floats:
    """Return probabilities of consecutive counts whose neighbours have these log ratios, on a window that holds all.

    Examples
    --------
    >>> law_from_ratios(np.log([2.0, 0.5]))
    array([0.25, 0.5 , 0.25])
    """
    logs = np.concatenate([[0.0], np.cumsum(log_ratios)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def shifted_pair(low: int, high: int, log_ratio: Callable[[Values], Floats], tail: float) -> Pair:
    """Return the laws of N and N + 1.

    Parameters
    ----------
    low, high : int
        Ends of an interval outside of which N lies with probability `tail` at most.
    log_ratio : callable
        ln(Pr[N = v] / Pr[N = v - 1]) for an array of values v, falling with v.
    tail : float
        Bound of the probability outside.
    """
    values = np.arange(low + 1, high + 1)
    losses = log_ratio(values)
    law = law_from_ratios(losses)
    # The value `low` of N and the value high + 1 of N + 1 have no partner in the interval.
    return Pair(law[:0:-1], law[-2::-1], losses[::-1], tail, float(law[0]), float(law[-1]))
