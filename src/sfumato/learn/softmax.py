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

A trained linear classifier: public weights, what they are applied to, and its part of a classifier's file.

Header: ``{"features", "steps", "weight_error", "loss", "guarantee", "columns", "written_by"}``; arrays ``weights``
(whole, one column a class, the intercept's row last) and ``center``. Everything is a function of what was published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.loss import Loss
from sfumato.public import portable
from sfumato.public.codec import Documented, Many, Nested, Object, Optional, Real, Schema, Text, Whole
from sfumato.public.ranges import LARGEST_LENGTH, SMALLEST_LENGTH
from sfumato.quantizers.base import Floats, Integers, within
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import LARGEST_NUMBER, round_into_ball
from sfumato.version import __version__

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
        if self.center.shape != (self.box.dimension,) or not within(self.center, LARGEST_NUMBER):
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
        if not within(self.weights, LARGEST_WEIGHT) or not 1 <= self.share <= LARGEST_SHARE:
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


ARRAYS = {"weights", "center"}
_SCHEMA = Schema(
    features=Object(),
    steps=Whole(1, 10**6),
    weight_error=Real(0.0, 1e300),
    loss=Nested(Loss.from_document),
    guarantee=Nested(Guarantee.from_document),
    columns=Optional(Many(Text(), most=2**20)),
    written_by=Text(longest=100),
)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Public weights of a softmax classifier.

    Attributes
    ----------
    features : Features
        What a point becomes.
    weights : ndarray of int64, shape (columns + 1, classes)
        Fixed point, unit 2^-16.
    steps : int
        How many gradients they are made of.
    weight_error : float
        Deviation of the noise in one weight, at most.
    loss : Loss
        What all steps reveal together.
    guarantee : Guarantee
        What is promised.
    columns : tuple of str or None
        Names of the points' columns.
    """

    features: Features
    weights: Integers
    steps: int
    weight_error: float
    loss: Loss
    guarantee: Guarantee
    columns: tuple[str, ...] | None = None
    written_by: str = f"sfumato {__version__}"

    @property
    def dimension(self) -> int:
        """Columns of a point."""
        return self.features.size - 1

    def scores(self, points: Floats) -> Floats:
        """Logits of each class, shape (points, classes)."""
        return np.asarray(self._features(points) @ np.ldexp(self.weights.astype(np.float64), -WEIGHT_BITS))

    def errors(self, points: Floats) -> Floats:
        """Return the standard deviation that noise adds to a score of each point."""
        return np.asarray(self.weight_error * np.linalg.norm(self._features(points), axis=1))

    def _features(self, points: Floats) -> Floats:
        """Points as numbers; those outside a box that drops records are read at its edge."""
        inside = np.clip(points, np.array(self.features.box.lower), np.array(self.features.box.upper))
        return np.asarray(self.features.integers(inside) / SCALE)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the header's part and the arrays."""
        return _SCHEMA.write(self), {"weights": self.weights, "center": self.features.center}

    @classmethod
    def from_document(cls, document: Any, arrays: dict[str, NDArray[Any]], classes: int) -> LinearModel:
        """Read and check what `to_document` gave."""
        fields = _SCHEMA.read(document, "linear")
        if set(arrays) != ARRAYS:
            raise ReleaseFileError("a linear classifier holds the arrays weights and center, and no others")
        weights, center = arrays["weights"], arrays["center"]
        if weights.dtype.kind != "i" or center.dtype.kind != "f" or center.ndim != 1:
            raise ReleaseFileError("weights must be whole numbers and the centre a list of real ones")
        if weights.shape != (len(center) + 1, classes) or not within(weights, LARGEST_WEIGHT):
            raise ReleaseFileError("weights must be one for each class and column, and one for its intercept")
        parts = Features.schema.read(fields.pop("features"), "linear.features")
        features = Features(parts["box"], center, parts["radius"])
        if fields["columns"] is not None and len(fields["columns"]) != len(center):
            raise InputError(f"the classifier names {len(fields['columns'])} columns and has {len(center)}")
        return cls(features=features, weights=weights, **fields)
