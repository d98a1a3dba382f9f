"""Privacy curves of one instance, h(t) = sup over events E of P(E) - e^t Q(E), and the delta of all of them together.

What an analyzer sees of one instance has law P or Q, depending on one user's bit. Moving one user from x to x' turns
the bits of some instances up and of others down, and the bits of the other users differ from instance to instance; so
what counts is one curve above every case in either order. Curves are evaluated from above: rounding errors, and what
was left out of the laws, are added.

Guarantee: `composed_delta` is an upper bound. Curves are known at multiples of a step and joined by straight lines in
e^t, which lie above them since curves are convex there (Doroshenko et al. 2022, "connect the dots"). A convex curve
that contains its own mirror image is the curve of some pair of laws, and composing that pair bounds the composition of
everything below it (Zhu, Dong, Wang 2022). The sum of the losses is convolved by a Fourier transform of the law tilted
towards epsilon, so that rounding errors are small against delta rather than against 1; they and what lies outside of
the transform's window are bounded and added. docs/shuffled-bitsums.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from sfumato.errors import InputError

Floats = NDArray[np.float64]

RELATIVE_MARGIN = 1e-9  # of every height; sums of some thousand positive floats err by less than 1e-12
MOST_POINTS = 20_000  # of a curve
LOSS_ERROR = 1e-11  # by which the loss of an atom may be off; the tests find less than 1e-12
_WINDOW_TAIL = 1e-15
_FOURIER_UNIT = 8 * 2.0**-53  # relative l2 error of a transform of length N is at most this times log2(N)
_LARGEST_TILT = 1e6


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
    if not (0 < step < math.inf and 0 <= largest_loss < math.inf):
        raise InputError("so little noise leaves no law that can be computed; take a smaller epsilon or delta")
    step = max(step, largest_loss / MOST_POINTS)
    at = step * np.arange(math.ceil(largest_loss / step) + 2, dtype=np.float64)
    heights = np.zeros(at.size)
    for view in views:
        np.maximum(heights, view.orders(at).max(axis=0), out=heights)
    return Curve(step, heights)


def _dominating_losses(curve: Curve) -> tuple[Floats, Floats, float]:
    """Losses, their probabilities and the probability of an infinite loss, of the pair of laws whose curve this is."""
    at, heights = curve.losses, curve.heights
    # On the straight piece after loss t the curve falls by Q(loss > t) per unit of e^t.
    above = np.append((heights[:-1] - heights[1:]) / (np.exp(at[:-1]) * math.expm1(curve.step)), 0.0)
    # Where rounding leaves a dent, filling it lifts the curve.
    up = np.maximum(np.exp(at[1:]) * -np.diff(above), 0.0)
    down = up * np.exp(-at[1:])
    infinite = float(heights[-1])
    middle = max(1.0 - infinite - float(up.sum()) - float(down.sum()), 0.0)
    return np.concatenate([-at[:0:-1], at]), np.concatenate([down[::-1], [middle], up]), infinite


def composed_delta(curve: Curve, instances: int, epsilon: float) -> float:
    """Return an upper bound of delta at `epsilon` for independent instances, each below the curve.

    Examples
    --------
    >>> keep = np.array([0.25, 0.75])
    >>> response = curve_of([Pair(keep, keep[::-1], np.log(keep / keep[::-1]), 0.0)], 0.02, math.log(3))
    >>> round(composed_delta(response, 2, 1.2), 4)  # 9/16 - e^1.2 / 16
    0.355
    """
    if not np.isfinite(curve.heights).all():
        return 1.0
    if instances == 1:
        return min(1.0, curve.at(epsilon) * (1 + RELATIVE_MARGIN) + LOSS_ERROR)
    epsilon -= instances * LOSS_ERROR  # as if every loss were larger by that much
    losses, masses, infinite = _dominating_losses(curve)
    if infinite >= 1.0:
        return 1.0
    failure = -math.expm1(instances * math.log1p(-infinite))
    losses, masses = losses[masses > 0], masses[masses > 0]
    if instances * losses[-1] <= epsilon:
        return failure
    law = _TiltedLaw.towards(epsilon, losses, masses, curve.step, instances)
    return min(1.0, law.tail(epsilon) + failure)


@dataclass(frozen=True, eq=False)
class _TiltedLaw:
    """The law of one loss, weighted by exp(tilt * loss - log_moment)."""

    losses: Floats
    logs: Floats  # logarithms of the tilted probabilities
    tilt: float
    log_moment: float
    step: float
    instances: int

    @classmethod
    def towards(cls, epsilon: float, losses: Floats, masses: Floats, step: float, instances: int) -> _TiltedLaw:
        """Tilt a law so that the sum of the losses is likely to lie near epsilon."""
        logs = np.log(masses)

        def exponent(tilt: float) -> float:
            return instances * float(logsumexp(logs + tilt * losses)) - tilt * epsilon

        # The exponent is convex, so doubling the end of the interval finds its least point.
        end = 1.0
        while end < _LARGEST_TILT and exponent(2 * end) < exponent(end):
            end *= 2
        tilt = float(minimize_scalar(exponent, bounds=(0.0, 2 * end), method="bounded").x)
        log_moment = float(logsumexp(logs + tilt * losses))
        return cls(losses, logs + tilt * losses - log_moment, tilt, log_moment, step, instances)

    def tail(self, epsilon: float) -> float:
        """Upper bound of the sum over composed losses l > epsilon of P(l) (1 - e^(epsilon - l))."""
        low = math.floor(-self._reach(-1) / self.step)
        high = max(math.ceil(self._reach(1) / self.step), math.ceil(epsilon / self.step)) + 1
        length = next_fast_len(high - low + 1, real=True)
        composed, error = self._convolve(length)
        composed = np.roll(composed, -(low % length))  # the first entry is now the sum low * step
        sums = self.step * np.arange(low, low + length)
        above = sums > epsilon
        weights = np.exp(-self.tilt * (sums[above] - epsilon)) * -np.expm1(epsilon - sums[above])
        kept = float((np.maximum(composed[above], 0.0) * weights).sum())
        scale = math.exp(self.instances * self.log_moment - self.tilt * epsilon)
        # No weight exceeds 1. What falls out of the window may come back elsewhere, but is counted here in full.
        return scale * ((1 + RELATIVE_MARGIN) * kept + error + 2 * _WINDOW_TAIL)

    def _reach(self, sign: int) -> float:
        """Return a sum that the composed tilted law exceeds, in the direction of `sign`, with the window's tail."""
        masses = np.exp(self.logs)
        mean = float((masses * self.losses).sum())
        variance = max(float((masses * (self.losses - mean) ** 2).sum()), self.step**2)
        typical = math.sqrt(-2 * math.log(_WINDOW_TAIL) / (variance * self.instances))

        def reach(log_rate: float) -> float:
            rate = math.exp(log_rate)
            moment = float(logsumexp(self.logs + sign * rate * self.losses))
            return (self.instances * moment - math.log(_WINDOW_TAIL)) / rate

        centre = math.log(typical)
        return float(minimize_scalar(reach, bounds=(centre - 5, centre + 2), method="bounded").fun)

    def _convolve(self, length: int) -> tuple[Floats, float]:
        """Convolve modulo `length`; return the law and a bound of the sum of its absolute errors."""
        places = np.rint(self.losses / self.step).astype(np.int64) % length
        masses = np.asarray(np.bincount(places, weights=np.exp(self.logs), minlength=length), dtype=np.float64)
        spectrum = rfft(masses)
        unit = _FOURIER_UNIT * math.log2(length)
        # |z + e|^I - |z|^I <= I e (|z| + e)^(I-1), and repeated multiplication errs by about I units of its result.
        size = np.abs(spectrum)
        slip = unit * math.sqrt(length) * _norm(masses)
        grown = (size + slip) ** (self.instances - 1)
        errors = self.instances * grown * (slip + 4 * 2.0**-53 * size)
        composed = irfft(_power(spectrum, self.instances), length)
        in_spectrum = math.sqrt(2.0) * _norm(errors)  # half of the spectrum stands for all of it
        in_inverse = unit * math.sqrt(length) * _norm(composed)
        return composed, in_spectrum + in_inverse


def _norm(values: Floats) -> float:
    # Not by a linear algebra library, whose threads would cost more than they save.
    return math.sqrt(float((values * values).sum()))


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Raise to an integer power by repeated squaring: exact to a few units per multiplication."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent >>= 1
    return result
