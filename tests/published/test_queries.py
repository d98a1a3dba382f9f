"""Lists of queries: exact values, whitened values within their ball, and no answers beyond the list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian, Laplacian
from sfumato.public.ranges import reader_memory
from sfumato.published.queries import (
    NEW_PART,
    TOGETHER,
    KernelQueries,
    QueryList,
    WhitenedQueries,
    around,
    cholesky,
)
from sfumato.quantizers import Box, quantizer_from_document

QUERIES = np.random.default_rng(0).normal(size=(40, 5))
ROWS = np.random.default_rng(1).normal(size=(600, 5)) * 1.5
BOX = Box((-4.0,) * 5, (4.0,) * 5)
FAMILIES = [KernelQueries, WhitenedQueries]


def _made(family: type[QueryList], **arguments: Any) -> QueryList:
    return family(**{"kernel": Gaussian(2.0), "bounds": BOX, "queries": QUERIES, "scale": 2**15, **arguments})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian([3.0, 1.0, 2.0, 9.0, 4.0])], ids=repr)
def test_answers_are_the_kernel_sums(family: type[QueryList], kernel: Any) -> None:
    quantizer = _made(family, kernel=kernel)
    sums = np.zeros(quantizer.size, dtype=np.int64)
    assert quantizer.accumulate(ROWS, sums) == 600
    reading = quantizer.weigh(QUERIES[::-1], sums.astype(float))
    exact = kernel.value(np.clip(ROWS, -4, 4), QUERIES[::-1]).sum(axis=0)
    # Every record's 40 integers are rounded by at most 1/2.
    np.testing.assert_allclose(reading.total, exact, atol=600 * np.sqrt(40) / 2**16)
    assert (reading.bias == 0).all()
    np.testing.assert_allclose(np.sqrt(reading.weight_squares) * 2**15, 1, atol=1e-3)


def test_a_list_that_takes_a_reader_too_long_is_refused_unless_it_allows_more() -> None:
    long = np.zeros((3000, 5))
    with pytest.raises(InputError, match="first takes 4.5e[+]09 products.*fewer queries"):
        _made(WhitenedQueries, queries=long)
    with reader_memory(2**30):
        assert _made(WhitenedQueries, queries=long).size == 3000


def test_the_factor_is_the_same_whatever_rows_are_made_at_once() -> None:
    queries = np.random.default_rng(2).normal(size=(2 * TOGETHER + 5, 2)).round(1)
    queries[TOGETHER + 3] = queries[1]
    matrix = Gaussian(1.0).value(queries, queries)
    factor = np.zeros_like(matrix)
    for i, j in zip(*np.tril_indices(len(matrix)), strict=True):
        left = matrix[i, j]
        for k in range(j):
            left -= factor[i, k] * factor[j, k]
        if i == j:
            factor[i, i] = np.sqrt(left) if left > NEW_PART**2 else 0.0
        elif factor[j, j]:
            factor[i, j] = left / factor[j, j]
    assert cholesky(matrix).tobytes() == factor.tobytes() and not factor[:, TOGETHER + 3].any()


def test_noise_reaches_whitened_answers_with_the_kernels_covariance() -> None:
    quantizer = _made(WhitenedQueries)
    weights = quantizer.weights(QUERIES) * quantizer.scale
    np.testing.assert_allclose(weights @ weights.T, quantizer.kernel.value(QUERIES, QUERIES), atol=1e-3)


def test_a_query_that_repeats_others_gets_no_coordinate() -> None:
    close = np.concatenate([QUERIES[:3], QUERIES[:3] + 1e-6, QUERIES[:1]])
    quantizer = _made(WhitenedQueries, queries=close)
    encoded = quantizer.encode(ROWS)
    assert not encoded[:, 3:].any() and encoded[:, :3].any(axis=0).all()
    totals = quantizer.weigh(close, encoded.sum(axis=0).astype(float)).total
    np.testing.assert_allclose(totals[3:6], totals[:3], rtol=1e-4)


def test_coordinates_depend_on_earlier_queries_only() -> None:
    short, long = _made(WhitenedQueries, queries=QUERIES[:7], most=40), _made(WhitenedQueries, most=40)
    assert np.array_equal(short.encode(ROWS), long.encode(ROWS)[:, :7])


@pytest.mark.parametrize("family", FAMILIES)
def test_each_row_alone_decides_its_integers(family: type[QueryList]) -> None:
    quantizer = _made(family)
    encoded = quantizer.encode(ROWS)
    order = np.random.default_rng(2).permutation(600)
    assert np.array_equal(encoded[order], quantizer.encode(ROWS[order].copy()))
    parts = [quantizer.encode(ROWS[start : start + 7]) for start in range(0, 600, 7)]
    assert np.array_equal(encoded, np.concatenate(parts))
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(ROWS, sums)
    assert np.array_equal(sums, encoded.sum(axis=0))


@settings(max_examples=60, deadline=None)
@given(rows=hnp.arrays(np.float64, (5, 5), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)))
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [3, 2**15])
def test_no_row_exceeds_the_bound(family: type[QueryList], scale: int, rows: np.ndarray) -> None:
    quantizer = _made(family, scale=scale)
    encoded = np.concatenate([quantizer.encode(rows), quantizer.encode(QUERIES)])
    assert len(encoded) == np.isfinite(rows).all(axis=1).sum() + 40
    assert np.abs(encoded).sum(axis=1).max() <= quantizer.bound.l1
    assert (encoded**2).sum(axis=1).max() <= quantizer.bound.l2_squared
    assert np.abs(encoded).max() <= quantizer.bound.largest


def test_the_clamp_holds_where_rounding_would_pass_it() -> None:
    """Amplitude 1 at scale 1: rounding 40 coordinates could leave the ball, the clamp keeps them in."""
    quantizer = _made(WhitenedQueries, scale=1)
    encoded = quantizer.encode(np.concatenate([ROWS, QUERIES]))
    assert (encoded**2).sum(axis=1).max() == 1


def test_kernel_values_are_never_more_than_one_apart() -> None:
    encoded = _made(KernelQueries).encode(np.concatenate([QUERIES, ROWS[:100]]))
    apart = np.abs(encoded[:, None] - encoded[None])
    assert apart.max() <= 2**15 and apart.sum(axis=2).max() <= 40 * 2**15


@pytest.mark.parametrize("family", FAMILIES)
def test_other_queries_are_refused(family: type[QueryList]) -> None:
    quantizer = _made(family)
    other = QUERIES[:2].copy()
    other[1, 0] = np.nextafter(other[1, 0], 9)
    with pytest.raises(InputError, match="answers the 40 queries that it was made for and no others"):
        quantizer.weigh(other, np.zeros(40))
    zeros = _made(family, queries=np.zeros((1, 5)))
    assert zeros.places(-np.zeros((1, 5))).tolist() == [0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_list_survives_its_document(family: type[QueryList]) -> None:
    quantizer = _made(family)
    document, arrays = quantizer.to_document()
    again = quantizer_from_document(document, arrays, quantizer.kernel, 40)
    sums = np.arange(40.0)
    assert np.array_equal(again.weigh(QUERIES, sums).total, quantizer.weigh(QUERIES, sums).total)
    with pytest.raises(ReleaseFileError, match="of 40 integers, and the release holds 39"):
        quantizer_from_document(document, arrays, quantizer.kernel, 39)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queries": QUERIES[:, :3]}, r"shape \(m, 5\)"),
        ({"queries": QUERIES[:0]}, r"shape \(m, 5\)"),
        ({"queries": np.full((2, 5), np.inf)}, "finite"),
        ({"scale": 0}, "positive"),
    ],
)
def test_what_cannot_be_is_refused(family: type[QueryList], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _made(family, **arguments)


def test_without_bounds_records_that_matter_stay_where_they_are() -> None:
    box = around(np.array([[1e6, 0.0], [1e6 + 1, 5.0]]), np.array([0.1, 2.0]), "clip")
    assert box.lower == pytest.approx((1e6 - 102.4, -2048)) and box.upper == pytest.approx((1e6 + 103.4, 2053))
