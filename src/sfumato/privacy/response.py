"""Randomised response, once, in exact integer arithmetic; the standard library only, because devices use it.

A `Response` has `outcomes` outputs in a circle, of which `width` in a row, from a start that the secret decides, have
the weight `same` each and all others `other` each, positive integers that stand in the protocol. An output is picked
by one exactly uniform integer below the total of the weights. One wide it is generalised (m-ary) randomised response
(P. Kairouz, K. Bonawitz, D. Ramage, 2016): rows of hash functions, labels. Wider it is an arc: phases.

Guarantee. The total ``width same + (outcomes - width) other`` does not depend on the start, so for any two secrets the
probabilities of any output differ by at most the factor ``same / other``. ``same <= other e^epsilon`` therefore is
epsilon-local differential privacy for every two secrets. `keeps_epsilon` decides that in decimal arithmetic with a
margin for its own rounding, in a context of its own: whatever precision, rounding or traps the caller has set are of
no effect.

Variance. With P = same / total and Q = other / total, one wide, ([output is b] - Q) / (P - Q) is an unbiased estimate
of [secret is b]. It takes two values 1 / (P - Q) apart, so for a secret that is b with probability p its variance is
``m (1 - m) / (P - Q)^2`` with ``m = Q + (P - Q) p``: `Response.variance`.

A `Window` is the same law on outputs that do not wrap around: the Piecewise Mechanism or the Square Wave on a lattice.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import (
    ROUND_FLOOR,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from fractions import Fraction
from typing import Protocol

from sfumato.errors import InputError

OTHER = 1 << 20
# Beyond it a report is almost surely true, and weights would leave 62 bits; more epsilon is not used.
LARGEST_EPSILON = Fraction(24)
DIGITS = 60
MOST_BITS, TOTAL_BITS = 40, 60  # of the unit of odds, and of the weights of all outcomes


def same_weight(epsilon: Fraction, other: int = OTHER) -> int:
    """Return the largest integer that is surely at most ``other e^epsilon``.

    Examples
    --------
    >>> same_weight(Fraction(1), 1000)
    2718
    """
    with localcontext(_context(other)):
        return int(other * _power_below(min(epsilon, LARGEST_EPSILON)))


def keeps_epsilon(same: int, other: int, epsilon: Fraction) -> bool:
    """Whether the odds ``same / other`` are at most e^epsilon.

    Examples
    --------
    >>> keeps_epsilon(2718, 1000, Fraction(1)), keeps_epsilon(2719, 1000, Fraction(1))
    (True, False)
    """
    if not 0 < other <= same:
        return False
    with localcontext(_context(other)):
        return same <= other * _power_below(epsilon)


def _power_below(epsilon: Fraction) -> Decimal:
    """e^epsilon, rounded down in the 40th digit or so; for use in `_context`."""
    exponent = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
    return exponent.exp() * (1 - Decimal(10) ** -40)


def _context(other: int) -> Context:
    """Arithmetic that rounds down, with digits enough for e^epsilon and for `other` times it."""
    return Context(
        prec=DIGITS + other.bit_length() // 3,
        rounding=ROUND_FLOOR,
        Emin=-999_999,
        Emax=999_999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


def check_weights(same: object, other: object, epsilon: Fraction) -> tuple[int, int]:
    """Return the weights of a protocol if they keep the promise."""
    if type(same) is not int or type(other) is not int or not keeps_epsilon(same, other, epsilon):
        raise InputError(
            "the protocol's probabilities do not keep the epsilon that it promises: do not report under it, and tell "
            "the organiser"
        )
    return same, other


def check_says(same: float, other: float) -> None:
    """Refuse to read reports that are as likely for one secret as for any other; promises are kept by them.

    Examples
    --------
    >>> check_says(2718, 1000)
    """
    if not same > other:
        raise InputError("answers of this protocol are the same for all points: they say nothing")


class Coins(Protocol):
    """Whatever draws exactly uniform integers."""

    def below(self, bound: int) -> int:
        """Return an integer, exactly uniform in [0, bound)."""
        ...


@dataclass(frozen=True)
class Response:
    """The law of one output, see the module's text.

    Attributes
    ----------
    same, other : int
        Weights of an output in the window, and of one outside it.
    outcomes, width : int
        Outputs, and how many of them are likelier.

    Examples
    --------
    >>> response = Response.of(Fraction(2), outcomes=3)
    >>> round(float(response.truth), 3), round(response.variance(0.5), 3)
    (0.787, 0.534)
    >>> [response.output(1, number) for number in (0, response.same, response.total - 1)]
    [1, 2, 0]
    """

    same: int
    other: int
    outcomes: int
    width: int = 1

    @classmethod
    def of(cls, epsilon: Fraction, outcomes: int, width: int = 1) -> Response:
        """Return the law that an epsilon allows; refuse one that says nothing."""
        same = same_weight(epsilon)
        if same <= OTHER:
            raise InputError(f"epsilon = {epsilon} is too small for a report to say anything")
        return cls(same, OTHER, outcomes, width)

    @property
    def total(self) -> int:
        """Sum of all weights."""
        return self.width * self.same + (self.outcomes - self.width) * self.other

    @property
    def truth(self) -> Fraction:
        """P: exact probability of one output in the window; Q is that of one outside it."""
        return Fraction(self.same, self.total)

    @property
    def gap(self) -> float:
        """P - Q."""
        return (self.same - self.other) / self.total

    def variance(self, share: float) -> float:
        """Variance of the unbiased estimate of a thing that a `share` of all secrets is; one wide."""
        match = self.other / self.total + self.gap * share
        return match * (1 - match) / self.gap**2

    def output(self, start: int, number: int) -> int:
        """Return the output that a number below `total` picks, for a window that begins at `start`."""
        inner = self.width * self.same
        step = number // self.same if number < inner else self.width + (number - inner) // self.other
        return (start + step) % self.outcomes

    def draw(self, start: int, coins: Coins) -> int:
        """Draw an output for a window that begins at `start`."""
        return self.output(start, coins.below(self.total))


@dataclass(frozen=True)
class Odds:
    """Odds heads : unit that are at most e^epsilon : 1.

    Examples
    --------
    >>> odds = Odds.of(Fraction(1), outcomes=4)
    >>> round(odds.heads / odds.unit, 9)
    2.718281828
    """

    heads: int
    unit: int

    @classmethod
    def of(cls, epsilon: Fraction, outcomes: int) -> Odds:
        """Round e^epsilon down, as finely as the weights of so many outcomes fit 60 bits.

        A very large epsilon is cut, which promises more than was asked for (`LARGEST_EPSILON`).
        """
        bits = min(MOST_BITS, TOTAL_BITS - (same_weight(epsilon, 1) * outcomes).bit_length())
        if bits < 0:
            raise InputError(f"{outcomes} outcomes are too many for exact odds at epsilon {float(epsilon):g}")
        return cls(same_weight(epsilon, 1 << bits), 1 << bits)

    @property
    def ratio(self) -> Fraction:
        """The odds as a fraction."""
        return Fraction(self.heads, self.unit)


@dataclass(frozen=True)
class Window:
    """The law of one output, see the module's text.

    Attributes
    ----------
    positions, width : int
        Number of outputs, and how many of them are likelier.
    odds : Odds
        By how much.

    Examples
    --------
    >>> law = Window(4, 1, Odds(3, 1))
    >>> [str(law.probability(2, output)) for output in range(4)]
    ['1/6', '1/6', '1/2', '1/6']
    """

    positions: int
    width: int
    odds: Odds

    def __post_init__(self) -> None:
        if not 1 <= self.width < self.positions or self.total.bit_length() > 62:
            raise InputError(f"a window of {self.width} among {self.positions} positions has no exact law")

    @classmethod
    def of(cls, epsilon: Fraction, positions: int, width: int = 1) -> Window:
        """Return the law for an epsilon."""
        return cls(positions, width, Odds.of(epsilon, positions))

    @property
    def total(self) -> int:
        """Sum of the weights."""
        return self.width * self.odds.heads + (self.positions - self.width) * self.odds.unit

    @property
    def inside(self) -> int:
        """Weight of the whole window."""
        return self.width * self.odds.heads

    @property
    def truth(self) -> float:
        """Probability of one output inside the window."""
        return self.odds.heads / self.total

    @property
    def other(self) -> float:
        """Probability of one output outside it."""
        return self.odds.unit / self.total

    def probability(self, start: int, output: int) -> Fraction:
        """Exact probability of an output."""
        weight = self.odds.heads if start <= output < start + self.width else self.odds.unit
        return Fraction(weight, self.total)

    def draw(self, start: int, coins: Coins) -> int:
        """Draw an output for a window that begins at `start`."""
        number = coins.below(self.total)
        if number < self.inside:
            return start + number // self.odds.heads
        output = (number - self.inside) // self.odds.unit
        return output if output < start else output + self.width
