"""Exact probabilities of randomised response: integer weights whose ratio never exceeds e^epsilon.

A device picks an outcome with probability ``same / total`` or ``other / total``, integers that stand in the protocol,
by one exactly uniform integer below `total`. The guarantee needs ``same <= other e^epsilon``, which `keeps_epsilon`
decides in decimal arithmetic with a margin for its own rounding. The standard library only.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

from sfumato.errors import InputError

OTHER = 1 << 20
# Beyond it a report is almost surely true, and weights would leave 62 bits; more epsilon is not used.
LARGEST_EPSILON = Fraction(24)


def same_weight(epsilon: Fraction, other: int = OTHER) -> int:
    """Return the largest integer that is surely at most ``other e^epsilon``.

    Examples
    --------
    >>> same_weight(Fraction(1), 1000)
    2718
    """
    return int((other * _power_below(min(epsilon, LARGEST_EPSILON))).to_integral_value(ROUND_FLOOR))


def keeps_epsilon(same: int, other: int, epsilon: Fraction) -> bool:
    """Whether the odds ``same / other`` are at most e^epsilon.

    Examples
    --------
    >>> keeps_epsilon(2718, 1000, Fraction(1)), keeps_epsilon(2719, 1000, Fraction(1))
    (True, False)
    """
    return 0 < other <= same <= other * _power_below(epsilon)


def _power_below(epsilon: Fraction) -> Decimal:
    """e^epsilon, rounded down in the 40th digit or so."""
    with localcontext() as context:
        context.prec = 60
        exponent = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        return exponent.exp() * (1 - Decimal(10) ** -40)


def check_weights(same: object, other: object, epsilon: Fraction) -> tuple[int, int]:
    """Return the weights of a protocol if they keep the promise."""
    if type(same) is not int or type(other) is not int or not keeps_epsilon(same, other, epsilon):
        raise InputError(
            "the protocol's probabilities do not keep the epsilon that it promises: do not report under it, and tell "
            "the organiser"
        )
    return same, other
