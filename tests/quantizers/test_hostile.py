"""Releases from anywhere: every field of a quantizer has a range, and a small file cannot take much memory or time."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError, SfumatoError
from sfumato.kernels import (
    L1LSH,
    Angular,
    Cauchy,
    Erfc,
    Exponential,
    Gaussian,
    InnerProduct,
    Jaccard,
    Kernel,
    Laplacian,
    Rational,
)
from sfumato.public.ranges import DRAWN_BYTES, READER_MEMORY, reader_memory
from sfumato.quantizers import Box, FourierQuantizer, GridQuantizer, HashingQuantizer, quantizer_from_document
from sfumato.quantizers.base import Known
from tests.quantizers.families import QUANTIZERS

pytestmark = pytest.mark.once

HOSTILE = (None, True, -1, 0, 1, 2**70, 1e308, 1e-300, "x", "9" * 90, [], [[1.0]], {"a": 1})


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = document.items() if isinstance(document, dict) else enumerate(document[:2])
    for key, part in items:
        if isinstance(part, dict | list):
            yield from _places(part, (*path, key))
        else:
            yield (*path, key)


def _changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = _changed(document[path[0]], path[1:], value)
    return copy


KERNELS: dict[str, Kernel | None] = {
    "pair": Gaussian([0.5, 1.0, 2.0, 0.1, 3.0]),
    "sharded": Gaussian(0.7),
    "grid": None,  # the quantizer's own
    "hashed-grid": None,
    "exponential-sums": Rational(2.0, "l1"),
    "projected-fast": None,
    "cells-sharded": None,
    "cells-grid": None,
    "p-stable": L1LSH([0.7, 1.0, 2.0, 0.4, 3.0]),
    "signed-projections": Angular(2),
    "hyperplanes": Exponential(8.0),
    "min-hash": Jaccard(),
    "landmarks": Gaussian(np.diag([2.0, 3.0, 1.5, 2.0, 4.0]) + 0.2),
    "landmarks-row-by-row": Angular(),
    "inner-product": InnerProduct(2.0),
    "inner-product-rotated": InnerProduct(2.0),
    "inner-product-signs": InnerProduct(2.0),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_hostile_field_is_refused_or_answers_with_numbers(name: str) -> None:
    """Whatever one field becomes: an error when it is read, or finite answers."""
    quantizer: Any = QUANTIZERS[name]()
    kernel = KERNELS[name] or quantizer.kernel
    document, arrays = quantizer.to_document()
    sums = np.random.default_rng(1).integers(-1000, 1000, quantizer.size).astype(np.float64)
    assert quantizer_from_document(document, arrays, kernel, quantizer.size).to_document()[0] == document
    for path in _places(document):
        for value in HOSTILE if path else ():
            try:
                read = quantizer_from_document(_changed(document, path, value), arrays, kernel, quantizer.size)
            except (SfumatoError, ArithmeticError, ValueError):  # a release turns the others into ReleaseFileError
                continue
            query = np.clip(0.25, read.box.lower, read.box.upper)[None]
            try:
                answer = read.read(query, sums, Known(4.0, 100.0, 1.0))
            except InputError:  # which says that the query cannot be placed
                continue
            assert np.isfinite(answer.total).all() and not np.isnan(answer.standard_error).any(), (path, value)


def _fourier(terms: int, columns: int) -> dict[str, Any]:
    quantizer = FourierQuantizer.draw(Gaussian(1.0), 1, 4, seed=1, layout="phase", bounds=(-1, 1))
    document = quantizer.to_document()[0]
    phases = {**document["phases"], "terms": terms, "exponents": document["phases"]["exponents"] * columns}
    box = {**phases["box"], "lower": [-1.0] * columns, "upper": [1.0] * columns}
    return {**document, "phases": {**phases, "box": box}}


def _hashing(kernel: Kernel, bounds: Any, rows: int, columns: int) -> dict[str, Any]:
    document = HashingQuantizer.draw(kernel, 1, 2, seed=1, width=4, bounds=bounds).to_document()[0]
    box = {**document["box"], "lower": [float(bounds[0])] * columns, "upper": [float(bounds[1])] * columns}
    return {**document, "rows": rows, "width": 2, "box": box}


@pytest.mark.parametrize(
    ("document", "kernel", "size"),
    [
        (_fourier(100_000, 2000), Gaussian(1.0), 100_000),
        (_hashing(Laplacian(1.0), (-1, 1), 50_000, 6000), Laplacian(1.0), 100_000),
        (_hashing(Exponential(1.0), (-1, 1), 50_000, 900), Exponential(1.0), 100_000),
        (_hashing(Erfc(1.0), (-1, 1), 50_000, 3), Erfc(1.0), 100_000),
    ],
)
def test_a_small_file_cannot_ask_for_gigabytes(document: dict[str, Any], kernel: Kernel, size: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SfumatoError, match="pass max_memory= to load"):
            quantizer_from_document(document, {}, kernel, size)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_the_caller_may_allow_more_or_less() -> None:
    document = _fourier(1000, 10)
    with reader_memory(1000), pytest.raises(InputError, match="are allowed; pass max_memory="):
        quantizer_from_document(document, {}, Gaussian(1.0), 1000)
    with reader_memory(2 * READER_MEMORY), pytest.raises(SfumatoError, match="not the ones it was made with"):
        quantizer_from_document(document, {}, Gaussian(1.0), 1000)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0), Exponential(1.0), Rational(2.0)], ids=repr)
def test_the_memory_that_is_allowed_is_the_memory_that_is_taken(kernel: Kernel) -> None:
    """What `load` refuses follows from a count of numbers: reading and one answer take no more bytes than it says."""
    columns, terms = 100, 10_000
    drawn = FourierQuantizer.draw(kernel, columns, terms, seed=1, layout="phase", bounds=(-1, 1))
    document = drawn.to_document()[0]
    tracemalloc.start()
    try:
        read = quantizer_from_document(document, {}, kernel, terms)
        read.read(np.zeros((1, columns)), np.ones(terms), Known(4.0, 100.0, 1.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    slack = 16e6  # of blocks, whatever the size
    assert peak < DRAWN_BYTES * (columns + 4) * terms + slack


def test_a_hashed_grid_whose_queries_would_not_end_is_refused() -> None:
    box = Box((0.0,) * 4, (2000.0,) * 4)
    grid = GridQuantizer(Cauchy(1.0), box, spacing=0.5, buckets=2)
    document, arrays = grid.to_document()
    with pytest.raises(InputError, match="one answer of this release takes"):
        quantizer_from_document(document, arrays, Cauchy(1.0), 2)


def test_an_inner_product_of_another_radius_is_refused() -> None:
    document, arrays = QUANTIZERS["inner-product"]().to_document()
    size = len(document["ball"]["box"]["lower"])
    with pytest.raises(SfumatoError, match="of the same radius"):
        quantizer_from_document(document, arrays, InnerProduct(math.pi), size)
