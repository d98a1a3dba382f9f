"""The exact integer sum of a stream, on the threads of one machine, in memory that does not grow with n.

Integer sums commute, so the result is the same for every number of threads and every block size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Integers, Quantizer

Progress = Callable[[int], None]


def default_threads() -> int:
    """Count the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded BLAS once: the search takes milliseconds."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread: the engine owns the threads, and two layers of them cost twice the time."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


def stream_sum(
    batches: Iterable[NDArray[Any]],
    quantizer: Quantizer,
    *,
    coins: SecureBits,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Integers, int, int]:
    """Sum the integers of all rows.

    Parameters
    ----------
    batches : iterable of 2-d arrays
        The points.
    quantizer : Quantizer
        Turns rows into integers.
    coins : SecureBits
        Parent of the secret coins; every batch gets a child of its own.
    threads : int, optional
        Workers; all available cores by default.
    progress : callable, optional
        Called with the number of rows of each batch done. For the curator's eyes only.

    Returns
    -------
    sums, kept, seen
        The exact sum, how many rows it holds, and how many were read.
    """
    workers = default_threads() if threads is None else threads
    if workers < 1:
        raise InputError(f"threads must be 1 or more, got {threads}")
    sums, kept, seen = np.zeros(quantizer.size, dtype=np.int64), 0, 0
    spare: list[Integers] = []

    def add(batch: NDArray[Any], partial: Integers, batch_coins: SecureBits) -> tuple[Integers, int, int]:
        return partial, quantizer.accumulate(batch, partial, batch_coins), len(batch)

    def collect(done: set[Future[tuple[Integers, int, int]]]) -> None:
        nonlocal kept, seen
        for future in done:
            partial, rows_kept, rows_seen = future.result()
            np.add(sums, partial, out=sums)
            partial[:] = 0
            spare.append(partial)
            kept, seen = kept + rows_kept, seen + rows_seen
            if progress is not None:
                progress(rows_seen)

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        pending: set[Future[tuple[Integers, int, int]]] = set()
        try:
            for index, batch in enumerate(batches):
                partial = spare.pop() if spare else np.zeros(quantizer.size, dtype=np.int64)
                pending.add(pool.submit(add, batch, partial, coins.child(index)))
                if len(pending) > workers:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    collect(done)
            collect(wait(pending).done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return sums, kept, seen
