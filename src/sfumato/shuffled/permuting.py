"""Exactly uniform permutations from secure bits: Fisher and Yates's shuffle, each swap uniform below its bound."""

from __future__ import annotations

import numpy as np

from sfumato.compiled import njit
from sfumato.privacy.bits import Integers, SecureBits, Words, next_below


def permutation(secure: SecureBits, count: int) -> Integers:
    """Return the numbers from 0 to count - 1 in a uniformly random order.

    Examples
    --------
    >>> permutation(SecureBits.seeded(7), 6)
    array([5, 4, 2, 3, 1, 0])
    """
    return np.asarray(_swapped(secure.draw(_fill_swaps, count, 1.1)))


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
