"""Compiled exact samplers: coins of probability exp(-x) and what is built from them, integers only.

See `sfumato.privacy.noise` and `sfumato.privacy.body` for the laws and their sources.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.compiled import njit
from sfumato.privacy.bits import Integers, Words, next_below

_ZERO, _ONE, _TWO, _TEN = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(10)
_OCTAGON = np.uint64(82844)
LARGEST_RADIUS = 2**29

# The compiled samplers read words[at:] and return the position after the last word read, beyond words.size if the words
# ran out; then every coin falls False, the loops end, and the sample means nothing.


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _inverse_coin(words: Words, at: int, divisor: np.uint64) -> tuple[bool, int]:
    """Toss a coin of probability exp(-1 / divisor)."""
    step = _TWO if divisor == _ONE else _ONE  # a first coin of probability 1/1 needs no word
    while True:
        value, at = next_below(words, at, divisor * step)
        if at > words.size:
            return False, at
        if value > _ZERO:
            return step & _ONE == _ONE, at
        step += _ONE


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fraction_coin(words: Words, at: int, numerator: np.uint64, denominator: np.uint64) -> tuple[bool, int]:
    """Toss a coin of probability exp(-numerator / denominator), for 0 <= numerator <= denominator."""
    if numerator == _ZERO:
        return at <= words.size, at
    step = _ONE
    while True:
        value, at = next_below(words, at, denominator)
        success = value < numerator
        if success and step > _ONE:
            value, at = next_below(words, at, step)
            success = value == _ZERO
        if at > words.size:
            return False, at
        if not success:
            return step & _ONE == _ONE, at
        step += _ONE


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def next_geometric(words: Words, at: int, numerator: np.uint64, denominator: np.uint64) -> tuple[np.uint64, bool, int]:
    """Sample floor(E / numerator), E geometric at rate 1 / denominator; tell also whether it is zero."""
    # E = remainder + denominator * units: the remainder by rejection, the units by coins of probability 1/e.
    while True:
        remainder, at = next_below(words, at, denominator)
        accepted, at = _fraction_coin(words, at, remainder, denominator)
        if accepted or at > words.size:
            break
    value = remainder // numerator
    remainder = remainder % numerator
    zero = value == _ZERO
    while True:
        again, at = _inverse_coin(words, at, _ONE)
        if not again:
            return value, zero, at
        value += denominator // numerator
        remainder += denominator % numerator
        if remainder >= numerator:
            remainder -= numerator
            value += _ONE
        zero = zero and value == _ZERO


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _signed(words: Words, at: int, magnitude: np.uint64, zero: bool) -> tuple[np.int64, bool, int]:
    """Give a magnitude a sign; refuse minus zero, or zero would be twice as likely as it should."""
    sign, at = next_below(words, at, _TWO)
    if sign == _ZERO:
        return np.int64(magnitude), True, at
    return -np.int64(magnitude), not zero, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _gaussian_accepts(words: Words, at: int, magnitude: np.uint64, sigma: np.uint64) -> tuple[bool, int]:
    """Toss a coin of probability exp(-(magnitude - sigma)^2 / (2 sigma^2))."""
    distance = magnitude - sigma if magnitude > sigma else sigma - magnitude
    # (q sigma + r)^2 / (2 sigma^2) = q^2 / 2 + q r / sigma + r^2 / (2 sigma^2)
    quotient, remainder = distance // sigma, distance % sigma
    accepted, at = _fraction_coin(words, at, remainder * remainder, _TWO * sigma * sigma)
    tosses = _ZERO
    while accepted and tosses < quotient:
        accepted, at = _fraction_coin(words, at, remainder, sigma)
        tosses += _ONE
    tosses = _ZERO
    while accepted and tosses < quotient * quotient:
        accepted, at = _inverse_coin(words, at, _TWO)
        tosses += _ONE
    return accepted, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_geometric(
    words: Words, out: Integers, done: int, numerator: np.uint64, denominator: np.uint64
) -> tuple[int, int]:
    """Fill with geometric samples of rate numerator / denominator."""
    at = 0
    while done < out.size:
        value, _, end = next_geometric(words, at, numerator, denominator)
        if end > words.size:
            break
        out[done] = value
        done += 1
        at = end
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_laplace(
    words: Words, out: Integers, done: int, numerator: np.uint64, denominator: np.uint64
) -> tuple[int, int]:
    """Fill with discrete Laplace samples of rate numerator / denominator."""
    at = 0
    while done < out.size:
        magnitude, zero, end = next_geometric(words, at, numerator, denominator)
        value, accepted, end = _signed(words, end, magnitude, zero)
        if end > words.size:
            break
        at = end
        if accepted:
            out[done] = value
            done += 1
    return done, at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_gaussian(words: Words, out: Integers, done: int, sigma: np.uint64) -> tuple[int, int]:
    """Fill with discrete Gaussian samples."""
    at = 0
    while done < out.size:
        magnitude, zero, end = next_geometric(words, at, _ONE, sigma)
        value, accepted, end = _signed(words, end, magnitude, zero)
        if accepted:
            accepted, end = _gaussian_accepts(words, end, magnitude, sigma)
        if end > words.size:
            break
        at = end
        if accepted:
            out[done] = value
            done += 1
    return done, at


# K-norm noise; `privacy.body` proves the steps.


@njit(nogil=True, cache=True)
def _coin(words, at, numerator, denominator):  # type: ignore[no-untyped-def]
    value, at = next_below(words, at, denominator)
    return value < numerator, at


@njit(nogil=True, cache=True)
def _cube_radius(words, at, size, numerator, denominator):  # type: ignore[no-untyped-def]
    """One attempt at a radius with Pr[R] proportional to (2R + 1)^size e^(-rate R): (radius, accepted, position)."""
    radius = _ZERO
    for _ in range(size + _ONE):
        step, _zero, at = next_geometric(words, at, numerator, denominator)
        if at > words.size:
            return radius, False, at
        radius += step
    odd = _TWO * radius + _ONE
    for i in range(_ONE, size + _ONE):
        accepted, at = _coin(words, at, odd, _TWO * (radius + np.uint64(i)))
        if not accepted or at > words.size:
            return radius, False, at
    return radius, True, at


@njit(nogil=True, cache=True)
def fill_cubes(words, out, done, size, numerator, denominator):  # type: ignore[no-untyped-def]
    """Fill with blocks of cube noise."""
    at = 0
    while done < out.size:
        radius, accepted, end = _cube_radius(words, at, size, numerator, denominator)
        if accepted:
            for i in range(done, done + np.int64(size)):
                value, end = next_below(words, end, _TWO * radius + _ONE)
                out[i] = np.int64(value) - np.int64(radius)
        if end > words.size:
            break
        at = end
        if accepted:
            done += np.int64(size)
    return done, at


@njit(nogil=True, cache=True)
def _root(value):  # type: ignore[no-untyped-def]
    """Return floor(sqrt(value)) for value < 2^62, corrected to be exact."""
    root = np.int64(math.sqrt(value))
    while root * root > value:
        root -= 1
    while (root + 1) * (root + 1) <= value:
        root += 1
    return root


@njit(nogil=True, cache=True)
def _disc_pairs(words, at, radius, pairs):  # type: ignore[no-untyped-def]
    """Fill `pairs` uniformly from the octagons, as long as they stay in their discs: (all inside, position)."""
    diagonal = _root(2 * radius * radius)
    odd = np.uint64(2 * radius + 1)
    for i in range(0, pairs.size, 2):
        while True:
            a, at = next_below(words, at, odd)
            b, at = next_below(words, at, odd)
            if at > words.size:
                return False, at
            x, y = np.int64(a) - radius, np.int64(b) - radius
            if abs(x) + abs(y) <= diagonal:
                break
        if x * x + y * y > radius * radius:
            return False, at
        pairs[i], pairs[i + 1] = x, y
    return True, at


@njit(nogil=True, cache=True)
def _octagon_coins(words, at, radius, pairs):  # type: ignore[no-untyped-def]
    """Coins of probability |O_R| / (c (2R + 1)^2), c = 82844 / 100000, one for each pair."""
    corner = np.uint64(2 * radius - _root(2 * radius * radius))
    square = np.uint64(2 * radius + 1) * np.uint64(2 * radius + 1)
    rest = square - _TWO * corner * (corner + _ONE)
    # Long division, 100000 |O_R| = quotient * square + rest, because the product would not fit 64 bits.
    quotient = _ZERO
    for _ in range(5):
        rest *= _TEN
        quotient = quotient * _TEN + rest // square
        rest %= square
    for _ in range(pairs):
        part, at = next_below(words, at, _OCTAGON)
        accepted = part < quotient
        if part == quotient:
            accepted, at = _coin(words, at, rest, square)
        if not accepted or at > words.size:
            return False, at
    return True, at


@njit(nogil=True, cache=True)
def fill_discs(words, out, done, size, numerator, denominator):  # type: ignore[no-untyped-def]
    """Fill with blocks of disc noise."""
    at = 0
    block = np.int64(size)
    while done < out.size:
        radius, accepted, end = _cube_radius(words, at, size, numerator, denominator)
        accepted = accepted and _ZERO < radius < np.uint64(LARGEST_RADIUS)
        if accepted:
            accepted, end = _octagon_coins(words, end, np.int64(radius), block // 2)
        if accepted:
            accepted, end = _disc_pairs(words, end, np.int64(radius), out[done : done + block])
        if end > words.size:
            break
        at = end
        if accepted:
            done += block
    return done, at
