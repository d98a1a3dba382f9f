"""Privacy curves of one instance: h(t) = sup over events E of P(E) - e^t Q(E), from the two laws of its view.

What an analyzer sees of one instance has law P or Q, depending on one user's bit. Moving one user from x to x' turns
the bits of some instances up and of others down, and the bits of the other users differ from instance to instance; so
what counts is one curve above every case in either order. Curves are evaluated from above: rounding errors, and what
was left out of the laws, are added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RELATIVE_MARGIN = 1e-9  # of every height; sums of some thousand positive floats err by less than 1e-12
MOST_POINTS = 20_000  # of a curve


@dataclass(frozen=True)
class Accuracy:
    """How closely a curve follows the laws; it lies above them in any case.

    Parameters
    ----------
    tail : float
        Probability that may be left out of the laws; it is added to the curve.
    steps : int
        Steps per standard deviation of the loss. A step of s deviations costs about s^2 / 12 of the error if there are
        many instances, and more if there are few.
    """

    tail: float
    steps: int


class View(Protocol):
    """What an analyzer sees, under either bit of one user."""

    def orders(self, at: Floats) -> Floats:
        """Return upper bounds of the curve at losses from 0 on: a row for either order of the bits."""
        ...


@dataclass(frozen=True, eq=False)
class Pair:
    """The two laws of a view, by atoms in the order of their losses.

    Parameters
    ----------
    first, second : array
        Probabilities P and Q of the atoms.
    losses : array
        ln(P / Q), ascending.
    lost : float
        Upper bound of what the curve may miss: the probability, under either law, of what is not among the atoms, and
        absolute errors of the probabilities.
    only_first, only_second : float
        Probabilities of atoms that the other law does not have; they are not among the arrays.
    """

    first: Floats
    second: Floats
    losses: Floats
    lost: float
    only_first: float = 0.0
    only_second: float = 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the loss under the first law."""
        mean = float((self.first * self.losses).sum())
        return math.sqrt(float((self.first * (self.losses - mean) ** 2).sum()))

    @property
    def largest_loss(self) -> float:
        """Largest absolute loss among the atoms."""
        return float(max(-self.losses[0], self.losses[-1]))

    def orders(self, at: Floats) -> Floats:
        """Return upper bounds of the curve at losses from 0 on: a row for either order of the bits."""
        after = np.searchsorted(self.losses, at, side="right")
        before = np.searchsorted(self.losses, -at, side="left")
        forward = _excess(_tails(self.first)[after], _tails(self.second)[after], at) + self.only_first
        backward = _excess(_heads(self.second)[before], _heads(self.first)[before], at) + self.only_second
        return np.stack([forward, backward]) + self.lost


def _heads(masses: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(masses)])


def _tails(masses: Floats) -> Floats:
    return _heads(masses[::-1])[::-1]


def _excess(first: Floats, second: Floats, at: Floats) -> Floats:
    """P(E) - e^t Q(E), rounded up."""
    return np.maximum(first - np.exp(at) * second, 0.0) * (1 + RELATIVE_MARGIN)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A view of which one part is seen: it says which pair the rest follows, and does not depend on the bit.

    Parameters
    ----------
    weights : array
        Probabilities of the pairs.
    pairs : sequence of Pair
        The laws of the rest.
    lost : float
        Upper bound of the probability of what has no pair here.
    """

    weights: Floats
    pairs: Sequence[Pair]
    lost: float

    @property
    def deviation(self) -> float:
        """Root mean square of the pairs' deviations."""
        squares = np.array([pair.deviation**2 for pair in self.pairs])
        return math.sqrt(float(self.weights @ squares))

    @property
    def largest_loss(self) -> float:
        """Largest absolute loss among the pairs."""
        return max(pair.largest_loss for pair in self.pairs)

    def orders(self, at: Floats) -> Floats:
        """Return the mean of the pairs' bounds, a row for either order of the bits."""
        parts = (weight * pair.orders(at) for weight, pair in zip(self.weights, self.pairs, strict=True))
        return sum(parts, np.full((2, at.size), self.lost))


@dataclass(frozen=True, eq=False)
class Curve:
    """An upper bound of the privacy curve of one instance in either order.

    Parameters
    ----------
    step : float
        Distance between neighbouring losses.
    heights : array
        Bounds of the curve at the losses 0, step, 2 step, ...; the last one holds for all larger losses too.
    """

    step: float
    heights: Floats

    @property
    def losses(self) -> Floats:
        """The losses at which the curve is known."""
        return self.step * np.arange(self.heights.size, dtype=np.float64)

    def at(self, loss: float) -> float:
        """Return the curve between the losses at which it is known: a straight line in e^loss."""
        return float(np.interp(math.exp(loss), np.exp(self.losses), self.heights))


def curve_of(views: Iterable[View], step: float, largest_loss: float) -> Curve:
    """Return a curve above all views in both orders.

    Parameters
    ----------
    views : iterable of View
        Every case that may occur.
    step : float
        Distance between the losses at which the curve is evaluated, or more if that were too many.
    largest_loss : float
        Where the curve may end.

    Examples
    --------
    >>> keep = np.array([0.25, 0.75])
    >>> response = Pair(keep, keep[::-1], np.log(keep / keep[::-1]), 0.0)
    >>> round(float(curve_of([response], 0.02, math.log(3)).heights[0]), 6)
    0.5
    """
    step = max(step, largest_loss / MOST_POINTS)
    at = step * np.arange(math.ceil(largest_loss / step) + 2, dtype=np.float64)
    heights = np.zeros(at.size)
    for view in views:
        np.maximum(heights, view.orders(at).max(axis=0), out=heights)
    return Curve(step, heights)
