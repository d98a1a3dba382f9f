"""Positive definite kernels of a difference; here those that are products over the columns of ``u = A^-1 (x - y)``.

- Gaussian ``exp(-|u|_2^2)``, for one bandwidth s ``exp(-|x - y|^2 / s^2)``.
- Laplacian ``exp(-|u|_1)``, for one bandwidth s ``exp(-|x - y|_1 / s)``.
- Stable exponential ``exp(-sum_j |u_j|^p)``, from Laplacian (p = 1) to Gaussian (p = 2). Each coordinate of a frequency
  is p-stable, because ``exp(-|t|^p)`` is the characteristic function of that law.
- Cauchy, the product of ``1 / (1 + u_j^2)``. It is written with maximum 1; a factor of 2 for each column, as in some
  papers, would only rescale every answer.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sfumato.deferred import cdist
from sfumato.errors import InputError
from sfumato.kernels.base import Bandwidth, Scale, ScaledKernel, register
from sfumato.kernels.exact import exp_negative, squared_distances
from sfumato.public.codec import Real, brief
from sfumato.public.portable import FloatArray, PublicStream

# Relative difference from its transpose up to which a covariance counts as symmetric.
SYMMETRY_TOLERANCE = 1e-8


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


@register
@dataclass(frozen=True, init=False, repr=False)
class Gaussian(ShiftInvariantKernel):
    """``k(x, y) = exp(-|A^-1 (x - y)|_2^2)``; its frequencies are normal with variance 2 for the unit bandwidth.

    Examples
    --------
    >>> Gaussian(2.0).value([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
    array([[0.367879]])
    """

    name = "gaussian"
    product = True

    @classmethod
    def from_sklearn(cls, bandwidth: Bandwidth) -> Gaussian:
        """Make the kernel of scikit-learn's ``KernelDensity(bandwidth=h)``, ``exp(-|x - y|^2 / (2 h^2))``.

        Examples
        --------
        >>> Gaussian.from_sklearn(0.5).value([[0.0]], [[0.5]]).round(6)
        array([[0.606531]])
        """
        return cls(Scale.of(bandwidth).multiply(math.sqrt(2.0)))

    @classmethod
    def from_scipy(cls, covariance: ArrayLike) -> Gaussian:
        """Make the kernel of SciPy's ``gaussian_kde``, ``exp(-(x - y)^T C^-1 (x - y) / 2)``.

        Parameters
        ----------
        covariance : array_like of shape (d, d)
            C, the ``.covariance`` of a ``gaussian_kde``: bandwidth factor included.

        Examples
        --------
        >>> Gaussian.from_scipy([[1.0, 0.0], [0.0, 4.0]]).value([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
        array([[0.606531]])
        """
        matrix = np.atleast_2d(np.asarray(covariance, dtype=np.float64))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"a covariance must be a square matrix; got shape {matrix.shape}")
        if not np.isfinite(matrix).all() or np.abs(matrix - matrix.T).max() > SYMMETRY_TOLERANCE * np.abs(matrix).max():
            raise InputError("a covariance must be finite and symmetric")
        try:
            return cls(np.linalg.cholesky(2.0 * matrix))
        except np.linalg.LinAlgError as error:
            raise InputError("a covariance must be positive definite; this one is not") from error

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        return exp_negative(squared_distances(U, V))

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-np.square(differences)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        # A correctly rounded square root, unlike a power, is the same on every machine.
        return math.sqrt(2.0) * stream.normals(count * dimension).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return 0.5 * dimension * math.log(math.pi)


@register
@dataclass(frozen=True, init=False, repr=False)
class Laplacian(ShiftInvariantKernel):
    """``k(x, y) = exp(-|A^-1 (x - y)|_1)``; its frequencies are standard Cauchy for the unit bandwidth.

    Examples
    --------
    >>> Laplacian(2.0).value([[0.0, 0.0]], [[1.0, -1.0]]).round(6)
    array([[0.367879]])
    """

    name = "laplacian"
    product = True

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        return exp_negative(cdist(U, V, "cityblock"))

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-np.abs(differences)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        return stream.cauchys(count * dimension).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return dimension * math.log(2.0)


@register
@dataclass(frozen=True, init=False, repr=False)
class Cauchy(ShiftInvariantKernel):
    """``k(x, y) = prod_j 1 / (1 + u_j^2)``; its frequencies are standard Laplace for the unit bandwidth.

    Examples
    --------
    >>> Cauchy(1.0).value([[0.0, 0.0]], [[1.0, 2.0]])
    array([[0.1]])
    """

    name = "cauchy"
    product = True

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        denominator = np.ones((len(U), len(V)))
        factor = np.empty_like(denominator)
        # Far away in many columns the product may overflow; the kernel is then 0, rightly.
        with np.errstate(over="ignore"):
            for u, v in zip(U.T, np.ascontiguousarray(V.T), strict=True):
                np.subtract(u[:, None], v, out=factor)
                np.square(factor, out=factor)
                factor += 1.0
                denominator *= factor
        return np.divide(1.0, denominator, out=denominator)

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.square(differences)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        return stream.laplaces(count * dimension).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return dimension * math.log(math.pi)


@register
@dataclass(frozen=True, init=False, repr=False)
class StableExponential(ShiftInvariantKernel):
    """``k(x, y) = exp(-sum_j |u_j|^p)``; its frequencies are symmetric p-stable for the unit bandwidth.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``, a length in data units.
    p : float
        From 1 to 2.

    Examples
    --------
    >>> StableExponential(2.0, p=1.5).value([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
    array([[0.367879]])
    """

    p: float
    name = "stable-exponential"
    product = True
    schema = ShiftInvariantKernel.schema.extended(p=Real(1.0, 2.0))

    def __init__(self, bandwidth: Bandwidth, p: float) -> None:
        super().__init__(bandwidth)
        if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 1.0 <= p <= 2.0:
            raise InputError(f"p must be a number from 1 to 2; got {brief(p)}")
        object.__setattr__(self, "p", float(p))

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> NoReturn:
        """Refuse: the family needs p as well."""
        raise InputError(f"the kernel {cls.name!r} needs p: pass an object, kernels.StableExponential(bandwidth, p)")

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        return exp_negative(cdist(U, V, "minkowski", p=self.p) ** self.p)

    def _unit_profile(self, differences: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-(np.abs(differences) ** self.p)))

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        return stream.stables(count * dimension, self.p).reshape(count, dimension).T

    def _unit_log_integral(self, dimension: int) -> float:
        return dimension * (math.log(2.0) + math.lgamma(1.0 + 1.0 / self.p))

    def __repr__(self) -> str:
        return f"StableExponential(bandwidth={self.scale!r}, p={self.p!r})"
