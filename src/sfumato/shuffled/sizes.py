"""How many messages everybody sends: one number for all members of a group, so that a submission's size says nothing.

Whoever has fewer messages adds cover: messages that are sealed like all others and that the analyzer drops. The number
is also the most that one client can do to a collection, whatever it sends. It is the least one that a draw of the bit
sum's coins exceeds with probability f, for the worst bits; a client whose draw does not fit draws again.

Guarantee: drawing again changes the law of a client's messages by f at most in total variation, and the law of what n
honest clients send together by n f. If the bit sums keep (e, d) without it, then for every event E of the view

    Pr'[E | x] <= Pr[E | x] + n f <= e^e Pr[E | x'] + d + n f <= e^e Pr'[E | x'] + d + (1 + e^e) n f,

which is what `overflow` adds to delta; honest clients beyond n are given away. Cover adds nothing: how much of it there
is follows from the number of clients and of the other messages. `pure` promises delta = 0, which holds up to an
`overflow` of 2^-128 that its guarantee names.

f is bounded by Chernoff: Pr[T > c] <= exp(K(t) - t (c + 1)) for every t >= 0, with K the sum of the instances' exact
log moments (`BitSum.message_exponent`), at the largest number of ones that a point has. The best t is searched for;
the bound holds for any.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from sfumato.shuffled.bitsum import BitSum

SHARE = 1 / 1000  # of delta, for draws that do not fit
PURE_OVERFLOW = 2.0**-128
_LARGEST_TILT = 30.0
_ROUNDING = 1e-9  # relative, of the exponents; they are computed to about 1e-13


def overflow(bitsum: BitSum, instances: int, ones: int, messages: int, epsilon: float) -> float:
    """Return what draws that do not fit add to delta, an upper bound.

    Parameters
    ----------
    bitsum : BitSum
        Of one instance.
    instances, ones : int
        Bits of a point, and how many of them may be 1.
    messages : int
        How many a client sends.
    epsilon : float
        Of all instances together.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.shuffled.bitsum.poisson import PoissonNoise
    >>> noise = PoissonNoise(1000, Fraction(500))
    >>> [overflow(noise, 64, 64, messages, 1.0) < 1e-8 for messages in (100, 160)]
    [False, True]
    """
    fits = bitsum.most_messages is not None and messages >= bitsum.most_messages * instances
    return 0.0 if fits else math.exp(min(_log_overflow(bitsum, instances, ones, messages, epsilon), 0.0))


def fewest_messages(bitsum: BitSum, instances: int, ones: int, epsilon: float, delta: float) -> int:
    """Return the least number of messages whose overflow is within its share of delta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.shuffled.bitsum.poisson import PoissonNoise
    >>> from sfumato.shuffled.bitsum.rr import RandomisedResponse
    >>> fewest_messages(RandomisedResponse(1000, Fraction(1, 4)), 64, 64, 1.0, 1e-5)
    64
    >>> fewest_messages(PoissonNoise(1000, Fraction(500)), 64, 64, 1.0, 1e-5)
    145
    """
    allowed = (1 - SHARE) * (SHARE * delta if delta else PURE_OVERFLOW)  # a little less: others compute it again
    high = instances
    while overflow(bitsum, instances, ones, high, epsilon) > allowed:
        high *= 2
    low = 0  # nothing fits
    while high - low > 1:
        middle = (low + high) // 2
        fits = overflow(bitsum, instances, ones, middle, epsilon) <= allowed
        low, high = (low, middle) if fits else (middle, high)
    return high


def _log_overflow(bitsum: BitSum, instances: int, ones: int, messages: int, epsilon: float) -> float:
    """Logarithm of (1 + e^epsilon) n Pr[messages of a client > messages], from above."""

    def bound(tilt: float) -> float:
        moment = ones * bitsum.message_exponent(tilt, 1) + (instances - ones) * bitsum.message_exponent(tilt, 0)
        reach = tilt * (messages + 1)
        return moment - reach + _ROUNDING * (moment + reach)

    # Up to the largest tilt: close to it the moments are large, and lose digits.
    largest = min(_LARGEST_TILT, 0.999 * bitsum.largest_tilt)
    ends = math.log(largest) - 15, math.log(largest)
    found = minimize_scalar(lambda log_tilt: bound(math.exp(log_tilt)), bounds=ends, method="bounded")
    return math.log(bitsum.n) + math.log1p(math.exp(epsilon)) + min(float(found.fun), 0.0)
