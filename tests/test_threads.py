"""The engine of one machine: BLAS on one thread, and work that is handed over as it is done."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from threadpoolctl import threadpool_info

from sfumato.threads import one_blas_thread, spread


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.mark.usefixtures("two_blas_threads")
def test_overlapping_sums_leave_blas_as_it_was() -> None:
    inside, done = threading.Event(), threading.Event()

    def second() -> None:
        with one_blas_thread():
            inside.set()
            done.wait(10)

    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            future = pool.submit(second)
            inside.wait(10)
        assert blas_threads() == 1  # the second one is still in there
        done.set()
        future.result()
    assert blas_threads() == 2


def test_work_is_taken_from_the_items_as_it_is_done() -> None:
    begun: list[int] = []

    def items() -> Any:
        for item in range(50):
            begun.append(item)
            yield item

    results: list[int] = []

    def take(result: int) -> None:
        assert len(begun) <= len(results) + 2 + 2
        results.append(result)

    spread(items(), lambda item: item * item, take, workers=2)
    assert sorted(results) == [item * item for item in range(50)]
