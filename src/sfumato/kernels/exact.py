"""Points as arrays, their distances, and the exact mean kernel value, against which every approximation is tested.

Rows stream through in blocks: memory does not grow with the number of points, which may come as an array (also a memory
map) or as an iterable of batches. Blocks run on threads, one BLAS thread each, and their sums are added in the order of
the rows, so the answer does not depend on the number of threads. It is not private.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.deferred import cdist
from sfumato.errors import InputError
from sfumato.public.portable import FloatArray
from sfumato.threads import one_blas_thread, workers_of

if TYPE_CHECKING:
    from sfumato.kernels.base import Kernel

# One task sums TASK_ROWS rows; it evaluates tiles of TILE_ROWS x TILE_QUERIES kernel values, which fit in a cache.
TASK_ROWS = 4096
TILE_ROWS = 256
TILE_QUERIES = 512
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
    if dimension == 1:
        return np.square(X - Y.T)
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


def exact_density(kernel: Kernel, X: Any, Y: Any, threads: int | None = None) -> FloatArray:
    """``(1/n) sum over x of k(x, y)`` for each row y of `Y`; see `Kernel.exact_density`."""
    queries = as_points(Y, "Y")
    workers = workers_of(threads)
    total = np.zeros(len(queries))
    count = 0
    waiting: deque[Future[FloatArray]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        for rows in _tasks(X):
            count += len(rows)
            waiting.append(pool.submit(_kernel_sum, kernel, rows, queries))
            if len(waiting) >= 2 * workers:
                total += waiting.popleft().result()
        for future in waiting:
            total += future.result()
    if not count:
        raise InputError("X holds no rows, so its mean kernel value is not defined")
    return total / count


def _tasks(X: Any) -> Iterator[FloatArray]:
    """Slices of at most TASK_ROWS rows, not yet converted to float64 (that is the threads' work)."""
    for batch in _batches(X):
        if batch.ndim != 2:
            raise InputError(f"X must be 2-d, or an iterable of 2-d batches; got shape {batch.shape}")
        for start in range(0, len(batch), TASK_ROWS):
            yield batch[start : start + TASK_ROWS]


def _batches(X: Any) -> Iterator[Any]:
    is_table = hasattr(X, "__array__") or (isinstance(X, list | tuple) and (not X or np.ndim(X[0]) < 2))
    if is_table:
        yield np.asarray(X)
    elif isinstance(X, Iterable):
        yield from map(np.asarray, X)
    else:
        raise InputError(f"X must be a 2-d array or an iterable of 2-d batches; got {type(X).__name__}")


def _kernel_sum(kernel: Kernel, rows: FloatArray, queries: FloatArray) -> FloatArray:
    points = as_points(rows, "X")
    total = np.zeros(len(queries))
    for first_query in range(0, len(queries), TILE_QUERIES):
        window = slice(first_query, first_query + TILE_QUERIES)
        for first_row in range(0, len(points), TILE_ROWS):
            total[window] += kernel.value(points[first_row : first_row + TILE_ROWS], queries[window]).sum(axis=0)
    return total
