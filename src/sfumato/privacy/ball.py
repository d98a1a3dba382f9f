"""Exact integer noise for vectors in a Euclidean ball (pure epsilon): Pr[z] proportional to exp(-rate |z|_2).

Source: the K-norm mechanism (M. Hardt, K. Talwar, "On the Geometry of Differential Privacy", STOC 2010) for the ball,
here on integers, exactly. Exponents of the Euclidean norm as mixtures of Gaussians go back to P. Levy.

Guarantee. A change v of the sums has |v|_2 <= s, so | |z + v|_2 - |z|_2 | <= s, and no output's probability changes by
more than the factor e^(rate s): rate = epsilon / s is exactly epsilon-DP, in any dimension.

Law from Gaussians. For r >= 0 and a = rate,
    e^(-a r) = a sqrt(2 / pi) * integral over t > 0 of e^(-a^2 t^2 / 2) e^(-r^2 / (2 t^2)) dt,
so (t, z) with joint density proportional to h = e^(-a^2 t^2 / 2 - |z|^2 / (2 t^2)) has z of the law asked for. Such a
pair is drawn by rejection. H = 2^20, t = (R + U) / H with an integer R >= 0 and U uniform in [0, 1].
1. S is the sum of d + 1 geometric variables of rate q = 1 / m (m near H / (a sqrt(d)); any m will do): Pr[S] is
   proportional to (S + 1) ... (S + d) e^(-q S). Below H - 1 it is drawn again; R = S - (H - 1).
2. sigma = floor(R / H) + 1, so that t <= sigma and H sigma <= R + H = S + 1. S is kept with d coins of probabilities
   H sigma / (S + i), i = 1..d, each at most 1, which leaves S in proportion to sigma^d e^(-q S).
3. z is d discrete Gaussians of parameter sigma: e^(-|z|^2 / (2 sigma^2)) / N^d, N = sigma sqrt(2 pi) theta(sigma),
   theta(sigma) = 1 + 2 sum over k of e^(-2 pi^2 sigma^2 k^2) (Poisson). Now (S, U, z) has a density proportional to
   e^(-q S) theta(sigma)^-d e^(-|z|^2 / (2 sigma^2)).
4. All of it is kept with probability e^-X, and drawn again otherwise,
       X = (a t - q H / a)^2 / 2 + q U  +  |z|^2 (1 / t^2 - 1 / sigma^2) / 2  +  d ln(theta(1) / theta(sigma)).
   None of the three parts is negative. Because S = H t - U + H - 1, the first is a^2 t^2 / 2 - q S plus a constant, so
   what is kept has a density proportional to h. About 0.7 of the proposals are kept where sigma is far above d.

Exactness. Steps 1 to 3 compare integers (`noise`). In step 4, U and V are uniform reals of which as many binary digits
are drawn as the comparison V < e^-X takes: floating point with a proven margin first, and where that leaves a doubt,
the same digits and more of them with fractions below and above X and ln V (`certified`), for as long as it takes: there
is no number of digits at which a guess is made.

Margins. With r = H t: X's parts are sums, products and quotients of positive numbers, each wrong by less than one part
in 2^30 (|z|^2, a sum of up to 2^16 squares, by one in 2^36), but for two differences: a t - q H / a, whose square is
wrong by less than 2^-48 (a t + q H / a)^2, and H sigma - r, wrong by less than 2^-50 of H sigma - R + 1. The part of
theta lies between 0 and 6e-9 d. V is known within 2^-64, so its logarithm within 2^-31 where V > 2^-32. R = 0 and
V <= 2^-32 are doubts.

Limits. sqrt(d + 1) / rate is at most 2^25: then sigma reaches 2^30, beyond which discrete Gaussians are not drawn here,
with probability below e^-1000, beneath what the secure bits themselves promise; it is drawn again. rate sqrt(d) is at
most 1: beyond, sigma is below d, and rejection takes long.

Variance of one coordinate: (d + 1) / rate^2, to a relative precision of about rate^2 / 12 in one column, and in more
columns of order (rate / 6)^(d + 1) (Poisson). Coordinates of one draw are uncorrelated. Laplace noise for the same ball
has 2 d / rate^2.

Certified numbers: logarithms, pi and a theta series between exact bounds, fractions below and above, as close as asked
for.

`decimal` rounds `ln` and `exp` correctly, so a result differs from the true value by less than one unit of its last
digit; what is rounded before is rounded down for the lower bound and up for the upper one. No binary floating-point
number takes part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits, Words, next_below
from sfumato.privacy.noise import RATE, fill_gaussian, next_geometric
from sfumato.public.codec import Documented, Schema, Whole, brief

Interval: TypeAlias = tuple[Fraction, Fraction]

SPARE_DIGITS = 12


def _digits(precision: int) -> int:
    """Decimal digits for so many binary ones, some to spare."""
    return precision * 3 // 10 + SPARE_DIGITS


def _around(value: Decimal, digits: int) -> Interval:
    """Bounds of the number that was rounded to `value`."""
    exact = Fraction(value)
    unit = abs(exact) / 10 ** (digits - 1)
    return exact - unit, exact + unit


def log(value: Fraction, precision: int) -> Interval:
    """Bounds of the natural logarithm of a positive fraction, about 2^-precision apart relative to their terms.

    Examples
    --------
    >>> low, high = log(Fraction(1, 2), 64)
    >>> float(low), low < high
    (-0.6931471805599453, True)
    """
    digits = _digits(precision)
    context = Context(prec=digits)
    above = _around(context.ln(Decimal(value.numerator)), digits)
    below = _around(context.ln(Decimal(value.denominator)), digits)
    return above[0] - below[1], above[1] - below[0]


def exp(value: Interval, precision: int) -> Interval:
    """Bounds of exp over an interval.

    Examples
    --------
    >>> low, high = exp((Fraction(-1), Fraction(-1)), 64)
    >>> float(low), low < high
    (0.36787944117144233, True)
    """
    digits, context = _digits(precision), Context(prec=_digits(precision))
    low, high = (
        Context(prec=digits, rounding=rounding).divide(Decimal(bound.numerator), Decimal(bound.denominator))
        for bound, rounding in zip(value, (ROUND_FLOOR, ROUND_CEILING), strict=True)
    )
    return _around(context.exp(low), digits)[0], _around(context.exp(high), digits)[1]


@lru_cache(maxsize=8)
def pi(precision: int) -> Interval:
    """Bounds of pi, 2^-precision apart or less: Machin's 16 arctan(1/5) - 4 arctan(1/239) in fixed point.

    Examples
    --------
    >>> low, high = pi(64)
    >>> float(low), high - low < Fraction(1, 2**64)
    (3.141592653589793, True)
    """
    unit = 1 << (precision + 32)
    # Every term is rounded by less than one unit, and the series, which alternates, by less than one more.
    terms = precision + 64
    middle = 16 * _arctan(5, unit, terms) - 4 * _arctan(239, unit, terms)
    slack = 20 * (terms + 1)
    return Fraction(middle - slack, unit), Fraction(middle + slack, unit)


def _arctan(inverse: int, unit: int, terms: int) -> int:
    """Sum the series of arctan(1 / inverse) in multiples of 1 / unit, every term rounded down once."""
    return sum((-1) ** k * (unit // ((2 * k + 1) * inverse ** (2 * k + 1))) for k in range(terms))


@lru_cache(maxsize=64)
def log_theta(sigma: int, precision: int) -> Interval:
    """Bounds of the logarithm of 1 + 2 sum over k >= 1 of exp(-2 pi^2 sigma^2 k^2), about 2^-precision apart.

    That is the sum of exp(-z^2 / (2 sigma^2)) over all integers z, over sigma sqrt(2 pi) (Poisson).

    Examples
    --------
    >>> low, high = log_theta(1, 64)
    >>> round(float(low) * 1e9, 4), low < high
    (5.3506, True)
    """
    around = pi(precision + 64)
    low = high = Fraction(1)
    k = 1
    while 19 * (sigma * k) ** 2 <= precision + 8:  # 2 pi^2 > 19, and exp(-1) < 2^-1
        term = exp((-2 * around[1] ** 2 * (sigma * k) ** 2, -2 * around[0] ** 2 * (sigma * k) ** 2), precision + 64)
        low, high, k = low + 2 * term[0], high + 2 * term[1], k + 1
    high += Fraction(4, 2 ** (precision + 8))  # all further terms: each is less than half of the one before
    return log(low, precision + 64)[0], log(high, precision + 64)[1]


MOST_BALL_COORDINATES = 2**16
LARGEST_MEAN_LENGTH = 2**25
SIGMA_LIMIT = 2**30
STEPS = 2**20  # H
MARGIN = 2.0**-30
LARGEST_LOG_THETA = 6e-9
WORD = 64
_CLEAR = 2.0**32

_ONE, _STEPS, _LIMIT = np.uint64(1), np.uint64(STEPS), np.uint64(STEPS * SIGMA_LIMIT)


def ball_fits(size: int, rate: Fraction) -> bool:
    """Whether ball noise of this rate can be drawn; see the module's text on limits.

    Examples
    --------
    >>> ball_fits(384, Fraction(1, 2**18)), ball_fits(384, Fraction(1)), ball_fits(384, Fraction(1, 2**24))
    (True, False, False)
    """
    return size <= MOST_BALL_COORDINATES and size + 1 <= (rate * LARGEST_MEAN_LENGTH) ** 2 and rate**2 * size <= 1


@dataclass(frozen=True)
class BallNoise(Documented):
    """Noise with Pr[z] proportional to exp(-rate |z|_2), for blocks of `size` integers, one record's within a ball.

    Parameters
    ----------
    size : int
        d, coordinates per block.
    rate : Fraction
        epsilon / s, s the ball's radius.

    Examples
    --------
    >>> law = BallNoise(size=3, rate=Fraction(1, 100))
    >>> law.sample(SecureBits.seeded(7), 6).shape
    (6,)
    >>> law.variance
    40000.0
    """

    schema = Schema({"law": "l2-ball"}, size=Whole(1, MOST_BALL_COORDINATES), rate=RATE)
    size: int
    rate: Fraction

    def __post_init__(self) -> None:
        if type(self.size) is not int or not 1 <= self.size <= MOST_BALL_COORDINATES:
            raise InputError(f"the size of ball noise must be a whole number from 1 to 2**16, got {brief(self.size)}")
        if not isinstance(self.rate, Fraction) or self.rate <= 0 or max(self.rate.as_integer_ratio()) > 2**56:
            raise InputError(f"the rate must be a positive Fraction with terms up to 2**56, got {brief(self.rate)}")
        if not ball_fits(self.size, self.rate):
            raise InputError(
                f"ball noise of rate {self.rate} is too narrow or too wide for {self.size} 64-bit integers: the rate "
                f"times sqrt({self.size}) must be from {(self.size + 1) / LARGEST_MEAN_LENGTH:.3g} to 1"
            )

    @property
    def block(self) -> int:
        """Integers in one draw."""
        return self.size

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return (self.size + 1) / float(self.rate) ** 2

    @property
    def _mean_step(self) -> int:
        """Return m, the inverse rate of a geometric variable."""
        return round(STEPS / (float(self.rate) * math.sqrt(self.size)))

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers: independent blocks of `size` coordinates."""
        blocks, rest = divmod(count, self.size)
        if rest:
            raise InputError(f"ball noise comes in whole blocks of {self.size} integers, {count} were asked for")
        kept: list[Integers] = [np.empty((0, self.size), dtype=np.int64)]
        while missing := blocks - sum(map(len, kept)):
            tries = missing + missing // 2 + 1
            parameters = np.uint64(self.size), np.uint64(self._mean_step)
            proposals = bits.draw(fill_proposals, tries * (self.size + 1), 24.0, *parameters).reshape(tries, -1)
            coins = bits.words(2 * tries).reshape(tries, 2)
            kept.append(proposals[self._accepted(proposals, coins, bits)][:missing, 1:])
        return np.concatenate(kept).reshape(-1)

    def _accepted(self, proposals: Integers, coins: Words, bits: SecureBits) -> NDArray[np.bool_]:
        """Decide step 4 for every proposal (S, z) with its first digits of U and V."""
        depth, margin = self._depth(proposals, coins[:, 0])
        v = coins[:, 1].astype(np.float64)
        level = WORD * math.log(2) - np.log(np.maximum(v, 1.0))
        sure = (proposals[:, 0] >= STEPS) & (v > _CLEAR)
        accepted = sure & (level > depth + margin + LARGEST_LOG_THETA * self.size)
        doubtful = ~accepted & ~(sure & (level < depth - margin))
        for i in np.flatnonzero(doubtful):
            accepted[i] = self.settled(proposals[i].tolist(), int(coins[i, 0]), int(coins[i, 1]), bits)
        return np.asarray(accepted)

    def _depth(self, proposals: Integers, digits: Words) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """X without the part of theta, and by how much it may be wrong; where R > 0."""
        rate, step = float(self.rate), float(self._mean_step)
        whole = proposals[:, 0] - (STEPS - 1)
        sigma = whole // STEPS + 1
        u = np.ldexp(digits.astype(np.float64), -WORD)
        r = np.maximum(whole + u, 1.0)
        near, far = rate * r / STEPS, STEPS / (rate * step)
        square = np.square(proposals[:, 1:].astype(np.float64)).sum(axis=1)
        gap = (STEPS * sigma - whole).astype(np.float64)
        steep = square * (STEPS * sigma + r) / (2 * np.square(r * sigma))
        depth = np.square(near - far) / 2 + u / step + steep * (gap - u)
        return depth, MARGIN * (1 + np.square(near + far) + steep * (gap + 1))

    def settled(self, proposal: list[int], u: int, v: int, bits: SecureBits) -> bool:
        """Decide one comparison exactly, with as many more digits of U and V as it takes."""
        precision = WORD
        while True:
            low, high = self.bounds(proposal, u, precision)
            level = -log(Fraction(v + 1, 1 << precision), precision)[1]
            if level > high:
                return True
            if v and -log(Fraction(v, 1 << precision), precision)[0] < low:
                return False
            for word in bits.words(2 * precision // WORD).reshape(-1, 2).tolist():
                u, v = (u << WORD) | word[0], (v << WORD) | word[1]
            precision *= 2

    def bounds(self, proposal: list[int], u: int, precision: int) -> tuple[Fraction, Fraction | float]:
        """Bounds of X for U from u / 2^precision to (u + 1) / 2^precision."""
        start, z = proposal[0], proposal[1:]
        whole = start - (STEPS - 1)
        sigma, square = whole // STEPS + 1, sum(value * value for value in z)
        q, u_low, u_high = Fraction(1, self._mean_step), Fraction(u, 1 << precision), Fraction(u + 1, 1 << precision)

        def radial(u: Fraction) -> Fraction:  # a^2 t^2 / 2 - q S and the constant, which increases with U
            return (self.rate * (whole + u) / STEPS) ** 2 / 2 - q * start + constant

        def excess(u: Fraction) -> Fraction:  # decreases with U
            return square * (Fraction(STEPS) ** 2 / (whole + u) ** 2 - Fraction(1, sigma**2)) / 2

        constant = (q * STEPS / self.rate) ** 2 / 2 + q * (STEPS - 1)
        first, this = log_theta(1, precision), log_theta(sigma, precision)
        theta_low, theta_high = self.size * (first[0] - this[1]), self.size * (first[1] - this[0])
        low = radial(u_low) + excess(u_high) + theta_low
        if whole + u_low == 0:
            return low, math.inf if square else radial(u_high) + theta_high
        return low, radial(u_high) + excess(u_low) + theta_high


@njit(nogil=True, cache=True)
def fill_proposals(words, out, done, size, mean_step):  # type: ignore[no-untyped-def]
    """Fill with S and z of steps 1 to 3, d + 1 integers each."""
    at = 0
    while done < out.size:
        start, accepted, end = _radius(words, at, size, mean_step)
        if accepted:
            sigma = (start - (_STEPS - _ONE)) // _STEPS + _ONE
            filled, used = fill_gaussian(words[end:], out[done + 1 : done + 1 + np.int64(size)], 0, sigma)
            end += used
            if filled < np.int64(size):
                break
        if end > words.size:
            break
        at = end
        if accepted:
            out[done] = np.int64(start)
            done += np.int64(size) + 1
    return done, at


@njit(nogil=True, cache=True)
def _radius(words, at, size, mean_step):  # type: ignore[no-untyped-def]
    """One attempt at S: (S, accepted, position)."""
    start = _ONE - _ONE
    for _ in range(size + _ONE):
        step, _zero, at = next_geometric(words, at, _ONE, mean_step)
        if at > words.size:
            return start, False, at
        start += step
    if start < _STEPS - _ONE or start - (_STEPS - _ONE) >= _LIMIT:
        return start, False, at
    reach = ((start - (_STEPS - _ONE)) // _STEPS + _ONE) * _STEPS
    for i in range(_ONE, size + _ONE):
        value, at = next_below(words, at, start + np.uint64(i))
        if at > words.size or value >= reach:
            return start, False, at
    return start, True, at
