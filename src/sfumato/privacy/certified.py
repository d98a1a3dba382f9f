"""Logarithms, pi and a theta series between exact bounds: fractions below and above, as close as asked for.

`decimal` rounds `ln` and `exp` correctly, so a result differs from the true value by less than one unit of its last
digit; what is rounded before is rounded down for the lower bound and up for the upper one. No binary floating-point
number takes part.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

Interval: TypeAlias = tuple[Fraction, Fraction]

SPARE_DIGITS = 12


def _digits(precision: int) -> int:
    """Decimal digits for so many binary ones, some to spare."""
    return precision * 3 // 10 + SPARE_DIGITS


def _around(value: Decimal, digits: int) -> Interval:
    """Bounds of the number that was rounded to `value`."""
    exact = Fraction(value)
    unit = abs(exact) / 10 ** (digits - 1)
    return exact - unit, exact + unit


def log(value: Fraction, precision: int) -> Interval:
    """Bounds of the natural logarithm of a positive fraction, about 2^-precision apart relative to their terms.

    Examples
    --------
    >>> low, high = log(Fraction(1, 2), 64)
    >>> float(low), low < high
    (-0.6931471805599453, True)
    """
    digits = _digits(precision)
    context = Context(prec=digits)
    above = _around(context.ln(Decimal(value.numerator)), digits)
    below = _around(context.ln(Decimal(value.denominator)), digits)
    return above[0] - below[1], above[1] - below[0]


def exp(value: Interval, precision: int) -> Interval:
    """Bounds of exp over an interval.

    Examples
    --------
    >>> low, high = exp((Fraction(-1), Fraction(-1)), 64)
    >>> float(low), low < high
    (0.36787944117144233, True)
    """
    digits, context = _digits(precision), Context(prec=_digits(precision))
    low, high = (
        Context(prec=digits, rounding=rounding).divide(Decimal(bound.numerator), Decimal(bound.denominator))
        for bound, rounding in zip(value, (ROUND_FLOOR, ROUND_CEILING), strict=True)
    )
    return _around(context.exp(low), digits)[0], _around(context.exp(high), digits)[1]


@lru_cache(maxsize=8)
def pi(precision: int) -> Interval:
    """Bounds of pi, 2^-precision apart or less: Machin's 16 arctan(1/5) - 4 arctan(1/239) in fixed point.

    Examples
    --------
    >>> low, high = pi(64)
    >>> float(low), high - low < Fraction(1, 2**64)
    (3.141592653589793, True)
    """
    unit = 1 << (precision + 32)
    # Every term is rounded by less than one unit, and the series, which alternates, by less than one more.
    terms = precision + 64
    middle = 16 * _arctan(5, unit, terms) - 4 * _arctan(239, unit, terms)
    slack = 20 * (terms + 1)
    return Fraction(middle - slack, unit), Fraction(middle + slack, unit)


def _arctan(inverse: int, unit: int, terms: int) -> int:
    """Sum the series of arctan(1 / inverse) in multiples of 1 / unit, every term rounded down once."""
    return sum((-1) ** k * (unit // ((2 * k + 1) * inverse ** (2 * k + 1))) for k in range(terms))


@lru_cache(maxsize=64)
def log_theta(sigma: int, precision: int) -> Interval:
    """Bounds of the logarithm of 1 + 2 sum over k >= 1 of exp(-2 pi^2 sigma^2 k^2), about 2^-precision apart.

    That is the sum of exp(-z^2 / (2 sigma^2)) over all integers z, over sigma sqrt(2 pi) (Poisson).

    Examples
    --------
    >>> low, high = log_theta(1, 64)
    >>> round(float(low) * 1e9, 4), low < high
    (5.3506, True)
    """
    around = pi(precision + 64)
    low = high = Fraction(1)
    k = 1
    while 19 * (sigma * k) ** 2 <= precision + 8:  # 2 pi^2 > 19, and exp(-1) < 2^-1
        term = exp((-2 * around[1] ** 2 * (sigma * k) ** 2, -2 * around[0] ** 2 * (sigma * k) ** 2), precision + 64)
        low, high, k = low + 2 * term[0], high + 2 * term[1], k + 1
    high += Fraction(4, 2 ** (precision + 8))  # all further terms: each is less than half of the one before
    return log(low, precision + 64)[0], log(high, precision + 64)[1]
