"""Kernel values between records and public landmarks as integers, decided by each row alone.

A value k(x, z) in [-1, 1] becomes an integer in units of 2^-24. Three routes, by kernel:

- `LatticeSimilarities`, for the kernels of the Euclidean distance (Gaussian, exponential). Points and landmarks are
  put on one dyadic lattice of u = A^-1 (x - centre), with coordinates of at most R steps, 4 d R^2 <= 2^52. Then
  |u - v|^2 = |u|^2 - 2 u.v + |v|^2 is a sum of integers whose partial sums stay below 2^53: one float64 matrix product
  gives it exactly in any order. The exponential of it is a fixed sequence of correctly rounded operations on that one
  number. A coordinate farther than 32 bandwidths from all landmarks is moved to that distance, where the kernel's
  integer is 0 as well.
- `DirectSimilarities` with portable values (Laplacian, Cauchy, stable exponential; see `portable_kernels`).
- `DirectSimilarities` row by row for every other kernel: the kernel sees one row at a time, whatever block it came in.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Exponential, Gaussian, Kernel, ShiftInvariantKernel
from sfumato.public import portable
from sfumato.public.codec import Reals, Schema, Whole
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.quantizers.base import Floats, within
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import kept_rows
from sfumato.quantizers.portable_kernels import PortableKernel, refuse_kernel

VALUE_BITS = 24
# Where records are kept when no bounds are given: bandwidths around the landmarks, or plain numbers without one.
DEFAULT_REACH, LARGEST_NUMBER = 2.0**40, 2.0**300
MARGIN = 32.0  # bandwidths beyond which the lattice's kernels round to 0: exp(-32) < 2^-25
EXACT_LIMIT = 2.0**52
MOST_BITS, FEWEST_BITS = 20, 8
LATTICE = Schema(
    bits=Whole(1, MOST_BITS), centre=Reals(-1e100, 1e100, MOST_COLUMNS), reach=Whole(1, math.isqrt(int(EXACT_LIMIT)))
)
FARTHEST = 18.0  # exp(-18) < 2^-25
# For the compiled exponential, which takes module constants only.
INVERSE_LOG_2, LOG_2_HIGH, LOG_2_LOW = 1.0 / portable.LOG_2, portable.LOG_2_HIGH, portable.LOG_2_LOW
TERMS = portable.EXPONENTIAL_TERMS


class Similarities(ABC):
    """Integer kernel values of rows at landmarks; made by `similarities`.

    Attributes
    ----------
    kernel : Kernel
        With k(x, x) = 1.
    box : Box
        Where records may live.
    """

    kernel: Kernel
    box: Box

    @property
    @abstractmethod
    def points(self) -> Floats:
        """The landmarks in data units, exactly as they are used."""

    @abstractmethod
    def integers(self, rows: Floats) -> Floats:
        """Return k(x, z) in units of 2^-24 for rows that the box has kept; whole numbers as float64."""

    @abstractmethod
    def to_document(self) -> tuple[dict[str, Any], NDArray[Any]]:
        """Return what `similarities_from_document` needs, and the landmarks as stored."""

    def kept(self, rows: NDArray[Any]) -> Floats:
        """Rows that the box keeps, see `kept_rows`."""
        return kept_rows(self.box, rows)

    def matrix(self) -> Floats:
        """Kernel matrix of the landmarks, from their integers."""
        values = np.ldexp(self.integers(self.points), -VALUE_BITS)
        return np.asarray((values + values.T) / 2)

    def values(self, Y: Floats) -> Floats:
        """Kernel values of queries, which are public: in floating point."""
        return self.kernel.value(Y, self.points)


def similarities(kernel: Kernel, landmarks: Floats, bounds: Any = None, outside: str = "clip") -> Similarities:
    """Fit the integers of a kernel to public landmarks.

    Parameters
    ----------
    kernel : Kernel
        Positive definite, with k(x, x) = 1.
    landmarks : ndarray, shape (landmarks, dimension)
        Finite public points.
    bounds, outside
        As in `Box.from_bounds`; without bounds, records are kept wherever they are.

    Examples
    --------
    >>> fitted = similarities(Gaussian(1.0), np.array([[0.0], [1.0]]))
    >>> np.ldexp(fitted.integers(np.array([[0.0]])), -VALUE_BITS).round(6)
    array([[1.      , 0.367879]])
    """
    box = _default_box(kernel, landmarks, outside)
    if bounds is not None:
        box = Box.from_bounds(bounds, landmarks.shape[1], outside)
        landmarks = np.clip(landmarks, np.array(box.lower), np.array(box.upper))
    if isinstance(kernel, Gaussian) or (isinstance(kernel, Exponential) and kernel.p == 2.0):
        return LatticeSimilarities.fit(kernel, box, landmarks)
    return DirectSimilarities(kernel, box, landmarks)


def similarities_from_document(kernel: Kernel, box: Box, document: Any, stored: NDArray[Any]) -> Similarities:
    """Rebuild what `to_document` wrote."""
    if not within(stored, 2 * LARGEST_NUMBER):
        raise ReleaseFileError(f"the landmarks must be a table of {box.dimension} columns of ordinary numbers")
    if not document:
        return DirectSimilarities(kernel, box, stored.astype(np.float64))
    fields = LATTICE.read(document, "quantizer.lattice")
    if not isinstance(kernel, ShiftInvariantKernel) or stored.dtype.kind != "i":
        raise ReleaseFileError("landmarks on a lattice are integers, for a kernel of the distance")
    return LatticeSimilarities(kernel, box, landmarks=stored, **fields)


def _default_box(kernel: Kernel, landmarks: Floats, outside: str) -> Box:
    dimension, reach = landmarks.shape[1], LARGEST_NUMBER
    if isinstance(kernel, ShiftInvariantKernel):
        reach = float(kernel.column_scales(dimension).max()) * DEFAULT_REACH
    return Box.centred([float(np.abs(landmarks).max()) + reach] * dimension, outside)


@dataclass(frozen=True, eq=False)
class LatticeSimilarities(Similarities):
    """Exact squared distances on a lattice of 2^-bits bandwidths; see the module's text."""

    kernel: ShiftInvariantKernel
    box: Box
    bits: int
    centre: tuple[float, ...]
    reach: int
    landmarks: NDArray[np.int64]

    @classmethod
    def fit(cls, kernel: ShiftInvariantKernel, box: Box, landmarks: Floats) -> LatticeSimilarities:
        """Take the finest lattice on which distances are exact."""
        middle = (landmarks.min(axis=0) + landmarks.max(axis=0)) / 2
        units = _units(kernel, landmarks - middle)
        widest = float(np.abs(units).max()) + MARGIN
        steps = math.floor(math.sqrt(EXACT_LIMIT / (4 * landmarks.shape[1])))
        bits = min(MOST_BITS, math.floor(math.log2(steps / widest)))
        if bits < FEWEST_BITS:
            raise InputError(
                f"the landmarks span {2 * widest:.3g} bandwidths, too many for exact distances in "
                f"{landmarks.shape[1]} columns; pass landmarks closer to each other, or a larger bandwidth"
            )
        reach = math.ceil(math.ldexp(widest, bits)) if widest * 2**bits < steps else steps
        placed = np.rint(np.ldexp(units, bits)).astype(np.int64)
        return cls(kernel, box, bits, tuple(middle.tolist()), reach, placed)

    def __post_init__(self) -> None:
        if 4 * self.box.dimension * self.reach**2 > EXACT_LIMIT or not within(self.landmarks, self.reach):
            raise InputError("the lattice is too wide for exact distances")
        if len(self.centre) != self.box.dimension:
            raise InputError(f"the lattice's centre must have {self.box.dimension} coordinates")

    @cached_property
    def points(self) -> Floats:
        """The landmarks in data units."""
        units, numbers = np.ldexp(self.landmarks.astype(np.float64), -self.bits), self.kernel.scale.numbers
        offsets = units * numbers if numbers.ndim < 2 else units @ numbers.T
        return np.asarray(np.array(self.centre) + offsets)

    @cached_property
    def _factors(self) -> Floats:
        """Rows [u, |u|^2, 1] times these columns are squared distances."""
        anchors = self.landmarks.astype(np.float64)
        norms = np.square(anchors).sum(axis=1)
        return np.ascontiguousarray(np.column_stack([-2 * anchors, np.ones(len(anchors)), norms]).T)

    def integers(self, rows: Floats) -> Floats:
        """Exact distances, then one function of each."""
        units = _units(self.kernel, np.clip(rows - np.array(self.centre), -1e100, 1e100))
        places = np.clip(np.rint(np.ldexp(units, self.bits)), -self.reach, self.reach)
        wide = np.column_stack([places, np.square(places).sum(axis=1), np.ones(len(places))])
        distances = wide @ self._factors
        _exponentials(distances, 2.0 ** (-2 * self.bits), isinstance(self.kernel, Exponential))
        return distances

    def to_document(self) -> tuple[dict[str, Any], NDArray[Any]]:
        """Return the lattice, and the landmarks as integers on it."""
        return LATTICE.write(self), self.landmarks


@dataclass(frozen=True, eq=False)
class DirectSimilarities(Similarities):
    """Values of the kernel itself; see the module's text."""

    kernel: Kernel
    box: Box
    landmarks: Floats

    @property
    def points(self) -> Floats:
        """The landmarks in data units."""
        return self.landmarks

    @cached_property
    def _portable(self) -> PortableKernel | None:
        return PortableKernel(self.kernel) if refuse_kernel(self.kernel) is None else None

    def integers(self, rows: Floats) -> Floats:
        """Portable values where there are some, else one row at a time."""
        if self._portable is not None:
            values = self._portable.values(rows, self.landmarks)
        else:
            values = np.empty((len(rows), len(self.landmarks)))
            for index in range(len(rows)):
                values[index] = self.kernel.value(rows[index : index + 1].copy(), self.landmarks)[0]
        np.clip(np.nan_to_num(values, copy=False), -1.0, 1.0, out=values)
        return np.rint(np.ldexp(values, VALUE_BITS))

    def to_document(self) -> tuple[dict[str, Any], NDArray[Any]]:
        """Return the landmarks."""
        return {}, self.landmarks


def _units(kernel: ShiftInvariantKernel, offsets: Floats) -> Floats:
    """A^-1 applied to each row, by operations whose order does not depend on the other rows."""
    scale = kernel.scale
    scale.check(offsets.shape[1])
    if len(scale.shape) < 2:
        return np.asarray(offsets / scale.numbers)
    return np.ascontiguousarray(portable.product(scale.inverse, np.ascontiguousarray(offsets.T)).T)


@njit(nogil=True, cache=True)
def _exponentials(distances, unit, root):  # type: ignore[no-untyped-def]
    """Replace squared distances by rint(2^24 exp(-d)) or, with `root`, rint(2^24 exp(-sqrt d)).

    exp(-d) = 2^-p exp(r) with p = rint(d / log 2), r = p log 2 - d, and a polynomial of fixed order for exp(r). The
    powers of two are written as bits, which lets the compiler treat several numbers at once.
    """
    columns = distances.shape[1]
    bits = np.empty(columns, dtype=np.int64)
    powers = bits.view(np.float64)
    for i in range(distances.shape[0]):
        row = distances[i]
        for j in range(columns):
            d = row[j] * unit
            if root:
                d = np.sqrt(d)
            if not d <= FARTHEST:
                d = FARTHEST
            p = np.rint(d * INVERSE_LOG_2)
            r = (p * LOG_2_HIGH - d) + p * LOG_2_LOW
            e = TERMS[13] * r + TERMS[12]
            e = e * r + TERMS[11]
            e = e * r + TERMS[10]
            e = e * r + TERMS[9]
            e = e * r + TERMS[8]
            e = e * r + TERMS[7]
            e = e * r + TERMS[6]
            e = e * r + TERMS[5]
            e = e * r + TERMS[4]
            e = e * r + TERMS[3]
            e = e * r + TERMS[2]
            e = e * r + TERMS[1]
            row[j] = e * r + TERMS[0]
            bits[j] = np.int64(1023 + VALUE_BITS - np.int32(p)) << 52
        for j in range(columns):
            row[j] = np.rint(row[j] * powers[j])
