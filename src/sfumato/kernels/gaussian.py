"""The Gaussian kernel ``exp(-|A^-1 (x - y)|_2^2)``, for one bandwidth s ``exp(-|x - y|^2 / s^2)``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import InputError
from sfumato.kernels.base import ShiftInvariantKernel
from sfumato.kernels.pairwise import exp_negative, squared_distances
from sfumato.kernels.registry import register
from sfumato.kernels.scale import Bandwidth, Scale
from sfumato.public.portable import FloatArray
from sfumato.public.streams import PublicStream

# Relative difference from its transpose up to which a covariance counts as symmetric.
SYMMETRY_TOLERANCE = 1e-8


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
