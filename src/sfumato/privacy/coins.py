"""Compiled exact samplers: coins of probability exp(-x) and what is built from them, integers only.

See `sfumato.privacy.noise` for the laws and their source.
"""

from __future__ import annotations

import numpy as np

from sfumato.compiled import njit
from sfumato.privacy.bits import Integers, Words, next_below

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)

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
