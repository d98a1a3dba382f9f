"""The exact mean kernel value: equal to the plain mean, however the rows arrive and whoever sums them."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Laplacian, ShiftInvariant, StableExponential
from sfumato.kernels import exact as module

RNG = np.random.default_rng(13)
KERNELS = [Gaussian(1.0), Laplacian([1.0, 2.0, 3.0]), Cauchy(0.5), StableExponential(2.0, 1.4)]
X = RNG.normal(size=(5000, 3))
Y = RNG.normal(size=(37, 3))


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tasks and tiles, with ragged ends, from a small table."""
    monkeypatch.setattr(module, "TASK_ROWS", 700)
    monkeypatch.setattr(module, "TILE_ROWS", 64)
    monkeypatch.setattr(module, "TILE_QUERIES", 10)


@pytest.mark.once
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_equals_the_plain_mean(kernel: Any) -> None:
    np.testing.assert_allclose(kernel.exact_density(X, Y), kernel.value(X, Y).mean(axis=0), rtol=1e-12)


def batches() -> Iterator[np.ndarray]:
    yield X[:1]
    yield X[1:1]
    yield X[1:3001]
    yield X[3001:]


@pytest.mark.once
@pytest.mark.parametrize(
    "rows",
    [batches(), list(batches()), tuple(batches()), X.tolist(), np.asfortranarray(X), X[::-1][::-1]],
    ids=["generator", "list of batches", "tuple of batches", "list of rows", "column-major", "strided"],
)
def test_every_form_of_rows(rows: Any) -> None:
    np.testing.assert_allclose(KERNELS[0].exact_density(rows, Y), KERNELS[0].exact_density(X, Y), rtol=1e-12)


@pytest.mark.once
def test_the_number_of_threads_does_not_matter() -> None:
    one, two, seven = (KERNELS[0].exact_density(X, Y, threads=threads) for threads in (1, 2, 7))
    assert one.tobytes() == two.tobytes() == seven.tobytes()


@pytest.mark.once
def test_float32_rows_are_summed_in_double_precision() -> None:
    single = X.astype(np.float32)
    np.testing.assert_allclose(
        KERNELS[0].exact_density(single, Y), KERNELS[0].exact_density(single.astype(np.float64), Y), rtol=1e-12
    )


@pytest.mark.once
@pytest.mark.usefixtures("two_blas_threads")
def test_workers_are_threads_with_one_blas_thread_each() -> None:
    seen: set[tuple[int, int]] = set()

    def profile(differences: np.ndarray) -> np.ndarray:
        threads = max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        seen.add((threading.get_ident(), threads))
        return np.exp(-np.abs(differences).sum(axis=-1))

    kernel = ShiftInvariant(profile, lambda stream, count, dimension: np.zeros((dimension, count)), 1.0)
    expected = Laplacian(1.0).exact_density(X[:1400], Y)
    np.testing.assert_allclose(kernel.exact_density(X[:1400], Y, threads=2), expected, rtol=1e-12)
    assert {threads for _, threads in seen} == {1}
    assert threading.get_ident() not in {thread for thread, _ in seen}


@pytest.mark.once
def test_memory_does_not_grow_with_the_rows() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        Gaussian(1.0).exact_density((np.zeros((700, 3)) for _ in range(count)), Y, threads=2)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(2)
    assert peak(150) < peak(30) + 100_000 < 150 * 700 * 3 * 8


@pytest.mark.once
def test_no_queries() -> None:
    assert KERNELS[0].exact_density(X, np.zeros((0, 3))).shape == (0,)


@pytest.mark.once
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((0, 3)), "no rows"),
        ([], "2-d"),
        (iter([]), "no rows"),
        (np.zeros(3), "2-d"),
        (iter([np.zeros(3)]), "2-d"),
        (5, "iterable of 2-d batches; got int"),
        (np.zeros((4, 2)), "X has 2 column.*Y has 3"),
        (np.full((4, 3), np.nan), "X holds NaN or infinite"),
        ([["a", "b", "c"]], "X must hold numbers"),
    ],
)
def test_refused_rows(rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Gaussian(1.0).exact_density(rows, Y)


@pytest.mark.once
def test_refused_threads() -> None:
    with pytest.raises(InputError, match="threads must be a positive whole number.*got 0"):
        Gaussian(1.0).exact_density(X, Y, threads=0)


@pytest.mark.once
@pytest.mark.data
def test_diabetes_check_values() -> None:
    """Mean and spread of the density over held-out points, as published for bandwidth 1."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        pytest.skip("SFUMATO_DATA is not set")
    with np.load(Path(folder) / "diabetes2d.npz", allow_pickle=False) as data:
        points = RNG.permutation(data["X"])
    # Both columns take few values, so 5,000 held-out points are few distinct ones.
    distinct, occurrences = np.unique(points[:5000], axis=0, return_inverse=True)
    density = Gaussian(1.0).exact_density(points[5000:], distinct)[occurrences.ravel()]
    assert density.mean() == pytest.approx(0.0628, abs=0.002)
    assert density.std() == pytest.approx(0.0332, abs=0.002)
