"""Odds and windows: finite laws whose probabilities are exact fractions of integers, and never reveal too much.

`Odds` rounds e^epsilon down to a fraction heads / unit. A `Window` law has `positions` outputs, of which `width` in a
row, from a start that the secret decides, have weight `heads` and all others `unit`. The total weight does not depend
on the start, so for any two secrets the probability of any output differs by at most the factor heads / unit <=
e^epsilon: exactly epsilon-LDP. One position wide it is generalised randomised response (GRR) among `positions`
buckets; wider, it is the Piecewise Mechanism or the Square Wave on a lattice.

The standard library only: devices use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.weights import same_weight

MOST_BITS = 40
TOTAL_BITS = 60


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

        A very large epsilon is cut, which promises more than was asked for (`weights.LARGEST_EPSILON`).
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
    >>> law.draw(2, Coins.seeded(7))
    0
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
