"""Stated limits of public parameters, checked where they enter; the standard library only, because devices check too.

Within them every length, its square and its fourth power, and every quotient of two lengths and its square, are
ordinary double-precision numbers, so that no finite value can turn into one that is not a number on its way to an
integer. Beyond them a change of units, which is public, does what was wanted. docs/limits.md lists them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from sfumato.errors import InputError
from sfumato.public.codec import brief

# Absolute values of bounds, landmarks and listed queries; widths of bounds, bandwidths and radii.
LARGEST_LENGTH, SMALLEST_LENGTH = 1e50, 1e-50
# Bounds that nobody gave, where only a record's direction matters or how far it is from landmarks.
LARGEST_DEFAULT = 2.0**301
# Absolute values of queries, which need not lie within the bounds.
FARTHEST_QUERY = 1e60
# Width of a column's bounds beside the larger of them: less leaves too few doubles in between.
NARROWEST_BOUNDS = 2.0**-40
# Largest double.
LARGEST_NUMBER = sys.float_info.max
MOST_COLUMNS = 2**20
# More records than anyone has.
MOST_RECORDS = 10**15
SMALLEST_EPSILON = Fraction(1, 10**9)
SMALLEST_DELTA = 1e-100
# Whole numbers among the options: sizes, depths, records of a user.
LARGEST_OPTION = 2**40
# Integers of a release: 2 GB of memory.
MOST_INTEGERS = 2**28
# More numbers than any release or budget has.
BEYOND_SIZES = 2**64
# Bytes that reading a release may take beside what its file holds, unless the caller allows more: what a small hostile
# file can at most make its reader do. Drawing one public number takes about so many bytes at the peak.
READER_MEMORY, DRAWN_BYTES = 2**29, 24
# Products of weights and sums that one answer of a release may take: about a second.
MOST_PRODUCTS = 2**30
# Products that making a reader ready may take, once for all answers: about two seconds.
MOST_WORK = 2**32

_reader_memory: ContextVar[int] = ContextVar("reader_memory", default=READER_MEMORY)


@contextmanager
def reader_memory(most: int | None) -> Iterator[None]:
    """Allow readers that are made inside so many bytes; None for the default."""
    token = _reader_memory.set(READER_MEMORY if most is None else check_whole("max_memory", most, 2**60))
    try:
        yield
    finally:
        _reader_memory.reset(token)


def check_reader_cost(numbers: float, products: float = 0) -> None:
    """Refuse a release whose reader would draw too many public numbers, or multiply too many for one answer.

    Examples
    --------
    >>> check_reader_cost(numbers=10**6)
    >>> check_reader_cost(numbers=10**9)
    Traceback (most recent call last):
    sfumato.errors.InputError: reading this release takes about 24000 MB, and 537 are allowed; pass max_memory= to load
    """
    needed, allowed = DRAWN_BYTES * numbers, _reader_memory.get()
    if not needed <= allowed:
        raise InputError(
            f"reading this release takes about {needed / 1e6:.0f} MB, and {allowed / 1e6:.0f} are allowed; pass "
            "max_memory= to load"
        )
    if not products <= MOST_PRODUCTS:
        raise InputError(f"one answer of this release takes {products:.3g} products, and {MOST_PRODUCTS} are the most")


def check_reader_work(products: float, fix: str) -> None:
    """Refuse a release whose reader takes too many products before its first answer; whoever makes one is told the fix.

    Who allows more memory than usual allows as many times the products.

    Examples
    --------
    >>> check_reader_work(1e9, "fewer columns")
    >>> check_reader_work(5e9, "fewer columns")
    Traceback (most recent call last):
    sfumato.errors.InputError: reading this release first takes 5e+09 products, and 4.29e+09 are allowed; to make one,
    pass fewer columns, and to load one, max_memory=625000000
    """
    allowed = MOST_WORK * max(1.0, _reader_memory.get() / READER_MEMORY)
    if not products <= allowed:
        raise InputError(
            f"reading this release first takes {products:.3g} products, and {allowed:.3g} are allowed; to make one, "
            f"pass {fix}, and to load one, max_memory={math.ceil(READER_MEMORY * products / MOST_WORK)}"
        )


def size_of(sides: Iterable[int]) -> int:
    """Multiply positive sides; from `BEYOND_SIZES` on the product may be of the first ones only.

    The product of all columns of a file from others may have millions of digits.

    Examples
    --------
    >>> size_of([3, 4, 5]), size_of([2**53] * 10**6) >= BEYOND_SIZES
    (60, True)
    """
    size = 1
    for side in sides:
        size *= side
        if size >= BEYOND_SIZES:
            break
    return size


def check_bounds(lower: Sequence[float], upper: Sequence[float], largest: float = LARGEST_LENGTH) -> None:
    """Refuse bounds, finite and in order, that are too far out or too close together.

    Examples
    --------
    >>> check_bounds([0.0], [1.0])
    >>> check_bounds([0.0], [1e60])
    Traceback (most recent call last):
    sfumato.errors.InputError: bounds of column 0 must lie within 1e+50 of 0, got (0, 1e+60); use other units
    """
    for column, (low, high) in enumerate(zip(lower, upper, strict=True)):
        farthest = max(abs(low), abs(high))
        if not farthest <= largest:
            raise InputError(
                f"bounds of column {column} must lie within {largest:g} of 0, got ({low:g}, {high:g}); use other units"
            )
        if not high - low >= max(SMALLEST_LENGTH, NARROWEST_BOUNDS * farthest):
            raise InputError(
                f"bounds of column {column} are too close together for floating point, got ({low!r}, {high!r}); take "
                "off a public offset, or use other units"
            )


def check_length(name: str, value: float) -> None:
    """Refuse a bandwidth or radius outside the limits, which is not a number included.

    Examples
    --------
    >>> check_length("bandwidth", 0.5)
    """
    if not SMALLEST_LENGTH <= value <= LARGEST_LENGTH:
        raise InputError(
            f"{name} must lie between {SMALLEST_LENGTH:g} and {LARGEST_LENGTH:g}, got {brief(value)}; use other units"
        )


def plain_number(value: Any) -> Any:
    """Take a number out of NumPy's wrapping, or as the double nearest to it, for a check that knows int and float.

    Examples
    --------
    >>> plain_number(24), plain_number(Fraction(1, 2))
    (24, 0.5)
    """
    if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "shape", None):
        value = value.item()
    if isinstance(value, Real | Decimal) and not isinstance(value, Integral):
        with suppress(OverflowError, ValueError):  # beyond all doubles, or no number: the check refuses it
            return float(value)
    return value


def check_whole(name: str, value: Any, most: int, least: int = 1) -> int:
    """Return a whole number within limits.

    Examples
    --------
    >>> check_whole("n_hint", 1000, MOST_RECORDS)
    1000
    """
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        wanted = "a positive whole number" if least == 1 else f"a whole number of at least {least}"
        raise InputError(f"{name} must be {wanted}, up to {most}; got {brief(value)}")
    return int(value)


def check_budget(epsilon: Fraction, delta: float) -> None:
    """Refuse a budget so small that the arithmetic of its noise has no digits left.

    Examples
    --------
    >>> check_budget(Fraction(1, 10), delta=1e-6)
    """
    if not epsilon >= SMALLEST_EPSILON:
        raise InputError(f"epsilon must be at least {float(SMALLEST_EPSILON):g}: so little tells nothing; pass more")
    if 0 < delta < SMALLEST_DELTA:
        raise InputError(f"delta must be 0 or at least {SMALLEST_DELTA:g}, got {delta:g}; pass delta=0")


def check_size(integers: int) -> None:
    """Refuse a release of more integers than a machine holds.

    Examples
    --------
    >>> check_size(2**20)
    """
    if integers > MOST_INTEGERS:
        raise InputError(
            f"this takes {integers} integers, and {MOST_INTEGERS} fit; pass smaller sizes in options, or fewer columns"
        )
