"""Records on a grid, and the constant answer."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian
from sfumato.published.synthetic import Constant, GridRecords
from sfumato.quantizers import Box, Encoder, quantizer_from_document

BOX = Box((0.0, -1.0), (4.0, 1.0))
GRID = GridRecords(Gaussian([1.0, 0.5]), BOX, (40, 30), scale=16)
ROWS = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, size=(500, 2))
QUERIES = np.random.default_rng(1).uniform(-1, 5, size=(20, 2))


def test_records_move_to_the_nearest_node() -> None:
    encoded = GRID.encode(ROWS)
    assert (encoded.sum(axis=1) == 16).all() and (np.count_nonzero(encoded, axis=1) == 1).all()
    nodes = np.stack(np.meshgrid(*GRID.columns, indexing="ij"), axis=-1).reshape(-1, 2)
    moved = np.abs(nodes[encoded[:, :-1].argmax(axis=1)] - ROWS)
    assert (moved <= np.array([0.05, 1 / 30]) + 1e-12).all()
    corners = GRID.places(np.array([[0.0, -1.0], [4.0, 1.0], [9.0, 9.0], [np.nan, 0.0]]))
    assert corners.tolist() == [0, 1199, 1199]


def test_a_fine_grid_answers_like_the_records() -> None:
    sums = GRID.encode(ROWS).sum(axis=0).astype(float)
    reading = GRID.weigh(QUERIES, sums)
    exact = Gaussian([1.0, 0.5]).value(ROWS, QUERIES).sum(axis=0)
    np.testing.assert_allclose(reading.total, exact, atol=0.005 * 500)
    np.testing.assert_allclose(reading.total, GRID.weights(QUERIES) @ sums, rtol=1e-9)
    assert (reading.weight_squares == 0).all()


def test_the_measured_error_and_the_spacing_are_the_bias() -> None:
    sums = np.append(GRID.encode(ROWS).sum(axis=0)[:-1], 0).astype(float)
    quiet = GRID.weigh(QUERIES, sums)
    spacing = (0.1**2 + (2 / 30 / 0.5) ** 2) / 12
    np.testing.assert_allclose(quiet.bias, spacing * quiet.total / 500)
    sums[-1] = 16 * 25.0  # an error of 25 records' similarity
    np.testing.assert_allclose(GRID.weigh(QUERIES, sums).bias, np.hypot(0.05, quiet.bias))
    sums[-1] = -1e9
    np.testing.assert_allclose(GRID.weigh(QUERIES, sums).bias, quiet.bias)


def test_documents() -> None:
    document, arrays = GRID.to_document()
    again = quantizer_from_document(document, arrays, GRID.kernel, GRID.size)
    sums = np.arange(GRID.size, dtype=float)
    assert np.array_equal(again.weigh(QUERIES, sums).total, GRID.weigh(QUERIES, sums).total)
    with pytest.raises(ReleaseFileError, match="of 1201 integers, and the release holds 1200"):
        quantizer_from_document(document, arrays, GRID.kernel, 1200)
    constant = Constant(BOX, scale=100, noise_weight=0.5, spread=0.6, records=1000)
    document, arrays = constant.to_document()
    again = quantizer_from_document(document, arrays, GRID.kernel, 1)
    assert vars(again) == vars(constant)


def test_a_constant_says_the_same_to_everyone() -> None:
    constant = Constant(BOX, scale=100, noise_weight=0.5, spread=0.6, records=1000)
    reading = constant.weigh(QUERIES, np.array([2500.0]))
    assert (reading.total == 25).all() and (reading.weight_squares == 0.25).all()
    np.testing.assert_allclose(reading.bias, 0.6 * 0.025)
    assert np.array_equal(constant.weights(QUERIES) @ np.array([2500.0]), reading.total)
    assert not isinstance(constant, Encoder)


def test_what_cannot_be_is_refused() -> None:
    for nodes in ((40,), (40, 0), (40, 30, 2)):
        with pytest.raises(InputError, match="no grid"):
            GridRecords(Gaussian(1.0), BOX, nodes)
    with pytest.raises(InputError, match="not a matrix"):
        GridRecords(Gaussian([[1.0, 0.0], [0.3, 1.0]]), BOX, (4, 4))


def test_nodes_of_many_columns_are_not_multiplied_out() -> None:
    grid = GridRecords(Gaussian(1.0), Box((0.0,) * 3000, (1.0,) * 3000), (2**18,) * 3000)
    assert 2**64 <= grid.size < 2**128
