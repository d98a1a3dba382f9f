"""Integers of a point as bits: each coordinate of a quantizer is rounded at random to one end of its range.

Source: the randomizer of Algorithm 1 in Wagner (2025). A coordinate v from -L to L becomes 1 with
probability (v + L) / (2 L), a rational number, tossed exactly; counters of hash functions, 0 or 1, are bits already.
The guarantee of the bit sums covers the rounding: the view is a mixture over the coins of the rounding, and (epsilon,
delta) is jointly convex.

Number of bits in which two points differ at most, which is the number of instances that compose: all coordinates, or
two of every row of hash counters, the one that is left and the one that is entered.

Variance of a rounded sum of n points: the sum of L^2 - v^2, at most n L^2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.quantizers import HashingQuantizer, Quantizer
from sfumato.quantizers.base import Floats

BLOCK_BITS = 1 << 21


@dataclass(frozen=True, eq=False)
class BitFeatures:
    """A quantizer whose coordinates are sent as bits.

    Attributes
    ----------
    quantizer : Quantizer
        The integers.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers import FourierQuantizer
    >>> features = BitFeatures(FourierQuantizer.draw(Gaussian(1.0), dimension=2, terms=3, seed=7))
    >>> features.bits(np.zeros((1, 2)), SecureBits.seeded(1))
    array([[0, 1, 0, 0, 0, 0]])
    """

    quantizer: Quantizer

    @property
    def instances(self) -> int:
        """Bits of one point."""
        return self.quantizer.size

    @property
    def binary(self) -> bool:
        """Whether the coordinates are bits already."""
        return isinstance(self.quantizer, HashingQuantizer)

    @property
    def largest(self) -> int:
        """L, or what a bit stands for where coordinates are bits."""
        return self.quantizer.bound.largest

    @property
    def changed(self) -> int:
        """Bits in which two points may differ."""
        if self.binary:
            assert self.quantizer.bound.touched is not None
            return 2 * self.quantizer.bound.touched
        return self.instances

    @property
    def ones(self) -> int:
        """Bits of a point that may be 1."""
        return self.changed // 2 if self.binary else self.instances

    def points(self, X: Any) -> NDArray[np.float64]:
        """Return points inside the public box: finite values are clipped to it, others count as its middle."""
        try:
            points = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("points must be numbers, one row per participant") from None
        box = self.quantizer.box
        if points.ndim != 2 or points.shape[1] != box.dimension:
            raise InputError(f"points must have shape (participants, {box.dimension}), got {points.shape}")
        return np.clip(np.where(np.isfinite(points), points, box.centre), np.array(box.lower), np.array(box.upper))

    def bits(self, points: NDArray[np.float64], secure: SecureBits) -> Integers:
        """Round the coordinates of points from `points`, one row each."""
        encoded = self.quantizer.encode(points)
        if self.binary:
            return encoded // self.largest
        uniform = secure.below(2 * self.largest, encoded.size).reshape(encoded.shape)
        return (uniform < encoded + self.largest).astype(np.int64)

    def blocks(self, points: NDArray[np.float64], secure: SecureBits) -> Iterator[Integers]:
        """Give the bits of many points, some at a time."""
        rows = max(1, BLOCK_BITS // self.instances)
        for start in range(0, len(points), rows):
            yield self.bits(points[start : start + rows], secure)

    def sums(self, bit_sums: Floats, participants: int) -> Integers:
        """Turn (estimated) sums of bits into sums of the coordinates, as whole numbers."""
        if self.binary:
            return np.rint(self.largest * bit_sums).astype(np.int64)
        return np.rint(self.largest * (2 * bit_sums - participants)).astype(np.int64)

    def variance(self, bit_sum_variance: float, participants: float, rounded: float = 1.0) -> float:
        """Variance of a published sum; `rounded` is the mean of 1 - (v / L)^2 over points and coordinates."""
        if self.binary:
            return self.largest**2 * bit_sum_variance
        return self.largest**2 * (4 * bit_sum_variance + participants * rounded)
