"""Exact integer K-norm noise for features that lie in a cube or in a product of discs (pure epsilon).

Source: the K-norm mechanism (M. Hardt, K. Talwar, "On the Geometry of Differential Privacy", STOC 2010), here on
integers: noise shaped like the body K of what one record can add, instead of a product of Laplace laws.

Law. Let K_R be the integer points of the body scaled to radius R: {-R..R}^D for the cube, m pairs with a^2 + b^2 <=
R^2 for the discs. Draw an integer radius R with Pr[R] proportional to |K_R| e^(-rate R), then z uniform in K_R. So
Pr[z] is proportional to the sum over R >= |z|_K of e^(-rate R), i.e. to e^(-rate ceil |z|_K).

Guarantee. A record's integers v satisfy |v|_K <= s for an integer s, so ceil |z + v|_K <= ceil |z|_K + s, and no
output's probability changes by more than the factor e^(rate s): rate = epsilon / s is exactly epsilon-DP. The series
over R is infinite; cutting it off, or a v outside the body, would break this.

Sampling, all with integers. Cube: the sum R of D + 1 geometric variables has Pr[R] proportional to prod_i (R + i)
e^(-rate R); accept it with prod_i (2R + 1) / (2 (R + i)), i = 1..D, which leaves (2R + 1)^D. Discs: from the cube's
radius for D = 2m, go to the octagon O_R = {|a|, |b| <= R, |a| + |b| <= floor(sqrt(2) R)} around each disc, which has
(2R + 1)^2 - 2 k (k + 1) points, k = 2R - floor(sqrt(2) R): accept R with one coin of probability |O_R| / (c (2R +
1)^2) for each pair. Then draw each pair uniformly in O_R and start again, radius included, unless all m pairs lie in
their discs (probability about 0.948^m). R = 0 is left out of the discs' law: Pr[0] is then that of |z|_K = 1, i.e.
the exponent is max(1, ceil |z|_K), which changes by at most s just as well. For R >= 1, |O_R| / (2R + 1)^2 < 0.82844
=: c, because k >= a R with a = 2 - sqrt(2), and (2R + 1)^2 (1 - c) < 2 a R (a R + 1).

The arithmetic is exact for radii below 2^29, and the law's mean radius is kept below 2^22: a disc radius of 2^29 or
more has probability below e^-120 for one pair and e^-5000 for twenty, beneath what the secure bits themselves
promise; such a radius is drawn again.

Variance of one coordinate, to a relative precision of about rate: cube (D + 1)(D + 2) / (3 rate^2); discs
(2m + 1)(2m + 2) / (4 rate^2). Coordinates of one draw are uncorrelated.

Stacks. Sums in groups, each hidden by noise of its own: group j moves by at most s_j in |.|_K, and noise of rate e_j /
s_j makes it e_j-DP. In a structure of several blocks of discs one record moves a single block, so the structure is
e_j-DP too. The noises are independent, so all together are (sum of the e_j)-DP. A release has one number for the
variance of a coordinate, so groups should be scaled to the same; the largest is stated.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits, next_below
from sfumato.privacy.noise import RATE, next_geometric
from sfumato.public.codec import Documented, Many, Nested, Schema, Whole, brief
from sfumato.public.ranges import MOST_INTEGERS

LARGEST_MEAN_RADIUS = 2**22
LARGEST_CUBE_MEAN_RADIUS = 2**55
MOST_COORDINATES = 2**24
MOST_PARTS = 2**20
MOST_PAIRS = 128  # all pairs fall in their discs with probability 0.948^pairs
LARGEST_DISC_RATE = 8  # beyond, hardly any radius is above 0, and rejection takes for ever
MOST_TRIES = 1e7  # of cubes: beyond, rejection takes for ever as well
LARGEST_RADIUS = 2**29
_ZERO, _ONE, _TWO, _TEN = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(10)
_OCTAGON = np.uint64(82844)


@dataclass(frozen=True)
class DiscNoise(Documented):
    """K-norm noise for blocks of m pairs, each pair of one record within a disc of radius s.

    Parameters
    ----------
    pairs : int
        m, pairs per block.
    rate : Fraction
        epsilon / s.

    Examples
    --------
    >>> law = DiscNoise(pairs=2, rate=Fraction(1, 100))
    >>> law.sample(SecureBits.seeded(7), 8).shape
    (8,)
    >>> law.variance
    75000.0
    """

    schema = Schema({"law": "disc"}, pairs=Whole(1, MOST_PAIRS), rate=RATE)
    pairs: int
    rate: Fraction

    def __post_init__(self) -> None:
        _check(self.pairs, self.rate)
        if self.pairs > MOST_PAIRS:
            raise InputError(f"disc noise takes at most {MOST_PAIRS} pairs a block, got {self.pairs}: use more blocks")
        if self.rate > LARGEST_DISC_RATE:
            raise InputError(f"disc noise of rate {self.rate} is too narrow for integers; use a larger radius")
        if (2 * self.pairs + 1) / self.rate > LARGEST_MEAN_RADIUS:
            raise InputError(
                f"disc noise of rate {self.rate} for {self.pairs} pairs is too wide for 64-bit integers; "
                "use a smaller radius (a coarser integer grid)"
            )

    @property
    def block(self) -> int:
        """Integers in one draw."""
        return 2 * self.pairs

    @property
    def tries(self) -> float:
        """Draws for one whose pairs all fall in their discs, about."""
        return float(0.948**-self.pairs)

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers: independent blocks of `pairs` pairs."""
        _check_blocks(count, self.block)
        return bits.draw(fill_discs, count, 50.0, np.uint64(self.block), *_terms(self.rate))

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return (self.block + 1) * (self.block + 2) / (4 * float(self.rate) ** 2)


@dataclass(frozen=True)
class CubeNoise(Documented):
    """K-norm noise for blocks of `size` coordinates, each coordinate of one record at most s in absolute value.

    Parameters
    ----------
    size : int
        D, coordinates per block.
    rate : Fraction
        epsilon / s.

    Examples
    --------
    >>> CubeNoise(size=3, rate=Fraction(1, 100)).sample(SecureBits.seeded(7), 6).shape
    (6,)
    """

    schema = Schema({"law": "cube"}, size=Whole(1, MOST_COORDINATES), rate=RATE)
    size: int
    rate: Fraction

    def __post_init__(self) -> None:
        _check(self.size, self.rate)
        if (self.size + 1) / self.rate > LARGEST_CUBE_MEAN_RADIUS:
            raise InputError(f"cube noise of rate {self.rate} in {self.size} coordinates does not fit 64-bit integers")
        if self.tries > MOST_TRIES:
            raise InputError(
                f"cube noise of rate {self.rate} in {self.size} coordinates is too narrow for integers; use a larger "
                "scale (a finer integer grid)"
            )

    @property
    def block(self) -> int:
        """Integers in one draw."""
        return self.size

    @property
    def tries(self) -> float:
        """Radii that are drawn for one that is accepted, at most about: e^(size rate / 2), and those until it is 0."""
        rate = float(self.rate)
        wide = self.size * rate / 2
        zero = self.size * math.log(2) + math.lgamma(self.size + 1) - (self.size + 1) * math.log(-math.expm1(-rate))
        return math.exp(min(wide, zero, 700.0))

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers: independent blocks of `size` coordinates."""
        _check_blocks(count, self.block)
        return bits.draw(fill_cubes, count, 16.0, np.uint64(self.block), *_terms(self.rate))

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return (self.size + 1) * (self.size + 2) / (3 * float(self.rate) ** 2)


class Stack(Documented, ABC):
    """Noises side by side: `sizes` integers of each part in one draw of all."""

    parts: tuple[Any, ...]

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Integers of each part."""

    @property
    def block(self) -> int:
        """Integers in one draw of all parts."""
        return sum(self.sizes)

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers: whole draws of all parts, one after the other."""
        draws, rest = divmod(count, self.block)
        if rest:
            raise InputError(f"stacked noise comes in whole draws of {self.block} integers, {count} were asked for")
        pairs = zip(self.parts, self.sizes, strict=True)
        columns = [part.sample(bits, draws * size).reshape(draws, size) for part, size in pairs]
        return np.concatenate(columns, axis=1).reshape(-1)

    @property
    def variance(self) -> float:
        """Largest variance of a coordinate."""
        return float(max(part.variance for part in self.parts))


@dataclass(frozen=True)
class StackedCubes(Stack):
    """Independent blocks of cube noise, one after the other.

    Examples
    --------
    >>> law = StackedCubes((CubeNoise(3, Fraction(1, 100)), CubeNoise(2, Fraction(1, 60))))
    >>> law.block, law.sample(SecureBits.seeded(7), 10).shape
    (5, (10,))
    """

    schema = Schema({"law": "stacked-cubes"}, parts=Many(Nested(CubeNoise.from_document), MOST_PARTS, least=1))
    parts: tuple[CubeNoise, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not self.parts:
            raise InputError("stacked noise needs at least one block")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Integers of each block."""
        return tuple(part.size for part in self.parts)


@dataclass(frozen=True)
class StackedDiscs(Stack):
    """Several structures side by side, each a number of blocks of disc noise at its own rate.

    Parameters
    ----------
    parts : tuple of DiscNoise
        The noise of each structure.
    blocks : tuple of int
        How many blocks of it each structure has.

    Examples
    --------
    >>> law = StackedDiscs((DiscNoise(2, Fraction(1, 100)), DiscNoise(3, Fraction(1, 60))), blocks=(5, 1))
    >>> law.block, law.sample(SecureBits.seeded(7), 52).shape
    (26, (52,))
    """

    schema = Schema(
        {"law": "stacked-discs"},
        parts=Many(Nested(DiscNoise.from_document), MOST_PARTS, least=1),
        blocks=Many(Whole(1, MOST_INTEGERS), MOST_PARTS, least=1),
    )
    parts: tuple[DiscNoise, ...]
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        check_stack(self.parts, self.blocks)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Integers of each structure."""
        return tuple(part.block * count for part, count in zip(self.parts, self.blocks, strict=True))


def check_stack(parts: tuple[Any, ...], blocks: tuple[int, ...]) -> None:
    """Refuse parts that are none, or of which nobody says how many there are."""
    if not parts or len(parts) != len(blocks) or not all(type(count) is int and count >= 1 for count in blocks):
        raise InputError("stacked noise needs at least one structure, each of a positive number of blocks")


def _check(size: int, rate: Fraction) -> None:
    if type(size) is not int or not 1 <= size <= MOST_COORDINATES:
        raise InputError(f"the size of K-norm noise must be a whole number from 1 to 2**24, got {brief(size)}")
    if not isinstance(rate, Fraction) or rate <= 0 or max(rate.numerator, rate.denominator) > 2**56:
        raise InputError(f"the rate must be a positive Fraction with terms up to 2**56, got {brief(rate)}")


def _check_blocks(count: int, block: int) -> None:
    if count % block:
        raise InputError(f"K-norm noise comes in whole blocks of {block} integers, {count} were asked for")


def _terms(rate: Fraction) -> tuple[np.uint64, np.uint64]:
    return np.uint64(rate.numerator), np.uint64(rate.denominator)


# The compiled samplers, whose steps the module's text proves; for their words see `privacy.noise`.


@njit(nogil=True, cache=True)
def _coin(words, at, numerator, denominator):  # type: ignore[no-untyped-def]
    value, at = next_below(words, at, denominator)
    return value < numerator, at


@njit(nogil=True, cache=True)
def _cube_radius(words, at, size, numerator, denominator):  # type: ignore[no-untyped-def]
    """One attempt at a radius with Pr[R] proportional to (2R + 1)^size e^(-rate R): (radius, accepted, position)."""
    radius = _ZERO
    for _ in range(size + _ONE):
        step, _zero, at = next_geometric(words, at, numerator, denominator)
        if at > words.size:
            return radius, False, at
        radius += step
    odd = _TWO * radius + _ONE
    for i in range(_ONE, size + _ONE):
        accepted, at = _coin(words, at, odd, _TWO * (radius + np.uint64(i)))
        if not accepted or at > words.size:
            return radius, False, at
    return radius, True, at


@njit(nogil=True, cache=True)
def fill_cubes(words, out, done, size, numerator, denominator):  # type: ignore[no-untyped-def]
    """Fill with blocks of cube noise."""
    at = 0
    while done < out.size:
        radius, accepted, end = _cube_radius(words, at, size, numerator, denominator)
        if accepted:
            for i in range(done, done + np.int64(size)):
                value, end = next_below(words, end, _TWO * radius + _ONE)
                out[i] = np.int64(value) - np.int64(radius)
        if end > words.size:
            break
        at = end
        if accepted:
            done += np.int64(size)
    return done, at


@njit(nogil=True, cache=True)
def _root(value):  # type: ignore[no-untyped-def]
    """Return floor(sqrt(value)) for value < 2^62, corrected to be exact."""
    root = np.int64(math.sqrt(value))
    while root * root > value:
        root -= 1
    while (root + 1) * (root + 1) <= value:
        root += 1
    return root


@njit(nogil=True, cache=True)
def _disc_pairs(words, at, radius, pairs):  # type: ignore[no-untyped-def]
    """Fill `pairs` uniformly from the octagons, as long as they stay in their discs: (all inside, position)."""
    diagonal = _root(2 * radius * radius)
    odd = np.uint64(2 * radius + 1)
    for i in range(0, pairs.size, 2):
        while True:
            a, at = next_below(words, at, odd)
            b, at = next_below(words, at, odd)
            if at > words.size:
                return False, at
            x, y = np.int64(a) - radius, np.int64(b) - radius
            if abs(x) + abs(y) <= diagonal:
                break
        if x * x + y * y > radius * radius:
            return False, at
        pairs[i], pairs[i + 1] = x, y
    return True, at


@njit(nogil=True, cache=True)
def _octagon_coins(words, at, radius, pairs):  # type: ignore[no-untyped-def]
    """Coins of probability |O_R| / (c (2R + 1)^2), c = 82844 / 100000, one for each pair."""
    corner = np.uint64(2 * radius - _root(2 * radius * radius))
    square = np.uint64(2 * radius + 1) * np.uint64(2 * radius + 1)
    rest = square - _TWO * corner * (corner + _ONE)
    # Long division, 100000 |O_R| = quotient * square + rest, because the product would not fit 64 bits.
    quotient = _ZERO
    for _ in range(5):
        rest *= _TEN
        quotient = quotient * _TEN + rest // square
        rest %= square
    for _ in range(pairs):
        part, at = next_below(words, at, _OCTAGON)
        accepted = part < quotient
        if part == quotient:
            accepted, at = _coin(words, at, rest, square)
        if not accepted or at > words.size:
            return False, at
    return True, at


@njit(nogil=True, cache=True)
def fill_discs(words, out, done, size, numerator, denominator):  # type: ignore[no-untyped-def]
    """Fill with blocks of disc noise."""
    at = 0
    block = np.int64(size)
    while done < out.size:
        radius, accepted, end = _cube_radius(words, at, size, numerator, denominator)
        accepted = accepted and _ZERO < radius < np.uint64(LARGEST_RADIUS)
        if accepted:
            accepted, end = _octagon_coins(words, end, np.int64(radius), block // 2)
        if accepted:
            accepted, end = _disc_pairs(words, end, np.int64(radius), out[done : done + block])
        if end > words.size:
            break
        at = end
        if accepted:
            done += block
    return done, at
