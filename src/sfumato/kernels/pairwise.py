"""Points as arrays, and the squared distances between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.public.portable import FloatArray

# The largest error that the quick way below may leave in a squared distance.
DISTANCE_TOLERANCE = 1e-10
# Up to this many columns the direct way is as quick.
FEW_COLUMNS = 8


def as_points(points: Any, name: str) -> FloatArray:
    """Check that `points` is a 2-d table of finite numbers and return it as float64; `name` is for the messages."""
    try:
        array = np.asarray(points)
    except ValueError as error:
        raise InputError(f"{name} must be a table with rows of equal length") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers; got dtype {array.dtype}")
    if array.ndim != 2:
        raise InputError(
            f"{name} must be 2-d (rows are points, columns are coordinates); got shape {array.shape}. "
            "Use reshape(1, -1) for one point, reshape(-1, 1) for points in one dimension"
        )
    if not array.shape[1]:
        raise InputError(f"{name} has no columns; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinite values; drop those rows first")
    return np.ascontiguousarray(array, dtype=np.float64)


def same_dimension(X: FloatArray, Y: FloatArray) -> None:
    """Refuse tables with different numbers of columns."""
    if X.shape[1] != Y.shape[1]:
        raise InputError(f"X has {X.shape[1]} column(s) but Y has {Y.shape[1]}")


def squared_distances(X: FloatArray, Y: FloatArray) -> FloatArray:
    """``|x - y|_2^2`` for each pair, with an absolute error of at most 1e-10 or a relative one of a few roundings.

    ``|x|^2 + |y|^2 - 2 x.y`` is a matrix product and quick, but cancels: it is used where the norms show that its
    rounding stays below the tolerance. Points should come centred. A function with a cusp at 0, like the exponential of
    the distance itself, needs `scipy.spatial.distance.cdist` instead.

    Examples
    --------
    >>> import numpy as np
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]))
    array([[25.]])
    """
    dimension = X.shape[1]
    if dimension > FEW_COLUMNS and X.size and Y.size:
        X_norms, Y_norms = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y)
        rounding = 2 * (dimension + 4) * np.finfo(np.float64).eps * (X_norms.max() + Y_norms.max())
        if rounding <= DISTANCE_TOLERANCE:
            distances = X @ (-2.0 * Y.T)
            distances += X_norms[:, None]
            distances += Y_norms
            return np.maximum(distances, 0.0, out=distances)
    return np.asarray(cdist(X, Y, "sqeuclidean"), dtype=np.float64)


def exp_negative(exponents: FloatArray) -> FloatArray:
    """``exp(-exponents)``, in place."""
    np.negative(exponents, out=exponents)
    return np.exp(exponents, out=exponents)
