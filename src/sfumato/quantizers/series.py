"""Fourier series of a separable kernel's factors on intervals, and the modes of largest coefficients of their product.

See `quantizers.lattice`, whose text has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sfumato.kernels import ShiftInvariantKernel
from sfumato.quantizers.base import Floats, Integers

SAMPLES = 2**13  # of a period, of which coefficients are made
MOST_MODE = SAMPLES // 4
IMAGES = 8  # of the kernel on either side, where it is wrapped
# Lengths beyond the bounds, in bandwidths, after which the series repeats itself; None folds the kernel.
MARGINS = (2.4, 2.8, 3.2, 3.6, 4.0, 4.5, 5.0, 6.0, 8.0, 12.0, None)


@dataclass(frozen=True)
class Series:
    """One column's function of a period, as a sum of cosines.

    Attributes
    ----------
    coefficients : ndarray
        c_0, c_1, ..., of the mean over j and -j of cosines.
    error : float
        Largest difference from the kernel's factor on [-B, B].
    """

    coefficients: Floats
    error: float

    @property
    def absolute(self) -> float:
        """Sum of |c_j| over all whole j."""
        return float(2 * np.abs(self.coefficients).sum() - abs(self.coefficients[0]))

    @property
    def squares(self) -> float:
        """Sum of c_j^2 over all whole j."""
        return float(2 * np.square(self.coefficients).sum() - self.coefficients[0] ** 2)


@lru_cache(maxsize=256)
def series(kernel: ShiftInvariantKernel, extent: float, period: float) -> Series:
    """Expand a separable kernel's factor for points `extent` bandwidths apart at most.

    Parameters
    ----------
    kernel : ShiftInvariantKernel
        Separable.
    extent, period : float
        B and L, in bandwidths; 2 B and more fold the kernel, less wraps it.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> found = series(Gaussian(1.0), 6.0, 9.2)
    >>> found.coefficients[:2].round(4), round(found.error, 6)
    (array([0.1927, 0.1715]), 3.6e-05)
    """
    places = np.arange(SAMPLES, dtype=np.float64) * np.float64(period / SAMPLES)
    if period >= 2 * extent:
        values = kernel.column_profile(np.minimum(places, period - places))
        error = 0.0
    else:
        shifts = np.arange(-IMAGES, IMAGES + 1, dtype=np.float64) * np.float64(period)
        images = places[:, None] + shifts
        values = kernel.column_profile(images).sum(axis=1)
        inside = places <= extent
        error = float(np.abs(values[inside] - kernel.column_profile(places[inside])).max())
        edge = kernel.column_profile(extent + shifts).sum()
        error = max(error, abs(float(edge - kernel.column_profile(np.array([extent]))[0])))
    coefficients = np.fft.rfft(values).real[: MOST_MODE + 1] / SAMPLES
    coefficients.setflags(write=False)
    return Series(coefficients, error)


def products(parts: list[Series], modes: Integers) -> Floats:
    """Coefficients of modes, shape (modes, columns): the product over the columns."""
    found = np.ones(len(modes))
    for part, column in zip(parts, np.abs(modes).T, strict=True):
        found *= part.coefficients[column]
    return found


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of one choice of periods, those of large coefficients first.

    Attributes
    ----------
    periods : tuple of float
        L of each column.
    modes, coefficients : ndarray
        One of each j and -j.
    constant, absolute, squares, wrapped : float
        Coefficient of the mode 0, sums of |c_j| and of c_j^2 over all other modes, and the error of wrapping.
    """

    periods: tuple[float, ...]
    modes: Integers
    coefficients: Floats
    constant: float
    absolute: float
    squares: float
    wrapped: float

    def missed(self, kept: Floats, kept_squares: Floats, density: float) -> Floats:
        """Typical mean square of what an answer of this size misses, see `lattice`, beside modes of these sums.

        Parameters
        ----------
        kept, kept_squares : ndarray
            Sums of |c_j| and of c_j^2 over the pairs that are kept.
        density : float
            Mean square root of the answers.
        """
        lost = np.maximum(self.absolute - 2 * kept, 0.0) / (self.absolute + abs(self.constant))
        even = np.maximum(self.squares - 2 * kept_squares, 0.0)
        return np.asarray(even + np.square(lost**2 * density) + self.wrapped**2)


@lru_cache(maxsize=64)
def modes(kernel: ShiftInvariantKernel, extents: tuple[float, ...], margin: float | None, most: int) -> Modes:
    """Find the `most` modes of largest coefficients; without a margin the kernel is folded, not wrapped."""
    periods = tuple(2 * extent if margin is None else min(extent + margin, 2 * extent) for extent in extents)
    parts = [series(kernel, *sides) for sides in zip(extents, periods, strict=True)]
    found = _largest(parts, 2 * most + 1)
    # One of each j and -j, where ties may have cut off the other.
    signs = [next((1 if j > 0 else -1 for j in mode if j), 0) for mode in found.tolist()]
    kept = np.unique(found[np.array(signs) != 0] * np.array([[sign] for sign in signs if sign]), axis=0)
    values = products(parts, kept)
    order = np.argsort(-np.abs(values), kind="stable")[:most]
    constant = math.prod(float(part.coefficients[0]) for part in parts)
    absolute = math.prod(part.absolute for part in parts) - abs(constant)
    squares = math.prod(part.squares for part in parts) - constant**2
    wrapped = math.prod(1 + part.error for part in parts) - 1
    return Modes(periods, kept[order], values[order], constant, absolute, squares, wrapped)


def _largest(parts: list[Series], most: int) -> Integers:
    """Modes of the `most` largest products, column by column.

    Of sorted lists, the products of the a-th and the b-th are needed for a b up to `most` alone: each has a b - 1
    others that are not smaller.
    """
    found, values = np.zeros((1, 0), dtype=np.int64), np.ones(1)
    for part in parts:
        numbers = np.arange(-MOST_MODE, MOST_MODE + 1)
        sizes = np.abs(part.coefficients[np.abs(numbers)])
        order = np.argsort(-sizes, kind="stable")[:most]
        numbers, sizes = numbers[order], sizes[order]
        lengths = np.minimum(most // np.arange(1, len(found) + 1), len(numbers))
        rows = np.repeat(np.arange(len(found)), lengths)
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        grid = values[rows] * sizes[columns]
        chosen = np.argsort(-grid, kind="stable")[:most]
        found, values = np.hstack([found[rows[chosen]], numbers[columns[chosen], None]]), grid[chosen]
    return found
