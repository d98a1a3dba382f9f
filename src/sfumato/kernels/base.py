"""What a kernel is: a similarity ``k(x, y)`` between points, its exact sum, a document, and a name to find it by.

Most have a bandwidth: one length, one length a column, or a matrix. Such a kernel sees a difference ``x - y`` as
``u = A^-1 (x - y)``. A number ``s`` stands for ``A = s I``, a vector for a diagonal ``A``; a full matrix also turns the
axes. Frequencies of the unit bandwidth go through ``A^-T``, because ``w . A^-1 (x - y) = (A^-T w) . (x - y)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels.exact import as_points, exact_density
from sfumato.public import portable
from sfumato.public.codec import Documented, Field, Schema, brief, refuse
from sfumato.public.portable import FloatArray

CUSTOM = "custom"
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
            return np.full(dimension, self.numbers)
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
            f"got {brief(bandwidth)}"
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
    if not all(np.abs(numbers).max() <= LARGEST for numbers in (scale.numbers, scale.inverse)):
        raise InputError(
            f"the entries of a bandwidth matrix and of its inverse must lie within {LARGEST:g} of 0; use other units"
        )


class Kernel(Documented, ABC):
    """A similarity between points; an immutable value, equal and hashed by its parameters.

    A family sets `name` and the `schema` of its constructor's arguments, implements `_pairwise` and `with_bandwidth`,
    and is made known by ``@register``. A family with no bandwidth keeps `bandwidth` None.

    Attributes
    ----------
    name : str
        The family's name in documents and in ``get_kernel``.
    portable : bool
        Whether `from_document` rebuilds the kernel, and its frequencies, anywhere.
    """

    name: str
    portable = True
    schema = Schema()

    @abstractmethod
    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """``k(x, y)`` for checked, finite float64 tables with the same number of columns."""

    @classmethod
    @abstractmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> Kernel:
        """Make the family's kernel from a bandwidth alone, or raise InputError saying what else it needs."""

    @property
    def bandwidth(self) -> float | FloatArray | None:
        """The bandwidth as a number, a read-only vector or a read-only matrix; None for a family without one."""
        return None

    def value(self, X: Any, Y: Any) -> FloatArray:
        """``k(x, y)`` for every row x of `X` and y of `Y`.

        Parameters
        ----------
        X, Y : array_like of shape (n, d) and (m, d)
            Finite numbers.

        Returns
        -------
        ndarray of shape (n, m)
        """
        points, queries = as_points(X, "X"), as_points(Y, "Y")
        if points.shape[1] != queries.shape[1]:
            raise InputError(f"X has {points.shape[1]} column(s) but Y has {queries.shape[1]}")
        return self._pairwise(points, queries)

    def exact_density(self, X: Any, Y: Any, threads: int | None = None) -> FloatArray:
        """Exact mean kernel value ``(1/n) sum over x of k(x, y)``. Not private: the oracle for what is.

        Parameters
        ----------
        X : array_like of shape (n, d), or iterable of such batches
            The points; memory does not grow with n.
        Y : array_like of shape (m, d)
            The queries.
        threads : int, optional
            Worker threads; all processors by default. The answer does not depend on it.

        Returns
        -------
        ndarray of shape (m,)
        """
        return exact_density(self, X, Y, threads)


@dataclass(frozen=True, init=False, repr=False)
class ScaledKernel(Kernel):
    """A kernel of ``u = A^-1 (x - y)``.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``: one length in data units, one for each column, or a square invertible matrix.
    """

    scale: Scale
    schema = Schema(bandwidth=BandwidthField())

    def __init__(self, bandwidth: Bandwidth) -> None:
        object.__setattr__(self, "scale", Scale.of(bandwidth))

    @abstractmethod
    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        """``k`` for each pair of rows, unit bandwidth."""

    @property
    def bandwidth(self) -> float | FloatArray:
        """The bandwidth as a number, a read-only vector or a read-only matrix."""
        return self.scale.bandwidth

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        self.scale.check(X.shape[1])
        # Coordinates far from the origin lose digits when divided: measure from the middle of the queries.
        centre = Y.mean(axis=0) if len(Y) else np.zeros(Y.shape[1])
        return self._unit_pairwise(self.scale.divide(X - centre), self.scale.divide(Y - centre))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> Self:
        """Make the family's kernel from a bandwidth."""
        if bandwidth is None:
            raise InputError(
                f"the kernel {cls.name!r} needs a bandwidth: pass bandwidth=, a length in the units of the data"
            )
        return cls(bandwidth)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bandwidth={self.scale!r})"


_FAMILIES: dict[str, type[Kernel]] = {}
_Family = TypeVar("_Family", bound=type[Kernel])


def register(family: _Family) -> _Family:
    """Class decorator: make a family known by its name to `get_kernel` and `kernel_from_document`."""
    family.schema = family.schema.extended({"kernel": family.name})
    _FAMILIES[family.name] = family
    return family


def get_kernel(kernel: str | Kernel, bandwidth: Bandwidth | None = None) -> Kernel:
    """Return the kernel that a user named, or the object that they passed.

    Parameters
    ----------
    kernel : str or Kernel
        A name such as ``"gaussian"``, or a kernel object, which carries its own bandwidth.
    bandwidth : float, vector or matrix, optional
        For a kernel given by name.

    Examples
    --------
    >>> get_kernel("gaussian", 0.5)
    Gaussian(bandwidth=0.5)
    """
    if isinstance(kernel, Kernel):
        if bandwidth is not None:
            raise InputError(
                f"{kernel!r} already has its parameters: pass bandwidth= with a kernel's name, not with an object"
            )
        return kernel
    if not isinstance(kernel, str):
        raise InputError(f"kernel must be a name or a kernel object; got {type(kernel).__name__}")
    return _family(kernel).with_bandwidth(bandwidth)


def kernel_from_document(document: Mapping[str, Any]) -> Kernel:
    """Rebuild a kernel from what its `to_document` wrote.

    Examples
    --------
    >>> kernel_from_document({"kernel": "laplacian", "bandwidth": [1.0, 2.0]})
    Laplacian(bandwidth=[1.0, 2.0])
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("kernel"), str):
        raise InputError("a kernel's document must be an object whose field 'kernel' is a name")
    name = document["kernel"]
    if name == CUSTOM:
        raise InputError(
            f"the kernel {document.get('name')!r} is its author's own and cannot be rebuilt from a document: "
            "pass the kernel object"
        )
    return _family(name).from_document(document, "kernel")


def _family(name: str) -> type[Kernel]:
    if name not in _FAMILIES:
        raise InputError(f"unknown kernel {brief(name)}; known: {', '.join(sorted(_FAMILIES))}")
    return _FAMILIES[name]
