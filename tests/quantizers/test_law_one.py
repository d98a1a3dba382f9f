"""Law 1: each row alone decides its integers, bit for bit, however rows are permuted, dropped, blocked or threaded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from threadpoolctl import threadpool_limits

from sfumato.engines import Threads
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import Quantizer
from sfumato.sources import open_source
from tests.quantizers.families import QUANTIZERS, AssignedCoins

pytestmark = pytest.mark.once


def _points(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 5)) * 1.5


def _encode(quantizer: Quantizer, rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    return quantizer.encode(rows, AssignedCoins(groups))


def _sum(quantizer: Quantizer, rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    sums = np.zeros(quantizer.size, dtype=np.int64)
    assert quantizer.accumulate(rows, sums, AssignedCoins(groups)) == len(rows)
    return sums


def test_permuted_rows_keep_their_integers(quantizer: Quantizer) -> None:
    rows, groups = _points(700), np.arange(700) * 7
    order = np.random.default_rng(1).permutation(700)
    assert np.array_equal(
        _encode(quantizer, rows, groups)[order], _encode(quantizer, rows[order].copy(), groups[order])
    )


def test_dropped_rows_leave_the_others_alone(quantizer: Quantizer) -> None:
    rows, groups = _points(301), np.arange(301) * 5
    keep = np.arange(301) % 3 != 1
    assert np.array_equal(_encode(quantizer, rows, groups)[keep], _encode(quantizer, rows[keep], groups[keep]))


@pytest.mark.parametrize("block", [1, 3, 97, 256, 257, 701])
def test_blocks_do_not_matter(quantizer: Quantizer, block: int) -> None:
    rows, groups = _points(701), np.arange(701) * 3
    parts = [_encode(quantizer, rows[i : i + block], groups[i : i + block]) for i in range(0, 701, block)]
    assert np.array_equal(_encode(quantizer, rows, groups), np.concatenate(parts))


@pytest.mark.parametrize("blas_threads", [1, 2])
def test_accumulate_is_the_sum_of_encode_whatever_blas_does(quantizer: Quantizer, blas_threads: int) -> None:
    rows, groups = _points(1033), np.arange(1033) * 11
    with threadpool_limits(limits=blas_threads, user_api="blas"):
        assert np.array_equal(_sum(quantizer, rows, groups), _encode(quantizer, rows, groups).sum(axis=0))


def test_removing_one_row_removes_exactly_its_integers(quantizer: Quantizer) -> None:
    rows, groups = _points(517), np.arange(517) * 13
    without = np.arange(517) != 129
    difference = _sum(quantizer, rows, groups) - _sum(quantizer, rows[without], groups[without])
    assert np.array_equal(difference, _encode(quantizer, rows[129:130], groups[129:130])[0])


def test_float32_points_are_the_same_points(quantizer: Quantizer) -> None:
    rows, groups = _points(64).astype(np.float32), np.arange(64)
    assert np.array_equal(_encode(quantizer, rows, groups), _encode(quantizer, rows.astype(np.float64), groups))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_batches_do_not_change_the_sum(quantizer: Quantizer, threads: int) -> None:
    rows = _points(4001)
    # Children of seeded coins follow the batches.
    batch = (
        500
        if quantizer.name in ("sharded-fourier", "exponential-sums", "cells", "checked-landmarks")
        else 333 * threads
    )
    sums, kept, seen = Threads(threads, batch).sum(open_source(rows), quantizer, SecureBits.seeded(5))
    expected, _, _ = Threads(1, 500).sum(open_source(rows), quantizer, SecureBits.seeded(5))
    assert (kept, seen) == (4001, 4001)
    assert np.array_equal(sums, expected)


@settings(max_examples=50, deadline=None)
@given(rows=hnp.arrays(np.float64, (6, 5), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)))
def test_no_row_whatever_its_values_exceeds_the_bound(rows: np.ndarray) -> None:
    for make in QUANTIZERS.values():
        quantizer = make()
        encoded = _encode(quantizer, rows, np.arange(6))
        assert len(encoded) == np.isfinite(rows).all(axis=1).sum()
        if len(encoded):
            assert np.abs(encoded).sum(axis=1).max() <= quantizer.bound.l1
            assert (encoded**2).sum(axis=1).max() <= quantizer.bound.l2_squared
            assert np.abs(encoded).max() <= quantizer.bound.largest
