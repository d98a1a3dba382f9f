"""Find the least noise that keeps a guarantee, and certify it.

The noise is a single number, the variance that it gives the sum; everything else about a protocol follows from it by a
rule. Delta falls as the variance grows, so the least variance is a root. It is looked for on the curve of a typical
case, which is quick, and certified on the curve above all cases; where that fails, a smaller delta is aimed at. The
guarantee rests on the certificate alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeVar

from scipy.optimize import brentq

from sfumato.errors import InputError
from sfumato.privacy.loss import gaussian_delta
from sfumato.shuffled.bitsum.bit_sum import ComposableBitSum, chance_above, rate_below
from sfumato.shuffled.bitsum.curves import Accuracy, Curve, composed_delta
from sfumato.shuffled.bitsum.rr import FOURIER_ERROR, RandomisedResponse, SampledResponse
from sfumato.shuffled.bitsum.signed import ThreeNegativeBinomials, rate_for_difference
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise, PoissonNoise, rate_for_variance

TAIL_SHARE = 1e-6  # of delta that may be left out of the laws, all instances together
FEWEST_STEPS, MOST_STEPS = 50, 400  # per standard deviation of the loss: for many instances, and for one
WORTH = 0.01  # shapes and floods are doubled, at the cost of messages, while that lowers the error by more than this
_FIRST_SHAPE = 64
_FLOOD_SHAPE = 32
_FIRST_FLOOD = 8.0  # standard deviation of the flood, in units of 1 / rate
_MOST_DOUBLINGS = 10
_TOLERANCE = 1e-4  # of the variance
_LARGEST_FACTOR = 1e6  # by which the variance may exceed that of a Gaussian
_MOST_ATTEMPTS = 10

Composable = TypeVar("Composable", bound=ComposableBitSum)


def central_gaussian_rmse(instances: int, epsilon: float, delta: float) -> float:
    """Return the error of Gaussian noise that a trusted curator would add to each sum, the benchmark for all protocols.

    Neighbours differ in one user's bits, `instances` of them, each by 1 at most.

    Examples
    --------
    >>> round(central_gaussian_rmse(384, 1.0, 1e-5), 1)
    73.1
    """

    def excess(log_mu: float) -> float:
        return math.log(max(gaussian_delta(math.exp(-log_mu), epsilon), 1e-320)) - math.log(delta)

    return math.sqrt(instances) / math.exp(brentq(excess, math.log(1e-9), math.log(1e3), xtol=1e-9))


@dataclass(frozen=True)
class Search:
    """What is to be kept, and the means to find out.

    Examples
    --------
    >>> protocol = Search(1000, 16, 1.0, 1e-5).response()
    >>> round(protocol.rmse, 1), Search(1000, 16, 1.0, 1e-5).certify(protocol) <= 1e-5
    (15.3, True)
    """

    n: int
    instances: int
    epsilon: float
    delta: float

    def certify(self, protocol: ComposableBitSum) -> float:
        """Return an upper bound of delta at epsilon for all instances of a protocol."""
        return self._delta(protocol.curve(self._accuracy))

    def response(self) -> RandomisedResponse:
        """Find the flips of randomised response."""
        return self._least(lambda variance: RandomisedResponse(self.n, _flip(self.n, variance)), self._gaussian)

    def sampled_response(self, send: Fraction) -> SampledResponse:
        """Find the flips of randomised response in which only some of the bits are sent."""
        if 100 * self.instances * FOURIER_ERROR > self.delta:
            raise InputError(
                f"delta {self.delta:g} is too small for a message budget over {self.instances} instances; "
                f"take at least {100 * self.instances * FOURIER_ERROR:.1g}, or leave out messages."
            )

        def make(variance: float) -> SampledResponse:
            return SampledResponse(self.n, _flip(self.n, float(send) * variance), send)

        return self._least(make, self._gaussian)

    def poisson(self) -> PoissonNoise:
        """Find the mean of Poisson noise."""

        def make(variance: float) -> PoissonNoise:
            return PoissonNoise(self.n, Fraction(math.ceil(variance * 2**16), 2**16))

        return self._least(make, self._gaussian)

    def negative_binomial(self) -> NegativeBinomialNoise:
        """Find shape and rate of negative binomial noise."""

        def make(shape: int, variance: float) -> NegativeBinomialNoise:
            return NegativeBinomialNoise(self.n, shape, rate_below(rate_for_variance(shape, variance)))

        return self._doubled(lambda times, variance: make(_FIRST_SHAPE * times, variance), 1.0)

    def three_nb(self) -> ThreeNegativeBinomials:
        """Find the rates of noise and flood of 3NB."""

        def make(times: int, variance: float) -> ThreeNegativeBinomials:
            rate = rate_for_difference(variance)
            flood = rate_for_variance(_FLOOD_SHAPE, (_FIRST_FLOOD * times / rate) ** 2)
            return ThreeNegativeBinomials(self.n, rate_below(rate), _FLOOD_SHAPE, rate_below(flood))

        return self._doubled(make, 2.0)

    @property
    def _accuracy(self) -> Accuracy:
        steps = max(FEWEST_STEPS, math.ceil(MOST_STEPS / math.sqrt(self.instances)))
        return Accuracy(TAIL_SHARE * self.delta / self.instances, steps)

    @property
    def _gaussian(self) -> float:
        return central_gaussian_rmse(self.instances, self.epsilon, self.delta) ** 2

    def _delta(self, curve: Curve) -> float:
        return composed_delta(curve, self.instances, self.epsilon)

    def _doubled(self, make: Callable[[int, float], Composable], factor: float) -> Composable:
        """Double what costs messages while that pays."""
        best = self._least(partial(make, 1), factor * self._gaussian)
        for doublings in range(1, _MOST_DOUBLINGS + 1):
            better = self._least(partial(make, 2**doublings), best.variance)
            if better.rmse > (1 - WORTH) * best.rmse:
                break
            best = better
        return best

    def _least(self, make: Callable[[float], Composable], guess: float) -> Composable:
        """Return the protocol of least variance that is certified, or of little more."""
        aim = self.delta
        for _ in range(_MOST_ATTEMPTS):
            guess = self._root(make, guess, aim) * (1 + _TOLERANCE)
            protocol = make(guess)
            certified = self.certify(protocol)
            if certified <= self.delta:
                return protocol
            aim *= 0.999 * self.delta / certified
        raise self._hopeless()

    def _hopeless(self) -> InputError:
        return InputError(
            f"no noise was found that keeps epsilon {self.epsilon:g} and delta {self.delta:g} over {self.instances} "
            f"instances with {self.n} participants; take a larger epsilon or delta"
        )

    def _root(self, make: Callable[[float], Composable], guess: float, aim: float) -> float:
        """Variance at which the delta of a typical case is about `aim`."""

        def excess(log_variance: float) -> float:
            curve = make(math.exp(log_variance)).typical_curve(self._accuracy)
            return math.log(max(self._delta(curve), 1e-320) / aim)

        low = high = math.log(guess)
        step = 0.02
        while excess(high) > 0:
            low, high, step = high, high + step, 2 * step
            if high > math.log(_LARGEST_FACTOR * guess):
                raise self._hopeless()
        step = 0.02
        while low == high or excess(low) < 0:
            low, step = low - step, 2 * step
            if low < math.log(guess / _LARGEST_FACTOR):  # next to no noise is enough
                return math.exp(low)
        return math.exp(brentq(excess, low, high, xtol=_TOLERANCE / 2))


def _flip(n: int, variance: float) -> Fraction:
    """Flip probability at which randomised response has a given variance, rounded up."""
    # n p (1 - p) / (1 - 2 p)^2 = v  <=>  1 - 2 p = 1 / sqrt(1 + 4 v / n)
    ratio = 4 * variance / n
    root = math.sqrt(1 + ratio)
    return chance_above(ratio / (2 * root * (1 + root)))
