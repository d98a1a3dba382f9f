"""`rr` with a message budget: a user takes part in an instance with probability g, and then sends the flipped bit.

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
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.fft import irfft, next_fast_len
from scipy.stats import binom

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.public.codec import Schema
from sfumato.shuffled.bitsum.bit_sum import CHANCE, FLIP, ComposableBitSum, Counts, Floats
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, Mixture, Pair, curve_of
from sfumato.shuffled.bitsum.shares import binomial, coins
from sfumato.shuffled.bitsum.unsigned import law_from_ratios

BLOCKS = 400  # the smallest block of numbers of ones costs 1/BLOCKS of the participants
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
        view, flip = self._view(self.n - self.n // BLOCKS, 0, accuracy.tail), float(self.flip)
        largest = min(1.5 * view.largest_loss, math.log((1 - flip) / flip))
        return curve_of([view], view.deviation / accuracy.steps, largest)

    def curve(self, accuracy: Accuracy) -> Curve:
        """Return a curve above all numbers of ones among the others, by blocks as large as the curve so far allows."""
        smallest, last = self.n // BLOCKS, (self.n - 1) // 2
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
