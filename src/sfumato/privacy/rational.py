"""Privacy parameters as exact fractions.

Noise is sampled exactly for a rational parameter, so the number that a caller types has to become a fraction once,
at the door, in a way that can be explained: a decimal means what it says (``0.1`` is 1/10, not the binary number
next to it), and a number with too many digits is rounded down, never up, so that the noise fits a guarantee at least
as strong as the one that was asked for.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational, Real

from sfumato.errors import InputError

LARGEST_DENOMINATOR = 10**6
SIGNIFICANT_DIGITS = 6
LARGEST_EPSILON = 1000
# A float never goes below 5e-324. Smaller texts are refused before they are turned into integers of a billion digits.
SMALLEST_EXPONENT = -400


def exact_epsilon(value: int | float | str | Decimal | Fraction) -> Fraction:
    """Turn an epsilon into the fraction that the noise is calibrated to.

    A float stands for its shortest decimal form. Where the denominator would exceed a million, the number is rounded
    down to six significant digits: it is never larger than `value` and less than 0.001 % smaller. What is not a finite
    number above 0 and at most 1000 is refused.

    Examples
    --------
    >>> exact_epsilon(0.1)
    Fraction(1, 10)
    >>> exact_epsilon("1/3")
    Fraction(1, 3)
    >>> exact_epsilon(0.123456789)
    Fraction(1929, 15625)
    """
    return exact_positive(value, "epsilon", LARGEST_EPSILON)


def exact_positive(value: int | float | str | Decimal | Fraction, name: str, largest: int) -> Fraction:
    """Turn a positive parameter into a fraction with a small denominator, rounding down.

    Examples
    --------
    >>> exact_positive(1e-9, "delta", 1)
    Fraction(1, 1000000000)
    """
    wanted = f"{name} must be a finite number above 0 and at most {largest}, such as 1, 0.5, '0.1' or Fraction(1, 3)"
    parsed = _parse(value)
    if parsed is None:
        raise InputError(f"{wanted}; got {value!r}.")
    if isinstance(parsed, Decimal):
        # Judged before the conversion to a fraction, whose integers grow with the exponent.
        if not parsed.is_finite() or parsed <= 0 or parsed > largest:
            raise InputError(f"{wanted}; got {value!r}.")
        if parsed.adjusted() < SMALLEST_EXPONENT:
            raise InputError(f"{name} is too small to be of use: got {value!r}. Pass at least 1e{SMALLEST_EXPONENT}.")
        parsed = Fraction(parsed)
    if not 0 < parsed <= largest:
        raise InputError(f"{wanted}; got {value!r}.")
    return _round_down(parsed)


def _parse(value: object) -> Decimal | Fraction | None:
    """Read a number exactly as written; None if it is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return value
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if not isinstance(value, str | Real):
        return None
    text = str(value)  # for floats, numpy's included, the shortest decimal that reads back as the same number
    try:
        return Fraction(text) if "/" in text else Decimal(text)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        return None


def _round_down(value: Fraction) -> Fraction:
    if value.denominator <= LARGEST_DENOMINATOR:
        return value
    context = Context(prec=SIGNIFICANT_DIGITS, rounding=ROUND_DOWN)
    return Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
