"""The laws of devices for many people at once, from the same exact integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.compiled import njit
from sfumato.local.odds import Window
from sfumato.local.sphere import SphereNoise
from sfumato.privacy.bits import SecureBits, Words
from sfumato.privacy.noise import DiscreteGaussian, geometric
from sfumato.quantizers.base import Floats, Integers

LARGEST_HALF = 2**31


def directions(points: Floats) -> Floats:
    """Do to many points what `promises.direction` does to one, bit for bit.

    Examples
    --------
    >>> directions(np.array([[6.0, 8.0], [0.0, np.nan]]))
    array([[0.6, 0.8],
           [1. , 0. ]])
    """
    largest = np.abs(points).max(axis=1, keepdims=True)
    good = (largest > 0) & np.isfinite(points).all(axis=1, keepdims=True)
    shares = np.where(good, points, np.arange(points.shape[1]) == 0) / np.where(good, largest, 1.0)
    squares = np.cumsum(shares * shares, axis=1)[:, -1:]  # from the first column to the last, unlike `sum`
    return np.asarray(shares / np.sqrt(squares), dtype=np.float64)


def draw_windows(law: Window, starts: Integers, bits: SecureBits) -> Integers:
    """Draw an output for each start, independently: the law of `Window.draw`.

    Examples
    --------
    >>> from sfumato.local.odds import Odds
    >>> draw_windows(Window(4, 1, Odds(3, 1)), np.array([2, 2, 0]), SecureBits.seeded(7))
    array([1, 2, 0])
    """
    numbers = _below(law.total, starts.size, bits).reshape(starts.shape)
    others = (numbers - law.inside) // law.odds.unit
    others += law.width * (others >= starts)
    return np.where(numbers < law.inside, starts + numbers // law.odds.heads, others)


def _below(bound: int, count: int, bits: SecureBits) -> Integers:
    """Exactly uniform integers; two from a word where the bound allows, because sketches need very many."""
    if bound > LARGEST_HALF:
        return bits.below(bound, count)
    return bits.draw(_fill_halves, count, 0.5, np.uint64(bound))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_halves(words: Words, out: Integers, done: int, bound: np.uint64) -> tuple[int, int]:
    small = np.uint32(bound)
    limit = np.uint32(2**32 // bound * bound - 1)  # halves above it would favour small integers: draw again
    at = 0
    while at < words.size and done < out.size:
        word = words[at]
        at += 1
        low, high = np.uint32(word & np.uint64(0xFFFFFFFF)), np.uint32(word >> np.uint64(32))
        if low <= limit:
            out[done] = low % small
            done += 1
        if high <= limit and done < out.size:
            out[done] = high % small
            done += 1
    return done, at


def rounded_at_random(numerators: Integers, denominator: int, bits: SecureBits) -> Integers:
    """Round fractions to whole numbers without bias, by one exact coin each."""
    coins = bits.below(denominator, numerators.size).reshape(numerators.shape)
    return numerators // denominator + (coins < numerators % denominator)


def draw_spheres(law: SphereNoise, count: int, bits: SecureBits) -> Integers:
    """Draw noise vectors, shape (count, dimension): the law of `SphereNoise.draw`.

    A coin of probability exp(-a / b) is a geometric variable of rate 1 / b that is at least a. Shells are worked
    through one radius after another, because samplers take one sigma.

    Examples
    --------
    >>> draw_spheres(SphereNoise(2, Fraction(1, 5)), 1000, SecureBits.seeded(7)).shape
    (1000, 2)
    """
    size = law.dimension
    out = np.empty((count, size), dtype=np.int64)
    missing = np.arange(count)
    while missing.size:
        shells = law.first_shell + geometric(bits, missing.size * (size + 1), law.mu).reshape(-1, size + 1).sum(axis=1)
        order = np.argsort(shells, kind="stable")
        radii, starts = np.unique(shells[order], return_index=True)
        kept = np.zeros(missing.size, dtype=bool)
        for radius, places in zip(radii.tolist(), np.split(order, starts[1:]), strict=True):
            noise = DiscreteGaussian(radius).sample(bits, places.size * size).reshape(-1, size)
            short = size * radius**2 - np.square(noise).sum(axis=1)
            coins = geometric(bits, places.size, Fraction(1, 2 * radius**2))
            good = (short >= 0) & (coins >= short)
            kept[places[good]] = True
            out[missing[places[good]]] = noise[good]
        missing = missing[~kept]
    return out
