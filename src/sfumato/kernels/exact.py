"""The exact mean kernel value, the oracle against which every approximation is tested.

Rows stream through in blocks: memory does not grow with the number of points, which may come as an array (also a memory
map) or as an iterable of batches. Blocks run on threads, one BLAS thread each, and their sums are added in the order of
the rows, so the answer does not depend on the number of threads. It is not private.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController

from sfumato.errors import InputError
from sfumato.kernels.pairwise import as_points
from sfumato.public.portable import FloatArray

if TYPE_CHECKING:
    from sfumato.kernels.base import Kernel

# One task sums TASK_ROWS rows; it evaluates tiles of TILE_ROWS x TILE_QUERIES kernel values, which fit in a cache.
TASK_ROWS = 4096
TILE_ROWS = 256
TILE_QUERIES = 512
_single = Lock()
_limits: list[Any] = []  # one for each caller that wants BLAS on one thread; all are the first one's


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded BLAS once: the search takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: who owns the threads calls it, and two layers of them cost twice the time.

    The limit is the process's. Callers on several threads share it: the first sets it and the last takes it back.
    """
    with _single:
        _limits.append(_limits[0] if _limits else _aside(lambda: _controller().limit(limits=1, user_api="blas")))
    try:
        yield
    finally:
        with _single:
            limit = _limits.pop()
            if not _limits:
                _aside(limit.restore_original_limits)


def _aside(task: Callable[[], Any]) -> Any:
    """Run on a thread that ends: threadpoolctl lets only the thread that set a limit lift it, as long as it lives."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(task).result()


def exact_density(kernel: Kernel, X: Any, Y: Any, threads: int | None = None) -> FloatArray:
    """``(1/n) sum over x of k(x, y)`` for each row y of `Y`; see `Kernel.exact_density`."""
    queries = as_points(Y, "Y")
    threads = (os.cpu_count() or 1) if threads is None else threads
    if threads < 1:
        raise InputError(f"threads must be at least 1; got {threads}")
    total = np.zeros(len(queries))
    count = 0
    waiting: deque[Future[FloatArray]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for rows in _tasks(X):
            count += len(rows)
            waiting.append(pool.submit(_kernel_sum, kernel, rows, queries))
            if len(waiting) >= 2 * threads:
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
