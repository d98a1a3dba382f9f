"""Records as bounded integers: hard clamps, rows that a box keeps, vectors in a ball.

Rows with a value that is not a finite number are dropped before they get here, and the stated limits of public
parameters (`public.ranges`) keep what is computed from the others finite. The clamps do not rest on that: a number
that is none counts as the lower end (0 in a ball), and nothing is converted to an integer that is not known to fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import InnerProduct
from sfumato.public.codec import Documented, Nested, Schema, Whole
from sfumato.quantizers.base import Floats, Integers, Known, Reading
from sfumato.quantizers.box import Box


@njit(reads=True, nogil=True, cache=True)
def held(value, low, high):  # type: ignore[no-untyped-def]
    """Convert to a whole number from `low` to `high`, both below 2^53, rounding towards 0; what is no number is `low`.

    Examples
    --------
    >>> held(2.7, 0, 9), held(1e300, 0, 9), held(float("nan"), 0, 9)
    (2, 9, 0)
    """
    if not value > low:
        return np.int64(low)
    return np.int64(high) if value >= high else np.int64(value)


@njit(nogil=True, cache=True)
def round_into_ball(values, unit, scale, encoded):  # type: ignore[no-untyped-def]
    """Round `unit * values` to integers of squared length at most scale^2, in place of `encoded`; return that square.

    With N the squared length after rounding, N > scale^2 turns every |f_j| into floor(|f_j| scale / ceil(sqrt(N))), so
    that the new square is at most scale^2 N / ceil(sqrt(N))^2 <= scale^2, whatever the values were.
    """
    length = 0
    for j in range(len(values)):
        value = values[j] * unit
        rounded = held(np.rint(value), -scale, scale) if value == value else 0
        encoded[j] = rounded
        length += rounded * rounded
    if length > scale * scale:
        root = int(np.sqrt(float(length)))
        while root * root < length:
            root += 1
        length = 0
        for j in range(len(values)):
            shrunk = abs(encoded[j]) * scale // root
            encoded[j] = shrunk if encoded[j] > 0 else -shrunk
            length += shrunk * shrunk
    return length


def kept_rows(box: Box, rows: NDArray[Any]) -> Floats:
    """Rows that the box keeps, as float64, with finite values outside clipped to the edge (or their rows dropped).

    Examples
    --------
    >>> kept_rows(Box((0.0,), (1.0,)), np.array([[0.5], [np.nan], [7.0]])).ravel()
    array([0.5, 1. ])
    """
    values = np.asarray(rows, dtype=np.float64)
    keep = np.isfinite(values).all(axis=1) if box.outside == "clip" else box.holds(values)
    return np.clip(values[keep], np.array(box.lower), np.array(box.upper))


def whole_within(values: Floats, low: Any, high: Any) -> Integers:
    """Convert to whole numbers within limits (numbers, or one a column), as `clamping.held` does one by one.

    Examples
    --------
    >>> whole_within(np.array([2.7, 1e300, np.nan]), 0, 9)
    array([2, 9, 0])
    """
    return np.asarray(np.clip(np.where(np.isnan(values), low, values), low, high).astype(np.int64))


def midpoints(low: float, high: float, count: int) -> Floats:
    """Middles of `count` equal parts of an interval, where averages over it are taken."""
    return low + (high - low) * (np.arange(count) + 0.5) / count


def raised_bias(reading: Reading, density: float, known: Known) -> Reading:
    """Raise a bias stated for one density to that of the answer, where the answer is larger."""
    answers = np.abs(reading.total) / known.count
    return replace(reading, bias=reading.bias * np.maximum(answers / density, 1.0))


def relative_misfit(exact: Floats, mixed: Floats, approximate: Floats) -> Floats:
    """``|k - f.g| / |k|`` from the squared norms ``<k, k>``, ``<k, f.g>`` and ``<f.g, f.g>``, entry by entry.

    For products over the columns each of the three is the product of the columns' own.
    """
    miss = np.maximum(exact - 2 * mixed + approximate, 0.0)
    return np.asarray(np.sqrt(miss / np.maximum(exact, np.finfo(np.float64).tiny)))


LARGEST_SCALE = 2**20
LARGEST_NUMBER = 2.0**300


@dataclass(frozen=True, eq=False)
class Ball(Documented):
    """Records no longer than a radius, as integers no longer than a scale.

    Attributes
    ----------
    box : Box
        Where values may lie before a record is scaled; see `Ball.around`.
    radius : float
        Public length of the longest records.
    scale : int
        s.
    """

    box: Box
    radius: float
    scale: int

    schema = Schema(
        box=Nested(Box.from_document), radius=InnerProduct.schema.fields["radius"], scale=Whole(1, LARGEST_SCALE)
    )

    def __post_init__(self) -> None:
        InnerProduct(self.radius)
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise InputError(f"scale must lie between 1 and {LARGEST_SCALE}, got {self.scale}")

    @classmethod
    def around(
        cls, kernel: InnerProduct, dimension: int, scale: int, bounds: Any = None, outside: str = "clip"
    ) -> Ball:
        """Take the ball of a kernel's radius, within bounds if there are any."""
        if bounds is None:
            return cls(Box.centred([LARGEST_NUMBER] * dimension, outside), kernel.radius, scale)
        return cls(Box.from_bounds(bounds, dimension, outside), kernel.radius, scale)

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return self.box.dimension

    @property
    def amplitude(self) -> float:
        """What stands for the radius: less than the scale by as much as two roundings can add to the length."""
        return float(max(1, self.scale - 1 - math.ceil(math.sqrt(self.dimension))))

    @property
    def l1(self) -> int:
        """Largest l1 norm of a vector in the ball."""
        return math.isqrt(self.dimension * self.scale**2)

    def condition(self) -> str:
        """Say what happens to long records, for the guarantee."""
        return f"records longer than {self.radius:g} are scaled down to that length"

    def integers(self, rows: NDArray[Any]) -> Integers:
        """Integers of the kept rows."""
        kept = kept_rows(self.box, rows)
        encoded = np.empty(kept.shape, dtype=np.int64)
        _into_ball(kept / self.radius, self.amplitude, self.scale, encoded)
        return encoded

    @classmethod
    def for_kernel(cls, document: Any, kernel: InnerProduct) -> Ball:
        """Read a release's ball, which must be the kernel's."""
        ball = cls.from_document(document, "quantizer.ball")
        if kernel.radius != ball.radius:
            raise ReleaseFileError("inner products need their kernel, of the same radius")
        return ball


@njit(nogil=True, cache=True)
def _into_ball(rows, amplitude, scale, encoded):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        largest = 1.0
        for j in range(rows.shape[1]):
            if abs(rows[i, j]) > largest:
                largest = abs(rows[i, j])
        for j in range(rows.shape[1]):
            rows[i, j] /= largest  # so that no coordinate is cut, and a long record keeps its direction
        round_into_ball(rows[i], amplitude, scale, encoded[i])
