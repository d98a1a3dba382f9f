"""`rr`: every user flips the bit with a small probability p and sends it, one message of one bit per instance.

Source: S. Warner, 1965; under shuffling A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, EUROCRYPT 2019.
Guarantee: calibrated on the exact law of the view, the number of ones, for every number of ones among the others.
Proof of the reduction to few numbers: giving away the messages of m others only helps whoever attacks, and the m can be
chosen so that exactly k ones stay among the others; so the pair of laws with n - m participants and k ones among the
others bounds those with n participants and k, k + 1, ..., k + m. Exchanging ones and zeros turns k into n - 1 - k.
Variance of the sum: n p (1 - p) / (1 - 2 p)^2, whatever the bits.

With a message budget (`SampledResponse`) a user takes part in an instance with probability g, and then sends the
flipped bit.

Source: coordinate subsampling of randomised response (`sfumato.shuffled.bitsum.rr`).
Guarantee: calibrated on the exact view, the numbers of ones and of zeros, for every number of ones among the others.
Their sum T is binomial whatever the bits. Given T = t the view is the number of ones among the flipped bits of t users
drawn without replacement, and dropping t' - t messages at random turns the view for t' > t into the one for t; so a
group of values of T is bounded by its largest. The law given T mixes sums of two binomial counts over a hypergeometric
one; it is computed by a Fourier transform of its characteristic function, whose error is added to the curve. Blocks of
numbers of ones among the others are bounded as in `rr`: giving away m messages leaves n - m participants.
Variance of the sum: n (1 - g c) / (4 g c) with c = (1 - 2 p)^2, whatever the bits, for the estimate
n/2 + (ones - zeros) / (2 g (1 - 2 p)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.fft import irfft, next_fast_len
from scipy.stats import binom

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.public.codec import Schema
from sfumato.shuffled.bitsum.bit_sum import CHANCE, FLIP, ComposableBitSum, Counts, Floats
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Mixture, Pair, curve_of
from sfumato.shuffled.bitsum.shares import binomial, coins
from sfumato.shuffled.bitsum.unsigned import law_from_ratios

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


SAMPLED_BLOCKS = 400  # the smallest block of numbers of ones costs 1/SAMPLED_BLOCKS of the participants
LIFT = 1e-3  # by which a larger block may raise the curve
MOST_SAMPLED = 10**6  # messages of an instance
GROUPS = 32  # of numbers of messages
FOURIER_ERROR = 1e-12  # of a law, summed over its values; the tests measure less than 1e-14
_NOISE = 1e-16  # probabilities below are not trusted
_SMALLEST_LOG_SIZE = -46.0


@dataclass(frozen=True)
class SampledResponse(ComposableBitSum):
    """Bits sent with probability `send`, flipped with probability `flip`.

    Parameters
    ----------
    n : int
        Honest participants, at least.
    flip : Fraction
        Above 0 and below 1/2.
    send : Fraction
        Above 0 and below 1.

    Examples
    --------
    >>> protocol = SampledResponse(1000, Fraction(1, 4), Fraction(1, 2))
    >>> counts = protocol.totals(np.array([0, 1000]), SecureBits.seeded(7))
    >>> protocol.estimate(counts)
    array([ -44., 1024.])
    >>> round(protocol.rmse, 2), protocol.messages(0.5)
    (41.83, 0.5)
    """

    n: int
    flip: Fraction
    send: Fraction
    name: ClassVar[str] = "rr"
    schema: ClassVar[Schema] = Schema(flip=FLIP, send=CHANCE)
    most_messages: ClassVar[int | None] = 1

    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Send some of the bits, flipping a few."""
        sent = coins(secure, bits.size, self.send).astype(np.int64)
        flipped = bits ^ coins(secure, bits.size, self.flip)
        return Counts(sent * flipped, sent * (1 - flipped))

    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Toss the coins of `n` users."""
        from_ones, from_zeros = binomial(secure, sums, self.send), binomial(secure, self.n - sums, self.send)
        ones = from_ones - binomial(secure, from_ones, self.flip) + binomial(secure, from_zeros, self.flip)
        return Counts(ones, from_ones + from_zeros - ones)

    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return n/2 + (ones - zeros) / (2 g (1 - 2 p))."""
        scale = 2 * float(self.send) * (1 - 2 * float(self.flip))
        return np.asarray((participants or self.n) / 2 + (counts.ones - counts.zeros) / scale, dtype=np.float64)

    @property
    def variance(self) -> float:
        """The variance, that of the sampling included."""
        signal = float(self.send) * (1 - 2 * float(self.flip)) ** 2
        return self.n * (1 - signal) / (4 * signal)

    def messages(self, mean_bit: float) -> float:
        """Return the probability of sending."""
        return float(self.send)

    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return that of one message or none."""
        return math.log1p(float(self.send) * math.expm1(tilt))

    def typical_curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve if the others hold almost no ones, which is close to the worst case."""
        view, flip = self._view(self.n - self.n // SAMPLED_BLOCKS, 0, accuracy.tail), float(self.flip)
        largest = min(1.5 * view.largest_loss, math.log((1 - flip) / flip))
        return curve_of([view], view.deviation / accuracy.steps, largest)

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return a curve above all numbers of ones among the others, by blocks as large as the curve so far allows."""
        smallest, last = self.n // SAMPLED_BLOCKS, (self.n - 1) // 2
        curve = self.typical_curve(accuracy)
        heights, at = curve.heights, curve.losses
        ones, width = smallest + 1, smallest
        while ones <= last:
            width = min(2 * width + 1, last - ones)
            block = self._view(self.n - width, ones, accuracy.tail).orders(at).max(axis=0)
            while width > smallest and np.any(block > (1 + LIFT) * heights + FOURIER_ERROR):
                width = max(width // 2, smallest)
                block = self._view(self.n - width, ones, accuracy.tail).orders(at).max(axis=0)
            heights = np.maximum(heights, block)
            ones += width + 1
        return Curve(curve.step, heights)

    def _view(self, participants: int, ones: int, tail: float) -> Mixture:
        """Return the view if `ones` of the others hold a one, by groups of numbers of messages."""
        send, flip = float(self.send), float(self.flip)
        mean = participants * send
        if mean > MOST_SAMPLED:
            raise InputError(
                f"a message budget is certified for up to {MOST_SAMPLED} messages an instance; {participants} "
                f"participants would send {mean:.2g}. Lower the budget, or leave out messages."
            )
        low, high = _window(mean, mean * (1 - send), tail / 2, 0, participants)
        tops = np.unique(np.linspace(low, high, GROUPS + 1).astype(np.int64))
        weights = np.diff(binom.cdf(tops, participants, send), prepend=0.0)
        pairs = [_pair_given(int(top), participants, ones, flip, tail / 2) for top in tops]
        return Mixture(weights, pairs, tail / 2)


def _window(mean: float, variance: float, tail: float, least: int, most: int) -> tuple[int, int]:
    """Interval that a sum of bits of this mean and variance leaves with probability `tail`, by Bernstein's inequality.

    It holds for drawing without replacement as well (Hoeffding 1963).
    """
    needed = math.log(2 / tail)
    reach = needed / 3 + math.sqrt(needed**2 / 9 + 2 * variance * needed)
    return max(math.floor(mean - reach), least), min(math.ceil(mean + reach), most)


def _pair_given(messages: int, participants: int, ones: int, flip: float, tail: float) -> Pair:
    """Laws of the number of ones among so many messages, the user's bit being 1 or 0."""
    if messages == 0:
        return Pair(np.ones(1), np.ones(1), np.zeros(1), 0.0)
    # The two means differ by less than 1, and so do the variances, at most those of drawing with replacement.
    mean = messages * (flip + (1 - 2 * flip) * ones / participants)
    low, high = _window(mean, mean * (1 - mean / messages) + 1, tail / 4, 0, messages)
    high = min(high + 1, messages)
    first = _ones_given(messages, participants, ones + 1, flip, low, high, tail / 4)
    second = _ones_given(messages, participants, ones, flip, low, high, tail / 4)
    known = np.minimum(first, second) > _NOISE
    unknown = float(first[~known].sum() + second[~known].sum())
    first, second = first[known], second[known]
    losses = np.log(first / second)
    order = np.argsort(losses, kind="stable")  # the transform's noise may upset it
    return Pair(first[order], second[order], losses[order], tail + unknown + 4 * FOURIER_ERROR)


def _ones_given(messages: int, participants: int, ones: int, flip: float, low: int, high: int, tail: float) -> Floats:
    """Law of the ones among flipped bits drawn from the participants, of whom `ones` hold a 1; from `low` to `high`."""
    least, most = max(0, messages - (participants - ones)), min(ones, messages)
    share = ones / participants
    start, end = _window(messages * share, messages * share * (1 - share), tail, least, most)
    held = np.arange(start, end + 1)  # how many of the senders hold a 1
    odds = (ones - held) * (messages - held) / ((held + 1) * (participants - ones - messages + held + 1.0))
    weights = law_from_ratios(np.log(odds[:-1]))
    length = next_fast_len(high - low + 1, real=True)
    turns = 2 * np.pi / length * np.arange(length // 2 + 1)
    log_sizes = np.log1p(-4 * flip * (1 - flip) * np.sin(turns / 2) ** 2) / 2  # the same for either bit
    turns = turns[messages * log_sizes > _SMALLEST_LOG_SIZE]
    # Phases relative to the mean of a message, which stay small: of a user who holds 1, and the opposite for 0.
    imaginary = flip * np.sin(turns * (1 - flip)) - (1 - flip) * np.sin(turns * flip)
    real = -2 * flip * np.sin(turns * (1 - flip) / 2) ** 2 - 2 * (1 - flip) * np.sin(turns * flip / 2) ** 2
    phases = np.multiply.outer(np.arctan2(imaginary, 1 + real), 2 * held - messages)
    phases -= np.multiply.outer(turns, messages * flip + held * (1 - 2 * flip) - low)
    spectrum = np.zeros(length // 2 + 1, dtype=np.complex128)
    # Not a matrix product: threads of a linear algebra library would cost more than they save.
    spectrum[: turns.size] = np.exp(messages * log_sizes[: turns.size]) * (np.exp(1j * phases) * weights).sum(axis=1)
    return np.asarray(irfft(spectrum, length)[: high - low + 1])
