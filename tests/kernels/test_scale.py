"""Bandwidths: what is accepted, what is refused and how, and the linear algebra."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels.base import Scale

RNG = np.random.default_rng(7)
MATRIX = np.array([[2.0, 0.5, 0.0], [-0.3, 1.5, 0.2], [0.1, 0.0, 0.8]])
SCALES = {"number": 1.7, "vector": [0.5, 2.0, 3.0], "matrix": MATRIX}


def full(bandwidth: object) -> np.ndarray:
    numbers = np.asarray(bandwidth, dtype=float)
    return {0: numbers * np.eye(3), 1: np.diag(np.atleast_1d(numbers)), 2: numbers}[numbers.ndim]


@pytest.mark.parametrize("kind", SCALES)
def test_linear_algebra(kind: str) -> None:
    scale, matrix = Scale.of(SCALES[kind]), full(SCALES[kind])
    inverse = np.linalg.inv(matrix)
    differences, frequencies = RNG.normal(size=(5, 4, 3)), RNG.normal(size=(3, 11))
    np.testing.assert_allclose(scale.divide(differences), differences @ inverse.T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scale.divide_frequencies(frequencies), inverse.T @ frequencies, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scale.column_lengths(3), 1 / np.sqrt((inverse**2).sum(axis=0)), rtol=1e-12)
    assert scale.log_determinant(3) == pytest.approx(np.log(abs(np.linalg.det(matrix))), rel=1e-12)
    np.testing.assert_allclose(scale.multiply(3.0).divide(differences), scale.divide(differences) / 3, rtol=1e-12)


def test_the_inner_product_of_frequency_and_difference_is_kept() -> None:
    scale, difference, frequency = Scale.of(MATRIX), RNG.normal(size=3), RNG.normal(size=3)
    seen = frequency @ scale.divide(difference)
    assert scale.divide_frequencies(frequency[:, None])[:, 0] @ difference == pytest.approx(seen, rel=1e-12)


@pytest.mark.parametrize("kind", SCALES)
def test_document_round_trip_and_value_semantics(kind: str) -> None:
    scale = Scale.of(SCALES[kind])
    again = Scale.of(json.loads(json.dumps(scale.to_document())))
    assert again == scale
    assert hash(again) == hash(scale)
    assert scale != Scale.of(np.asarray(SCALES[kind]) * 1.000001)
    np.testing.assert_array_equal(scale.bandwidth, SCALES[kind])
    scale.divide(np.ones((1, 3)))
    assert pickle.loads(pickle.dumps(scale)) == scale == copy.deepcopy(scale)


def test_immutable() -> None:
    given = np.array([1.0, 2.0])
    scale = Scale.of(given)
    given[0] = 9.0
    assert scale.to_document() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        scale.bandwidth[0] = 5.0  # type: ignore[index]
    with pytest.raises(AttributeError):
        scale.shape = ()  # type: ignore[misc]


def test_negative_zero_is_zero() -> None:
    assert Scale.of([[1.0, -0.0], [0.0, 1.0]]) == Scale.of(np.eye(2))


def test_a_number_fits_every_dimension_and_integers_are_numbers() -> None:
    assert Scale.of(2).dimension is None
    assert Scale.of(2) == Scale.of(2.0) == Scale.of(np.float32(2.0)) == Scale.of(np.array(2))
    assert Scale.of([2]).dimension == 1
    np.testing.assert_array_equal(Scale.of(2).column_lengths(4), [2.0] * 4)


@pytest.mark.parametrize(
    ("bandwidth", "message"),
    [
        (0, "bandwidth must be positive; got 0"),
        (-1.5, "bandwidth must be positive; got -1.5"),
        ([1.0, 0.0], "bandwidth must be positive; got 0"),
        (float("nan"), "bandwidth must be finite; got nan"),
        (float("inf"), "bandwidth must be finite; got inf"),
        ([1.0, float("nan")], "bandwidth must be finite"),
        (1e-200, "between 1e-100 and 1e\\+100"),
        ([], "empty"),
        ("scott", "got 'scott'"),
        (None, "got None"),
        (True, "got True"),
        (1j, "positive number"),
        ([[1.0, 2.0], [3.0]], "positive number"),
        (np.ones((2, 3)), "square; got shape \\(2, 3\\)"),
        (np.ones((2, 2, 2)), "square"),
        (np.ones((0, 0)), "square"),
        (np.ones((2, 2)), "invertible"),
        (np.zeros((2, 2)), "invertible"),
        (np.arange(1.0, 10.0).reshape(3, 3), "invertible"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "finite"),
        (np.array([[1e-101, 1e-101], [-1e-101, 1e-101]]), "within 1e\\+100 of 0; use other units"),
        (np.array([[1e101, 1e101], [-1e101, 1e101]]), "within 1e\\+100 of 0; use other units"),
    ],
)
def test_refused(bandwidth: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Scale.of(bandwidth)  # type: ignore[arg-type]


def test_columns_of_very_different_units_are_not_singular() -> None:
    scale = Scale.of(np.diag([1e-9, 1e9]))
    np.testing.assert_allclose(scale.divide(np.array([[1e-9, 1e9]])), [[1.0, 1.0]])


@pytest.mark.parametrize("kind", ["vector", "matrix"])
def test_dimension_mismatch_names_both(kind: str) -> None:
    scale = Scale.of(SCALES[kind])
    for refused in (
        lambda: scale.divide(np.zeros((2, 5))),
        lambda: scale.divide_frequencies(np.zeros((5, 2))),
        lambda: scale.column_lengths(5),
        lambda: scale.log_determinant(5),
    ):
        with pytest.raises(InputError, match="for 3 column.*data has 5"):
            refused()
