"""Exact samplers of messages: coins, Poisson counts, shares of negative binomial counts, orders; integers only.

Source. Poisson: J. von Neumann's scheme, as in P. Flajolet, M. Pelletier, M. Soria, "On Buffon Machines and Numbers",
SODA 2011: a geometric count k of a rational chance m, kept with probability 1/k!, has probability proportional to
m^k / k!. Negative binomial: a geometric count G is negative binomial of shape 1, and splits into independent parts of
shapes a and 1 - a if its units go one after the other into a Polya urn that starts with a and 1 - a balls: the number
in the first part given G is beta-binomial, which is the law of a part of a negative binomial count given the whole.
The urn's chances (a + mine) / (1 + step) are rational, and the geometric count is exact for a rational rate
(`sfumato.privacy.noise.geometric`). Orders: Fisher and Yates's shuffle, each swap uniform below its bound.

Guarantee: the laws hold exactly, given uniform words (`sfumato.privacy.bits`); no floating-point number takes part.
Counts that would not fit 62 bits have probability below e^-100 within the limits that are checked here.

The time that a sample takes depends on its value; do not let others see how long a device took.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import LARGEST_BOUND, Integers, SecureBits, Words, next_below
from sfumato.privacy.noise import LARGEST_RATE_TERM, next_geometric

SMALLEST_RATE = Fraction(1, 2**24)
LARGEST_SHARES = 2**31
_MOST_PIECES = 4096

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


def checked_rates(*rates: Fraction) -> None:
    """Refuse rates of geometric counts that are not sampled."""
    if min(rates) < SMALLEST_RATE:
        raise InputError(
            f"the rate of the noise would be {float(min(rates)):.2g}, less than is sampled (2**-24); "
            "take a larger epsilon or delta, or fewer instances"
        )


def coins(bits: SecureBits, count: int, chance: Fraction) -> NDArray[np.bool_]:
    """Toss coins that fall True with a rational chance.

    Examples
    --------
    >>> int(coins(SecureBits.seeded(7), 1000, Fraction(2, 3)).sum())
    677
    """
    if not 0 <= chance <= 1 or chance.denominator > LARGEST_BOUND:
        raise InputError(f"A chance must be a fraction from 0 to 1 with a denominator of at most 2**62; got {chance}.")
    return bits.below(chance.denominator, count) < chance.numerator


def binomial(bits: SecureBits, trials: Integers, chance: Fraction) -> Integers:
    """Count the coins that fall True among so many trials each.

    Examples
    --------
    >>> binomial(SecureBits.seeded(7), np.array([0, 100, 100]), Fraction(1, 4))
    array([ 0, 27, 25])
    """
    return np.array([np.count_nonzero(coins(bits, int(number), chance)) for number in trials], dtype=np.int64)


def poisson(bits: SecureBits, count: int, mean: Fraction) -> Integers:
    """Sample Poisson counts of a rational mean.

    Examples
    --------
    >>> poisson(SecureBits.seeded(7), 5, Fraction(5, 2))
    array([1, 2, 1, 2, 2])
    """
    parts = int(2 * mean) // _MOST_PIECES + 1
    pieces = int(2 * mean / parts) + 1  # of mean below 1/2: four in five proposals are kept
    chance = mean / (parts * pieces)
    if mean < 0 or chance.denominator > LARGEST_BOUND:
        raise InputError(f"A mean must be a fraction of at least 0 with a moderate denominator; got {mean}.")
    parameters = (np.uint64(chance.numerator), np.uint64(chance.denominator), np.uint64(pieces))
    samples = bits.draw(_fill_poisson, count * parts, 2.5 * pieces, *parameters)
    return np.asarray(samples.reshape(count, parts).sum(axis=1), dtype=np.int64)


def negative_binomial(bits: SecureBits, count: int, shape: Fraction, rate: Fraction) -> Integers:
    """Sample negative binomial counts of a rational shape: Pr[k] proportional to C(k + shape - 1, k) e^(-rate k).

    Counts of shapes a and b add up to one of shape a + b, so that users who each sample shape r / n give r together.

    Parameters
    ----------
    bits
        Where the randomness comes from.
    count
        How many samples.
    shape
        A positive fraction with a denominator of at most 2**31.
    rate
        A fraction from 2**-24 on, with terms of at most 2**56.

    Examples
    --------
    >>> negative_binomial(SecureBits.seeded(7), 8, Fraction(1, 10), Fraction(1, 20))
    array([0, 0, 4, 3, 0, 0, 0, 1])
    >>> negative_binomial(SecureBits.seeded(7), 4, Fraction(5, 2), Fraction(1, 20))
    array([32, 70, 51,  5])
    """
    if shape <= 0 or shape.denominator > LARGEST_SHARES:
        raise InputError(f"A shape must be a positive fraction with a denominator of at most 2**31; got {shape}.")
    checked_rates(rate)
    if max(rate.numerator, rate.denominator) > LARGEST_RATE_TERM:
        raise InputError(f"A rate must be a fraction with terms of at most 2**56; got {rate}.")
    whole, part = divmod(shape, 1)
    parameters = [whole, part.numerator, part.denominator, rate.numerator, rate.denominator]
    words = 12.0 * float(shape + 1) + (float(1 / rate) if part else 0.0)
    return bits.draw(_fill_negative_binomial, count, words, *map(np.uint64, parameters))


def permutation(secure: SecureBits, count: int) -> Integers:
    """Return the numbers from 0 to count - 1 in a uniformly random order."""
    return np.asarray(_swapped(secure.draw(_fill_swaps, count, 1.1)))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _next_small_poisson(words: Words, at: int, numerator: np.uint64, denominator: np.uint64) -> tuple[np.uint64, int]:
    """Sample a Poisson count of mean numerator / denominator < 1."""
    while True:
        count = _ZERO
        while True:
            value, at = next_below(words, at, denominator)
            if at > words.size:
                return _ZERO, at
            if value >= numerator:
                break
            count += _ONE
        kept, factor = True, _TWO
        while kept and factor <= count:
            value, at = next_below(words, at, factor)
            kept = value == _ZERO
            factor += _ONE
        if kept or at > words.size:
            return count, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_poisson(
    words: Words, out: Integers, done: int, numerator: np.uint64, denominator: np.uint64, pieces: np.uint64
) -> tuple[int, int]:
    at = 0
    while done < out.size:
        total, end, piece = _ZERO, at, _ZERO
        while piece < pieces and end <= words.size:
            count, end = _next_small_poisson(words, end, numerator, denominator)
            total += count
            piece += _ONE
        if end > words.size:
            break
        out[done] = total
        done += 1
        at = end
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _urn_share(
    words: Words, at: int, units: np.uint64, numerator: np.uint64, denominator: np.uint64
) -> tuple[np.uint64, int]:
    """Count the units that go to a part of weight numerator / denominator when each joins its like (Polya's urn)."""
    mine, step = _ZERO, _ZERO
    while step < units:
        step += _ONE
        value, at = next_below(words, at, denominator * step)
        if at > words.size:
            return _ZERO, at
        if value < numerator + denominator * mine:
            mine += _ONE
    return mine, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_negative_binomial(
    words: Words,
    out: Integers,
    done: int,
    whole: np.uint64,
    numerator: np.uint64,
    denominator: np.uint64,
    rate_numerator: np.uint64,
    rate_denominator: np.uint64,
) -> tuple[int, int]:
    at = 0
    while done < out.size:
        total, end, unit = _ZERO, at, _ZERO
        while unit < whole and end <= words.size:
            count, _, end = next_geometric(words, end, rate_numerator, rate_denominator)
            total += count
            unit += _ONE
        if numerator > _ZERO and end <= words.size:
            count, _, end = next_geometric(words, end, rate_numerator, rate_denominator)
            if end <= words.size:
                count, end = _urn_share(words, end, count, numerator, denominator)
                total += count
        if end > words.size:
            break
        out[done] = total
        done += 1
        at = end
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_swaps(words: Words, out: Integers, done: int) -> tuple[int, int]:
    """Fill place k with a number uniform from 0 to k."""
    at = 0
    while done < out.size:
        value, end = next_below(words, at, np.uint64(done + 1))
        if end > words.size:
            break
        out[done] = value
        done += 1
        at = end
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _swapped(swaps: Integers) -> Integers:
    order = np.arange(swaps.size)
    for place in range(swaps.size - 1, 0, -1):
        other = swaps[place]
        order[place], order[other] = order[other], order[place]
    return order
