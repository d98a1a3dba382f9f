"""What a kernel is: a similarity ``k(x, y)`` between points, its exact sum, a document, and a name to find it by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.exact import as_points, exact_density
from sfumato.kernels.scale import Bandwidth, BandwidthField, Scale
from sfumato.public.codec import Documented, Schema
from sfumato.public.portable import FloatArray, PublicStream

CUSTOM = "custom"


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


@dataclass(frozen=True, init=False, repr=False)
class ShiftInvariantKernel(ScaledKernel):
    """A positive definite kernel ``k(x, y) = phi(A^-1 (x - y))`` with ``phi(0) = 1``.

    By Bochner's theorem it is the mean of ``cos(w . (x - y))`` over random frequencies w, which `frequencies` draws.

    Attributes
    ----------
    product : bool
        Whether ``phi(u)`` is a product over the coordinates of one function, which `_unit_profile` then gives.
    """

    product = False

    @abstractmethod
    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        """Frequencies of the unit bandwidth, shape (dimension, count), drawn one frequency after another."""

    @abstractmethod
    def _unit_log_integral(self, dimension: int) -> float:
        """Logarithm of the integral of ``phi`` over R^dimension."""

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        """Give the function whose product over the coordinates ``phi`` is: 1 at 0, not increasing in |u|."""
        raise NotImplementedError

    @property
    def separable(self) -> bool:
        """Whether the kernel is a product over the columns: a family of that form, with lengths and no matrix."""
        return self.product and len(self.scale.shape) < 2

    def column_profile(self, differences: FloatArray) -> FloatArray:
        """Give one column's factor of a separable kernel, for differences in units of that column's bandwidth.

        Parameters
        ----------
        differences : ndarray
            Of any shape.
        """
        if not self.separable:
            raise InputError(f"{self!r} is not a product over the columns")
        return self._unit_profile(differences)

    def frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        """Draw random frequencies, radians per data unit.

        For the built-in kernels the first m of a longer draw are the draw of m, and the numbers are the same on every
        machine, to the last bit.

        Parameters
        ----------
        stream : PublicStream
            Where the randomness comes from; it is consumed.
        count, dimension : int
            How many frequencies, and of how many coordinates.

        Returns
        -------
        ndarray of shape (dimension, count)
        """
        self.scale.check(dimension)
        unit = np.ascontiguousarray(self._unit_frequencies(stream, count, dimension))
        return self.scale.divide_frequencies(unit)

    def column_scales(self, dimension: int) -> FloatArray:
        """Characteristic length of each column in data units."""
        return self.scale.column_lengths(dimension)

    def log_integral(self, dimension: int) -> float:
        """Logarithm of the integral of ``k(x, .)`` over R^dimension; subtract it to normalise a log density."""
        return self._unit_log_integral(dimension) + self.scale.log_determinant(dimension)


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
        raise InputError(f"unknown kernel {name!r}; known: {', '.join(sorted(_FAMILIES))}")
    return _FAMILIES[name]
