"""What a bit-sum protocol is: users hold one bit each, send anonymous messages, and an analyzer estimates the sum.

A message says "one" or "zero" and nothing else, so that after shuffling an instance is no more than two counts. All
protocols share this shape; what "zero" means is theirs: a flipped bit in randomised response, minus one where messages
cancel, unused where only ones are sent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.public.codec import Field, Ratio, Schema, brief, refuse
from sfumato.public.ranges import plain_number
from sfumato.shuffled.bitsum.curves import Accuracy, Curve

Floats = NDArray[np.float64]

LARGEST_PARTICIPANTS = 10**9
CHANCE_DENOMINATOR = 2**40  # chances are multiples of 2**-40: exact coins, and exact as floats
_LARGEST_TERM = 2**120  # of a parameter; as floats they are neither zero nor infinite


@dataclass(frozen=True)
class Between(Field[Fraction]):
    """A positive fraction as text, from one number on and below another."""

    least: Fraction
    limit: Fraction

    def read(self, value: Any, path: str) -> Fraction:
        """Return the fraction."""
        ratio = Ratio(_LARGEST_TERM, positive=True).read(value, path)
        if not self.least <= ratio < self.limit:
            raise refuse(path, f"a positive fraction from {self.least} on and below {self.limit}", value)
        return ratio

    def write(self, value: Fraction) -> str:
        """Return the text in lowest terms."""
        return str(value)


@dataclass(frozen=True)
class Digits(Field[int]):
    """A positive whole number as text."""

    most: int

    def read(self, value: Any, path: str) -> int:
        """Return the number."""
        if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 20:
            raise refuse(path, "a whole number's text", value)
        if value.startswith("0") or int(value) > self.most:
            raise refuse(path, f"a whole number's text from 1 to {self.most}", value)
        return int(value)

    def write(self, value: int) -> str:
        """Return its digits."""
        return str(value)


CHANCE = Between(Fraction(0), Fraction(1))
FLIP = Between(Fraction(0), Fraction(1, 2))


class Counts(NamedTuple):
    """How many messages say one and how many say zero."""

    ones: Integers
    zeros: Integers


class BitSum(ABC):
    """One instance of a bit-sum protocol for `n` honest participants; a frozen value.

    The guarantee needs at least `n` participants who follow the protocol, with coins of their own for every instance,
    every message shuffled on its own. More participants only add noise: give their number to `estimate`.
    """

    name: ClassVar[str]
    schema: ClassVar[Schema]  # of the parameters, all besides `n`
    message_bits: ClassVar[int] = 1  # of content; messages that all say the same have none
    most_messages: ClassVar[int | None] = None  # of a user in one instance; None if there is no such number
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checked_participants(self.n))
        self.schema.read(self.schema.write(self))

    def randomise(self, bits: Integers, secure: SecureBits) -> Counts:
        """Return what users send, one entry a user and instance, for their bits 0 or 1."""
        values = checked_bits(bits)
        sent = self._send(values.ravel(), secure)
        return Counts(sent.ones.reshape(values.shape), sent.zeros.reshape(values.shape))

    @abstractmethod
    def _send(self, bits: Integers, secure: SecureBits) -> Counts:
        """Randomise a flat array of bits."""

    @abstractmethod
    def totals(self, sums: Integers, secure: SecureBits) -> Counts:
        """Sample what `n` users whose bits have these sums send together, one entry an instance: the same law."""

    @abstractmethod
    def estimate(self, counts: Counts, participants: float | None = None) -> Floats:
        """Return the unbiased estimate of the sum of the bits from the counts of all messages.

        `participants` is how many took part, `n` if not given.
        """

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the estimate, for the sum of the bits at which it is largest."""

    @property
    def rmse(self) -> float:
        """Root mean square error of the estimate, at most."""
        return math.sqrt(self.variance)

    @abstractmethod
    def messages(self, mean_bit: float) -> float:
        """Return the expected number of messages of a user in one instance, if the bit is 1 with this probability."""

    @abstractmethod
    def message_exponent(self, tilt: float, bit: int) -> float:
        """Return ln E[exp(tilt * messages)] of a user with this bit in one instance; the tilt is below the largest."""

    @property
    def largest_tilt(self) -> float:
        """Where `message_exponent` becomes infinite."""
        return math.inf

    @property
    def parameters(self) -> dict[str, Fraction | int]:
        """What defines the protocol besides `n`, by the names of its fields."""
        return {name: getattr(self, name) for name in self.schema.fields}


class ComposableBitSum(BitSum):
    """A protocol whose view has a privacy curve that is composed numerically."""

    @abstractmethod
    def curve(self, accuracy: Accuracy) -> Curve:
        """Return a curve above every pair of neighbouring inputs, whatever the bits of the others."""

    def typical_curve(self, accuracy: Accuracy) -> Curve:
        """Return the curve of a case that is close to the worst, where that is much quicker."""
        return self.curve(accuracy)


def checked_participants(n: int) -> int:
    """Return the number of participants if it is one."""
    n = plain_number(n)
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= LARGEST_PARTICIPANTS:
        raise InputError(f"n, the number of honest participants, must be an int from 1 to 10**9; got {brief(n)}.")
    return n


def checked_bits(bits: Integers) -> Integers:
    """Return bits as integers if they are bits: any other number would not be hidden."""
    values = np.asarray(bits)
    if values.dtype.kind not in "biu" or not np.isin(values, (0, 1)).all():
        raise InputError("bits must be the integers 0 and 1")
    return values.astype(np.int64)


def chance_above(value: float) -> Fraction:
    """Return the least chance of an exact coin that is not below a number."""
    return Fraction(-int(-value * CHANCE_DENOMINATOR // 1), CHANCE_DENOMINATOR)


def rate_below(value: float | Fraction) -> Fraction:
    """Return the largest rate of exact geometric counts that is not above a number: noise is rounded up."""
    return Fraction(int(value * CHANCE_DENOMINATOR // 1), CHANCE_DENOMINATOR)
