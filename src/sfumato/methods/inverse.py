"""The plan turned round: the epsilon, or the number of records, that a wanted error takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.methods.plan import Plan, plan
from sfumato.privacy.rational import LARGEST_EPSILON

SMALLEST_EPSILON = 1e-9
EPSILON_DIGITS = 4
MOST_RECORDS = 1e13
STEP, PRECISION = 1.25, 1e-5


def epsilon_for(error: float, *, n_hint: int, **facts: Any) -> Fraction:
    """Smallest epsilon, rounded up to four digits, for which the best method is predicted to reach an error.

    Parameters
    ----------
    error : float
        Wanted root mean square error of one answer, below 1.
    n_hint : int
        Public guess of the number of records.
    **facts
        The other arguments of `plan`. The prediction is for ``density``, or for a typical one if it is not given.

    Returns
    -------
    Fraction

    Raises
    ------
    InputError
        If no epsilon is enough.

    Examples
    --------
    >>> epsilon_for(0.005, n_hint=100_000, dimension=10, bandwidth=1.0)
    Fraction(8827, 100000)
    """
    _check(error)

    def at(epsilon: float) -> Plan:
        return plan(n_hint=n_hint, epsilon=_rounded_up(epsilon), **facts)

    found = _least(at, error, SMALLEST_EPSILON, float(LARGEST_EPSILON), f"with {n_hint} records; pass a larger n_hint=")
    while _error(at, found) > error:  # whole numbers of features make the prediction a little uneven
        found *= 1 + 10.0**-EPSILON_DIGITS
    return _rounded_up(found)


def n_for(error: float, *, epsilon: Any, **facts: Any) -> int:
    """Smallest number of records for which the best method is predicted to reach an error.

    Parameters
    ----------
    error : float
        Wanted root mean square error of one answer, below 1.
    epsilon : float, str or Fraction
        The privacy budget.
    **facts
        The other arguments of `plan`. The prediction is for ``density``, or for a typical one if it is not given.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If no number is enough.

    Examples
    --------
    >>> n_for(0.005, epsilon=0.1, dimension=10, bandwidth=1.0)
    88388
    """
    _check(error)

    def at(n: float) -> Plan:
        return plan(n_hint=math.ceil(n), epsilon=epsilon, **facts)

    found = math.ceil(_least(at, error, 1.0, MOST_RECORDS, "at this epsilon; pass a larger epsilon="))
    while _error(at, found) > error:
        found += max(1, math.floor(found * PRECISION))
    return found


def _least(at: Callable[[float], Plan], error: float, low: float, high: float, remedy: str) -> float:
    """Raise a value step by step until its plan reaches the error, then bisect on a logarithmic scale.

    Steps are small because more is not always better: under a budget for work, more records have fewer features.
    """
    value, best = low, math.inf
    while (reached := _error(at, value)) > error:
        best = min(best, reached)
        if value == high:
            if best == math.inf:
                at(high)  # raises what stands against any plan
            raise InputError(
                f"an error of {error:g} cannot be reached {remedy} or options= with more features; it is {best:.2g} "
                "at best"
            )
        low, value = value, min(STEP * value, high)
    while value > low * (1 + PRECISION):
        middle = math.sqrt(low * value)
        low, value = (low, middle) if _error(at, middle) <= error else (middle, value)
    return value


def _error(at: Callable[[float], Plan], value: float) -> float:
    """Predicted error, infinite where nothing can be planned."""
    try:
        return at(value).error
    except InputError:
        return math.inf


def _rounded_up(epsilon: float) -> Fraction:
    """Round to four digits, never down, so that the noise is never more than was planned for."""
    digits = Context(prec=EPSILON_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(repr(epsilon)))
    return Fraction(digits)


def _check(error: float) -> None:
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise InputError(f"error must be a number between 0 and 1, got {error!r}")
