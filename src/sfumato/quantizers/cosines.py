"""Integer cosines of integer phases, and the hot loops that sum them.

The limit of the exact Fourier sum is the float64 matrix product plus one table look-up per cosine (about 0.7 ns).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sfumato.errors import InputError

TABLE_BITS = 12


def pair_l1(radius: int) -> int:
    """Largest |a| + |b| of integers with a^2 + b^2 <= radius^2: floor(sqrt(2) radius) is an upper bound."""
    return math.isqrt(2 * radius * radius)


def check_radius(radius: int) -> None:
    """Refuse a radius that has no table."""
    if not 2 <= radius < 2**30:
        raise InputError(f"radius must be an integer from 2 to 2**30, got {radius}")


def cosine_table(radius: int, bits: int = TABLE_BITS) -> NDArray[np.int32]:
    """Integer cosines at the centres of 2**bits cells of a turn, with every (cos, sin) pair inside the radius.

    Rounding (radius - 1) cos to the nearest integer moves a pair by at most sqrt(1/2) < 1, so it stays within `radius`;
    rounding radius * cos itself would leave the circle for half of all angles.
    """
    check_radius(radius)
    cells = 1 << bits
    table = np.rint((radius - 1) * np.cos(2 * np.pi * (np.arange(cells) + 0.5) / cells)).astype(np.int64)
    sine = table[(np.arange(cells) - cells // 4) % cells]
    if (table**2 + sine**2 > radius**2).any():
        raise AssertionError("a table entry leaves the disc")
    return np.asarray(table, dtype=np.int32)


def table_gain(table: NDArray[np.int32]) -> float:
    """First harmonic of an integer cosine table: the amplitude that decodes it without bias."""
    turns = (np.arange(len(table)) + 0.5) / len(table)
    return float(2 * np.mean(table * np.cos(2 * np.pi * turns)))


def pair_amplitudes(sums: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths and shifts (in turns) with a cos(p) + b sin(p) = length * cos(p - shift) for interleaved pairs (a, b)."""
    pairs = sums.reshape(-1, 2)
    return np.hypot(pairs[:, 0], pairs[:, 1]), np.arctan2(pairs[:, 1], pairs[:, 0]) / (2 * np.pi)


@njit(nogil=True, cache=True)
def add_cosines(bits, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add the table's cosine of every phase (its bits shifted down to a table cell) to the sum of its column."""
    mask = len(table) - 1
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            sums[j] += table[(bits[i, j] >> shift) & mask]


@njit(nogil=True, cache=True)
def add_pairs(bits, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add cosine and sine of every phase to the two sums of its column."""
    mask = len(table) - 1
    quarter = len(table) // 4
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            cell = (bits[i, j] >> shift) & mask
            sums[2 * j] += table[cell]
            sums[2 * j + 1] += table[(cell - quarter) & mask]


@njit(nogil=True, cache=True)
def cosine_terms(turns, lengths, shifts):  # type: ignore[no-untyped-def]
    """Replace turns[i, j] by lengths[j] * cos(2 pi (turns[i, j] - shifts[j])), accurate to 1e-9."""
    for i in range(turns.shape[0]):
        for j in range(turns.shape[1]):
            t = turns[i, j] - shifts[j]
            t = abs(t - np.rint(t))
            # cos(2 pi t) = sin(2 pi (1/4 - t)), an odd series on a quarter turn each way
            u = 6.283185307179586 * (0.25 - t)
            s = u * u
            sine = s * -7.647163731819816e-13 + 1.6059043836821613e-10
            sine = s * sine - 2.505210838544172e-08
            sine = s * sine + 2.7557319223985893e-06
            sine = s * sine - 1.984126984126984e-04
            sine = s * sine + 8.333333333333333e-03
            sine = s * sine - 1.6666666666666666e-01
            turns[i, j] = lengths[j] * (u + u * s * sine)
