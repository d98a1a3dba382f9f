"""Exact probabilities of randomised response: integer weights whose ratio never exceeds e^epsilon.

A device picks an outcome with probability ``same / total`` or ``other / total``, integers that stand in the protocol,
by one exactly uniform integer below `total`. The guarantee needs ``same <= other e^epsilon``, which `keeps_epsilon`
decides in decimal arithmetic with a margin for its own rounding, in a context of its own: whatever precision, rounding
or traps the caller has set are of no effect. The standard library only.
"""

from __future__ import annotations

from decimal import (
    ROUND_FLOOR,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from fractions import Fraction

from sfumato.errors import InputError

OTHER = 1 << 20
# Beyond it a report is almost surely true, and weights would leave 62 bits; more epsilon is not used.
LARGEST_EPSILON = Fraction(24)
DIGITS = 60


def same_weight(epsilon: Fraction, other: int = OTHER) -> int:
    """Return the largest integer that is surely at most ``other e^epsilon``.

    Examples
    --------
    >>> same_weight(Fraction(1), 1000)
    2718
    """
    with localcontext(_context(other)):
        return int(other * _power_below(min(epsilon, LARGEST_EPSILON)))


def keeps_epsilon(same: int, other: int, epsilon: Fraction) -> bool:
    """Whether the odds ``same / other`` are at most e^epsilon.

    Examples
    --------
    >>> keeps_epsilon(2718, 1000, Fraction(1)), keeps_epsilon(2719, 1000, Fraction(1))
    (True, False)
    """
    if not 0 < other <= same:
        return False
    with localcontext(_context(other)):
        return same <= other * _power_below(epsilon)


def _power_below(epsilon: Fraction) -> Decimal:
    """e^epsilon, rounded down in the 40th digit or so; for use in `_context`."""
    exponent = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
    return exponent.exp() * (1 - Decimal(10) ** -40)


def _context(other: int) -> Context:
    """Arithmetic that rounds down, with digits enough for e^epsilon and for `other` times it."""
    return Context(
        prec=DIGITS + other.bit_length() // 3,
        rounding=ROUND_FLOOR,
        Emin=-999_999,
        Emax=999_999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


def check_weights(same: object, other: object, epsilon: Fraction) -> tuple[int, int]:
    """Return the weights of a protocol if they keep the promise."""
    if type(same) is not int or type(other) is not int or not keeps_epsilon(same, other, epsilon):
        raise InputError(
            "the protocol's probabilities do not keep the epsilon that it promises: do not report under it, and tell "
            "the organiser"
        )
    return same, other
