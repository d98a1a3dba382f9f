"""`rr`: every user flips the bit with a small probability p and sends it, one message of one bit per instance.

Source: S. Warner, 1965; under shuffling A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, EUROCRYPT 2019.
Guarantee: calibrated on the exact law of the view, the number of ones, for every number of ones among the others.
Proof of the reduction to few numbers: giving away the messages of m others only helps whoever attacks, and the m can be
chosen so that exactly k ones stay among the others; so the pair of laws with n - m participants and k ones among the
others bounds those with n participants and k, k + 1, ..., k + m. Exchanging ones and zeros turns k into n - 1 - k.
Variance of the sum: n p (1 - p) / (1 - 2 p)^2, whatever the bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.compiled import njit
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.public.codec import Schema
from sfumato.shuffled.bitsum.bit_sum import FLIP, ComposableBitSum, Counts, Floats
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Pair, curve_of
from sfumato.shuffled.bitsum.shares import binomial, coins

BLOCKS = 1000  # of numbers of ones among the others; each costs 1/BLOCKS of the participants
_WIDE_WINDOW = 16.0  # standard deviations of a binomial factor; Bernstein's bound needs 12 at most
_SMALLEST = 1e-290


@dataclass(frozen=True)
class RandomisedResponse(ComposableBitSum):
    """Bits flipped with probability `flip`.

    Parameters
    ----------
    n : int
        Honest participants, at least.
    flip : Fraction
        Above 0 and below 1/2.

    Examples
    --------
    >>> protocol = RandomisedResponse(1000, Fraction(1, 4))
    >>> counts = protocol.totals(np.array([0, 500, 1000]), SecureBits.seeded(7))
    >>> counts.ones
    array([237, 480, 756])
    >>> protocol.estimate(counts)
    array([ -26.,  460., 1012.])
    >>> round(protocol.rmse, 2)
    27.39
    """

    n: int
    flip: Fraction
    name: ClassVar[str] = "rr"
    schema: ClassVar[Schema] = Schema(flip=FLIP)
    most_messages: ClassVar[int | None] = 1

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Flip some bits and send all."""
        sent = bits ^ coins(secure, bits.size, self.flip)
        return Counts(sent, 1 - sent)

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Flip coins for `n` users."""
        lost, won = binomial(secure, sums, self.flip), binomial(secure, self.n - sums, self.flip)
        ones = sums - lost + won
        return Counts(ones, self.n - ones)

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return ((1 - p) ones - p zeros) / (1 - 2 p); the counts tell how many took part."""
        flip = float(self.flip)
        return ((1 - flip) * counts.ones - flip * counts.zeros) / (1 - 2 * flip)

    @property
    def variance(self) -> float:
        """The variance n p (1 - p) / (1 - 2 p)^2."""
        flip = float(self.flip)
        return self.n * flip * (1 - flip) / (1 - 2 * flip) ** 2

    def messages(self, mean_bit: float) -> float:
        """One."""
        return 1.0

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of one message."""
        return tilt

    def typical_curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve if the others hold no ones, which is close to the worst case."""
        return self._curve_for(range(1), accuracy)

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return a curve above all numbers of ones among the others, by blocks of numbers."""
        return self._curve_for(range(0, (self.n - 1) // 2 + 1, self.n // BLOCKS + 1), accuracy)

    def _curve_for(self, numbers: Iterable[int], accuracy: Accuracy) -> Curve:
        participants, flip = self.n - self.n // BLOCKS, float(self.flip)
        first = response_pair(participants, 0, flip, accuracy.tail)
        largest = min(1.5 * first.largest_loss, math.log((1 - flip) / flip))
        pairs = (response_pair(participants, ones, flip, accuracy.tail) for ones in numbers)
        return curve_of(pairs, first.deviation / accuracy.steps, largest)


def response_pair(n: int, ones: int, flip: float, tail: float) -> Pair:
    """Return the laws of the number of ones among `n` messages, the last user's bit being 1 or 0."""
    keep, others = 1 - flip, n - 1
    # Bernstein's inequality for independent bits of total variance (n - 1) p (1 - p).
    needed = math.log(2 / tail)
    reach = needed / 3 + math.sqrt(needed**2 / 9 + 2 * others * flip * keep * needed)
    mean = ones * keep + (others - ones) * flip
    low, high = max(math.floor(mean - reach), 0), min(math.ceil(mean + reach), others)
    law = _ones_among_others(others, ones, flip, low, high)  # from low - 1 to high + 1
    first, second = flip * law[1:] + keep * law[:-1], keep * law[1:] + flip * law[:-1]
    known = np.minimum(first, second) > _SMALLEST  # the logarithm of less has no digits left
    unknown = float(first[~known].sum() + second[~known].sum())
    first, second = first[known], second[known]
    return Pair(first, second, np.log(first / second), tail + unknown)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _binomial_window(trials: int, chance: float, low: int, high: int) -> Floats:
    """Probabilities of a binomial count in a window outside of which they are negligible, by ratios from the mode."""
    law = np.empty(high - low + 1)
    mode = min(max(int((trials + 1) * chance), low), high)
    odds = chance / (1 - chance)
    law[mode - low] = 1.0
    for value in range(mode, high):
        law[value + 1 - low] = law[value - low] * odds * (trials - value) / (value + 1)
    for value in range(mode, low, -1):
        law[value - 1 - low] = law[value - low] * value / (odds * (trials - value + 1))
    law /= law.sum()
    return law


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _wide_window(trials: int, chance: float) -> tuple[int, int]:
    reach = _WIDE_WINDOW * math.sqrt(trials * chance * (1 - chance)) + 100.0
    return max(int(trials * chance - reach), 0), min(int(trials * chance + reach) + 1, trials)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _ones_among_others(others: int, ones: int, flip: float, low: int, high: int) -> Floats:
    """Law of Bin(ones, 1 - p) + Bin(others - ones, p) from low - 1 to high + 1, accurate in the tails.

    Its generating function (p + q z)^k (q + p z)^(N - k) satisfies a linear differential equation, hence
    p q (s + 1) W(s+1) = (k q^2 + (N - k) p^2 - (p^2 + q^2) s) W(s) + p q (N - s + 1) W(s-1).
    Up to where the middle coefficient changes its sign this adds positive terms; beyond, its reverse does. Two values
    at either end start it.
    """
    keep = 1 - flip
    first_low, first_high = _wide_window(ones, keep)
    second_low, second_high = _wide_window(others - ones, flip)
    first = _binomial_window(ones, keep, first_low, first_high)
    second = _binomial_window(others - ones, flip, second_low, second_high)
    law = np.zeros(high - low + 3)
    for value in (low - 1, low, high, high + 1):
        total = 0.0
        for part in range(max(first_low, value - second_high), min(first_high, value - second_low) + 1):
            total += first[part - first_low] * second[value - part - second_low]
        law[value - low + 1] = total
    product, squares = flip * keep, flip * flip + keep * keep
    linear = ones * keep * keep + (others - ones) * flip * flip
    turn = min(max(int(linear / squares), low), high)
    for value in range(low, turn):
        ahead = (linear - squares * value) * law[value - low + 1] + product * (others - value + 1) * law[value - low]
        law[value - low + 2] = ahead / (product * (value + 1))
    for value in range(high, turn + 1, -1):
        behind = (squares * value - linear) * law[value - low + 1] + product * (value + 1) * law[value - low + 2]
        law[value - low] = behind / (product * (others - value + 1))
    return law
