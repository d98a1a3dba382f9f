"""Gradients of the softmax loss as bounded integers: what one record adds to a step of rule "linear".

A labelled point becomes x = (f, b): f the point minus the public centre, in units of the radius, rounded into the ball
of integers no longer than the scale s (`quantizers.clamping`), and b = floor(s / 4), which stands for the intercept.
With the public whole weights W of a step (fixed point, unit 2^-16) the scores x . W_k are whole numbers; the softmax
of their differences to the highest one is read from a table of 2^20 exp(-a), a on a grid of 1/256; the shares p are
whole numbers in units of 1 / q, and r = p - q e_label is cut to |r|_2 <= q. The record adds the integers x r^T.

Law 1. All of it is exact: |x . W_k| <= |x|_2 |W_k|_2 < 2^53, and so is every partial sum, in any order; sums over a
block of rows stay below 2^53 too. So matrix products in float64 give the true integers, whatever the rows beside, the
block or the machine, and each row alone decides its integers. The table is portable arithmetic.

Bound. |x r^T|_2 = |x|_2 |r|_2 <= sqrt(s^2 + b^2) q, by hard clamps on integers, whatever the values and the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public import portable
from sfumato.public.codec import Documented, Nested, Real, Schema
from sfumato.public.ranges import LARGEST_LENGTH, SMALLEST_LENGTH
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import LARGEST_NUMBER, round_into_ball

SCALE = 2**12  # s: rounding moves a point of 1,000 columns by less than half a percent of the radius
INTERCEPT = SCALE // 4
WEIGHT_BITS = 16
LARGEST_WEIGHT = 2**30  # with 2^18 columns, |x| |W_k| < 2^12.1 2^30 2^9
MOST_COLUMNS = 2**18
LARGEST_SHARE = 2**12  # the largest q
BLOCK_ROWS = 1 << 13
_GRID_BITS, _TABLE_BITS = 8, 20
_SHIFT = SCALE.bit_length() - 1 + WEIGHT_BITS - _GRID_BITS


@cache
def _exponentials() -> Integers:
    """2^20 exp(-a) at a = 0, 1/256, ...; what is left out rounds to 0."""
    places = np.arange(15 << _GRID_BITS, dtype=np.float64) / (1 << _GRID_BITS)
    return np.rint(np.ldexp(portable.exp(-places), _TABLE_BITS)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Features(Documented):
    """What a point becomes: whole numbers (f, b), see the module's text.

    Attributes
    ----------
    box : Box
        Where points may lie.
    center : ndarray
        Public point that is taken off.
    radius : float
        Points farther from the centre are brought to this distance.

    Examples
    --------
    >>> features = Features.within(None, np.array([0.5, 0.0]), 1.0)
    >>> features.integers(np.array([[0.5, 0.5], [3.5, 4.0]]))
    array([[   0, 2046, 1024],
           [2457, 3276, 1024]])
    """

    box: Box
    center: Floats
    radius: float

    schema = Schema(box=Nested(Box.from_document), radius=Real(SMALLEST_LENGTH, LARGEST_LENGTH))

    def __post_init__(self) -> None:
        if self.center.shape != (self.box.dimension,) or not (np.abs(self.center) <= LARGEST_NUMBER).all():
            raise InputError(f"the centre must be {self.box.dimension} finite numbers, one a column")
        if self.box.dimension > MOST_COLUMNS:
            raise InputError(f"rule 'linear' is for up to {MOST_COLUMNS} columns, got {self.box.dimension}")

    @classmethod
    def within(cls, box: Box | None, center: Floats, radius: float) -> Features:
        """Take points in a box, or any finite ones."""
        box = Box.centred([LARGEST_NUMBER] * len(center), "clip") if box is None else box
        return cls(box, np.asarray(center, dtype=np.float64), float(radius))

    @property
    def size(self) -> int:
        """Integers of one point."""
        return self.box.dimension + 1

    @property
    def l2_squared(self) -> int:
        """Largest sum of squares of a point's integers."""
        return SCALE**2 + INTERCEPT**2

    def kept(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which rows are kept."""
        values = np.asarray(rows, dtype=np.float64)
        return np.asarray(np.isfinite(values).all(axis=1) if self.box.outside == "clip" else self.box.holds(values))

    def integers(self, rows: NDArray[Any]) -> Integers:
        """Integers of the kept rows."""
        return self.encode(rows[self.kept(rows)]).astype(np.int64)

    def encode(self, rows: NDArray[Any]) -> Floats:
        """Integers of rows that are all kept, in float64, in which they are multiplied."""
        encoded = np.empty((len(rows), self.size))
        amplitude = float(SCALE - 1 - math.ceil(math.sqrt(self.box.dimension)))  # room for rounding, as in `Ball`
        lower, upper = np.array(self.box.lower), np.array(self.box.upper)
        _encode(np.ascontiguousarray(rows), lower, upper, self.center, self.radius, max(1.0, amplitude), encoded)
        return encoded


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums of the integers of all points whose label is a class, for the centre and the number of records."""

    features: Features

    @property
    def size(self) -> int:
        """Integers of a point."""
        return self.features.size

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the integers of coded rows."""
        kept = 0
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows[start : start + BLOCK_ROWS]
            encoded = self.features.integers(block[block[:, -1] >= 0, :-1])
            sums += encoded.sum(axis=0)
            kept += len(encoded)
        return kept


@dataclass(frozen=True, eq=False)
class Gradient:
    """Sums of the gradients of coded rows (points with the place of their class behind) at public weights.

    Attributes
    ----------
    features : Features
        What a point becomes.
    weights : ndarray of int64, shape (features, classes)
        W, within `LARGEST_WEIGHT`.
    share : int
        q.

    Examples
    --------
    >>> features = Features.within(None, np.zeros(1), 1.0)
    >>> step = Gradient(features, np.zeros((2, 2), dtype=np.int64), 8)
    >>> step.encode(np.array([[1.0, 0]]))
    array([[-16376,  16376,  -4096,   4096]])
    """

    features: Features
    weights: Integers
    share: int

    def __post_init__(self) -> None:
        if np.abs(self.weights).max() > LARGEST_WEIGHT or not 1 <= self.share <= LARGEST_SHARE:
            raise InputError("weights or shares are too large for exact scores")

    @property
    def size(self) -> int:
        """Integers of a gradient."""
        return int(self.weights.size)

    @property
    def l2_squared(self) -> int:
        """Largest sum of squares of one record's integers."""
        return self.features.l2_squared * self.share**2

    def _parts(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Points x and residuals r of the kept rows, whole numbers in float64."""
        labels = rows[:, -1]
        rows = rows[(labels >= 0) & (labels < self.weights.shape[1]) & self.features.kept(rows[:, :-1])]
        points, codes = self.features.encode(rows[:, :-1]), rows[:, -1].astype(np.int64)
        residuals = np.empty((len(points), self.weights.shape[1]))
        _residuals(points @ self.weights.astype(np.float64), codes, _exponentials(), _SHIFT, self.share, residuals)
        return points, residuals

    def encode(self, rows: NDArray[Any]) -> Integers:
        """Integers of each kept row, one by one; `accumulate` adds them up without making them."""
        points, residuals = self._parts(rows)
        outer = points[:, :, None] * residuals[:, None, :]
        return np.asarray(outer.reshape(len(points), self.size).astype(np.int64))

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the gradients of coded rows; 2^13 rows of products below 2^25 stay far below 2^53."""
        kept = 0
        for start in range(0, len(rows), BLOCK_ROWS):
            points, residuals = self._parts(rows[start : start + BLOCK_ROWS])
            sums += (points.T @ residuals).astype(np.int64).ravel()
            kept += len(points)
        return kept


@njit(nogil=True, cache=True)
def _encode(rows, lower, upper, center, radius, amplitude, encoded):  # type: ignore[no-untyped-def]
    columns = rows.shape[1]
    values, whole = np.empty(columns), np.empty(columns, dtype=np.int64)
    for i in range(rows.shape[0]):
        largest = 1.0
        for j in range(columns):
            values[j] = (min(max(np.float64(rows[i, j]), lower[j]), upper[j]) - center[j]) / radius
            largest = max(largest, abs(values[j]))
        for j in range(columns):
            values[j] /= largest  # so that no coordinate is cut, and a long record keeps its direction
        round_into_ball(values, amplitude, SCALE, whole)
        for j in range(columns):
            encoded[i, j] = whole[j]
        encoded[i, columns] = INTERCEPT


@njit(nogil=True, cache=True)
def _residuals(scores, codes, table, shift, share, residuals):  # type: ignore[no-untyped-def]
    classes = scores.shape[1]
    parts = np.empty(classes, dtype=np.int64)
    for i in range(scores.shape[0]):
        highest = np.int64(scores[i].max())
        total = 0
        for k in range(classes):
            place = (highest - np.int64(scores[i, k])) >> shift
            parts[k] = table[place] if place < len(table) else 0
            total += parts[k]
        length = 0
        for k in range(classes):
            parts[k] = (2 * parts[k] * share + total) // (2 * total)  # the share, rounded to the nearest
            if k == codes[i]:
                parts[k] -= share
            length += parts[k] * parts[k]
        if length > share * share:
            root = int(np.sqrt(float(length)))
            while root * root < length:
                root += 1
            for k in range(classes):
                shrunk = abs(parts[k]) * share // root
                parts[k] = shrunk if parts[k] > 0 else -shrunk
        for k in range(classes):
            residuals[i, k] = parts[k]
