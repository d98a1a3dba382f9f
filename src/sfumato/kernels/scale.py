"""The bandwidth of a kernel: one length, one length a column, or a matrix.

A kernel sees a difference ``x - y`` as ``u = A^-1 (x - y)``. A number ``s`` stands for ``A = s I``, a vector for a
diagonal ``A``; a full matrix also turns the axes. Frequencies of the unit bandwidth go through ``A^-T``, because
``w . A^-1 (x - y) = (A^-T w) . (x - y)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.public import portable
from sfumato.public.codec import Field, refuse
from sfumato.public.portable import FloatArray

# Lengths outside these limits overflow when they are squared or inverted.
SMALLEST, LARGEST = 1e-100, 1e100
# A matrix whose computed inverse misses by more than this, A A^-1 against I, counts as singular.
INVERSE_TOLERANCE = 1e-6
# Of a bandwidth in a document: a matrix of 1024 columns takes seconds to invert, as many seconds as columns / 512.
MOST_NUMBERS = 2**20

ScaleDocument = float | list[float] | list[list[float]]


@dataclass(frozen=True, repr=False)
class Scale:
    """An immutable bandwidth; equal and hashed by its numbers. Made by `Scale.of`.

    Examples
    --------
    >>> Scale.of([1, 4]).divide(np.array([[2.0, 2.0]]))
    array([[2. , 0.5]])
    >>> Scale.of(0.5) == Scale.of(1 / 2)
    True
    """

    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, bandwidth: Bandwidth) -> Scale:
        """Check a bandwidth: a positive number, a 1-d array of them, or a square invertible matrix."""
        if isinstance(bandwidth, Scale):
            return bandwidth
        numbers = _numbers(bandwidth)
        if numbers.ndim < 2:
            _check_lengths(numbers)
        elif numbers.ndim > 2 or numbers.shape[0] != numbers.shape[1] or not numbers.size:
            raise InputError(f"a bandwidth matrix must be square; got shape {numbers.shape}")
        # Adding zero turns -0.0 into 0.0, so that equal numbers are equal bytes.
        scale = cls(numbers.shape, (numbers + 0.0).astype("<f8").tobytes())
        if numbers.ndim == 2:
            _check_inverse(scale)
        return scale

    @cached_property
    def numbers(self) -> FloatArray:
        """The number, vector or matrix as a read-only array."""
        array = np.frombuffer(self.data, dtype="<f8").astype(np.float64).reshape(self.shape)
        array.flags.writeable = False
        return array

    @cached_property
    def inverse(self) -> FloatArray:
        """``A^-1`` of a matrix bandwidth, the same bits on every machine."""
        array = portable.inverse(self.numbers)
        array.flags.writeable = False
        return array

    @property
    def bandwidth(self) -> float | FloatArray:
        """What the user gave: a float, or a read-only array."""
        return self.numbers if self.shape else float(self.numbers)

    @property
    def dimension(self) -> int | None:
        """The number of columns that the bandwidth fixes; None for a single number."""
        return self.shape[0] if self.shape else None

    def check(self, dimension: int) -> None:
        """Refuse data whose number of columns is not the bandwidth's."""
        if self.dimension not in (None, dimension):
            raise InputError(
                f"the bandwidth is for {self.dimension} column(s) but the data has {dimension}; "
                "pass one number, one for each column, or a square matrix of that size"
            )

    def divide(self, differences: FloatArray) -> FloatArray:
        """``A^-1`` applied along the last axis."""
        self.check(differences.shape[-1])
        if len(self.shape) < 2:
            return differences / self.numbers
        return np.asarray(differences @ self.inverse.T, dtype=np.float64)

    def divide_frequencies(self, frequencies: FloatArray) -> FloatArray:
        """``A^-T`` applied to the columns of a (dimension, count) array, the same bits on every machine."""
        self.check(len(frequencies))
        if len(self.shape) < 2:
            return frequencies / (self.numbers[:, None] if self.shape else self.numbers)
        return portable.product(self.inverse.T, frequencies)

    def multiply(self, factor: float) -> Scale:
        """Return the bandwidth ``factor A``."""
        return Scale.of(self.numbers * factor)

    def column_lengths(self, dimension: int) -> FloatArray:
        """For each column, how far a point moves along it before ``u`` moves by one: ``1 / |A^-1 e_j|_2``."""
        self.check(dimension)
        if len(self.shape) < 2:
            return np.array(np.broadcast_to(self.numbers, dimension))
        return np.asarray(1.0 / np.linalg.norm(self.inverse, axis=0), dtype=np.float64)

    def log_determinant(self, dimension: int) -> float:
        """``log |det A|``."""
        self.check(dimension)
        if len(self.shape) < 2:
            return float(np.log(np.broadcast_to(self.numbers, dimension)).sum())
        return float(np.linalg.slogdet(self.numbers)[1])

    def to_document(self) -> ScaleDocument:
        """Return a number, a list or a list of rows; `Scale.of` reads it back exactly."""
        document: ScaleDocument = self.numbers.tolist()
        return document

    def __repr__(self) -> str:
        return repr(self.to_document())


Bandwidth = float | Sequence[float] | Sequence[Sequence[float]] | NDArray[np.generic] | Scale


class BandwidthField(Field[Scale]):
    """A bandwidth in a document: a number, a list of them, or the rows of a matrix."""

    def read(self, value: Any, path: str) -> Scale:
        """Return the scale; whatever is not made of numbers is refused before it becomes an array."""
        rows = value if isinstance(value, list) else [value]
        cells = [cell for row in rows for cell in (row if isinstance(row, list) else [row])]
        if len(cells) > MOST_NUMBERS or not all(type(cell) in (int, float) for cell in cells):
            raise refuse(path, "a positive number, one for each column, or a square invertible matrix", value)
        return Scale.of(value)

    def write(self, value: Any) -> ScaleDocument:
        """Return a number, a list or a list of rows."""
        document: ScaleDocument = np.asarray(value).tolist()
        return document


def _numbers(bandwidth: Bandwidth) -> FloatArray:
    try:
        array = np.asarray(bandwidth)
    except ValueError:  # rows of unequal length
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise InputError(
            "bandwidth must be a positive number, one for each column, or a square invertible matrix; "
            f"got {bandwidth!r}"
        )
    return array.astype(np.float64)


def _check_lengths(lengths: FloatArray) -> None:
    if not lengths.size:
        raise InputError("bandwidth must hold one positive number for each column; got an empty list")
    for length in lengths.flat:
        if not math.isfinite(length):
            raise InputError(f"bandwidth must be finite; got {length}")
        if length <= 0:
            raise InputError(f"bandwidth must be positive; got {length:g} (it is a length in the units of the data)")
        if not SMALLEST <= length <= LARGEST:
            raise InputError(f"bandwidth must lie between {SMALLEST:g} and {LARGEST:g}; got {length:g}")


def _check_inverse(scale: Scale) -> None:
    if not np.isfinite(scale.numbers).all():
        raise InputError("bandwidth must be finite; the matrix holds NaN or infinite entries")
    with np.errstate(all="ignore"):
        residual = np.abs(scale.numbers @ scale.inverse - np.eye(scale.shape[0])).max()
    if not residual <= INVERSE_TOLERANCE:
        raise InputError("a bandwidth matrix must be invertible; this one is singular to working precision")
