"""From the privacy curve of one instance to the delta of all instances together, rounded against the protocol.

Guarantee: `composed_delta` is an upper bound. Curves are known at multiples of a step and joined by straight lines in
e^t, which lie above them since curves are convex there (Doroshenko et al. 2022, "connect the dots"). A convex curve
that contains its own mirror image is the curve of some pair of laws, and composing that pair bounds the composition of
everything below it (Zhu, Dong, Wang 2022). The sum of the losses is convolved by a Fourier transform of the law tilted
towards epsilon, so that rounding errors are small against delta rather than against 1; they and what lies outside of
the transform's window are bounded and added. docs/shuffled-bitsums.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from sfumato.shuffled.bitsum.curves import RELATIVE_MARGIN, Curve, Floats

LOSS_ERROR = 1e-11  # by which the loss of an atom may be off; the tests find less than 1e-12
_WINDOW_TAIL = 1e-15
_FOURIER_UNIT = 8 * 2.0**-53  # relative l2 error of a transform of length N is at most this times log2(N)
_LARGEST_TILT = 1e6


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
    >>> from sfumato.shuffled.bitsum.curves import Pair, curve_of
    >>> keep = np.array([0.25, 0.75])
    >>> response = curve_of([Pair(keep, keep[::-1], np.log(keep / keep[::-1]), 0.0)], 0.02, math.log(3))
    >>> round(composed_delta(response, 2, 1.2), 4)  # 9/16 - e^1.2 / 16
    0.355
    """
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
