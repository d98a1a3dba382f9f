"""Bernstein polynomials and even trigonometric moments: right in their limit, within bounds, read by their weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Cauchy, Gaussian, Laplacian
from sfumato.published.polynomials import BernsteinQuantizer, TrigonometricQuantizer
from sfumato.published.separable import SeparableQuantizer
from sfumato.quantizers import Box, quantizer_from_document

BOX = Box((-1.0, 2.0), (3.0, 5.0))
POINTS = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, size=(300, 2))
QUERIES = np.random.default_rng(1).uniform(BOX.lower, BOX.upper, size=(25, 2))
FAMILIES = [BernsteinQuantizer, TrigonometricQuantizer]


def _made(family: type[SeparableQuantizer], degree: int = 6, **arguments: Any) -> SeparableQuantizer:
    kept = {"kernel": Gaussian([1.0, 1.5]), "bounds": BOX, "scale": 2**15, "density": 0.02, **arguments}
    return family(degree=degree, **kept)


def _errors(quantizer: SeparableQuantizer) -> np.ndarray:
    fitted = quantizer.encode(POINTS) @ quantizer.weights(QUERIES).T
    return np.asarray(fitted - quantizer.kernel.value(POINTS, QUERIES))


def test_bernstein_integers_are_kernel_values_at_the_nodes() -> None:
    quantizer = _made(BernsteinQuantizer, degree=3)
    nodes = np.stack(np.meshgrid(np.linspace(-1, 3, 4), np.linspace(2, 5, 4), indexing="ij"), axis=-1).reshape(-1, 2)
    expected = quantizer.kernel.value(POINTS, nodes) * 2**15
    assert np.abs(quantizer.encode(POINTS) - expected).max() <= 0.5 + 1e-6


def test_even_trig_integers_are_products_of_cosines() -> None:
    quantizer = _made(TrigonometricQuantizer, degree=7)
    angles = np.arccos((POINTS - [1.0, 3.5]) / [2.0, 1.5])
    orders = np.arange(7)
    expected = np.cos(angles[:, :1, None] * orders[:, None]) * np.cos(angles[:, 1:, None] * orders)
    assert np.abs(quantizer.encode(POINTS) - expected.reshape(300, -1) * 2**15).max() <= 0.5 + 1e-6


def test_even_trig_converges_like_a_smooth_series() -> None:
    degrees = (4, 8, 12, 16)
    errors = [np.abs(_errors(_made(TrigonometricQuantizer, degree, scale=2**30))).max() for degree in degrees]
    ratios = [first / second for first, second in pairwise(errors)]
    assert ratios[0] > 10 and ratios == sorted(ratios)  # faster than any power
    assert errors[-1] < 1e-5


def test_even_trig_of_more_orders_than_nodes_answers() -> None:
    quantizer = TrigonometricQuantizer(Gaussian(1.0), Box((0.0,), (100.0,)), degree=4200, scale=2**30, density=0.02)
    records, queries = np.array([[30.0], [50.0]]), np.array([[30.5], [50.0], [80.0]])
    fitted = quantizer.weigh(queries, quantizer.encode(records).sum(axis=0).astype(float)).total
    assert np.allclose(fitted, quantizer.kernel.value(records, queries).sum(axis=0), atol=1e-4)


def test_bernstein_converges_as_its_formula_says() -> None:
    """The error tends to sum_j y_j (1 - y_j) / (2 K) d2k/dy_j2, y in units of the box."""
    degree, step = 60, 1e-3
    quantizer = _made(BernsteinQuantizer, degree, scale=2**30)
    leading = np.zeros((300, 25))
    for column, width in enumerate((4.0, 3.0)):
        shift = np.eye(2)[column] * step
        values = [quantizer.kernel.value(POINTS, QUERIES + sign * shift) for sign in (-1, 0, 1)]
        place = (QUERIES[:, column] - BOX.lower[column]) / width
        second = (values[0] - 2 * values[1] + values[2]) / step**2 * width**2
        leading += place * (1 - place) / (2 * degree) * second
    errors = _errors(quantizer)
    assert np.abs(errors - leading).max() < 0.25 * np.abs(leading).max()
    assert np.abs(errors).max() > 0.03


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian([1.0, 2.0]), Cauchy(1.2)], ids=repr)
def test_reading_contracts_the_weights(family: type[SeparableQuantizer], kernel: Any) -> None:
    quantizer = _made(family, kernel=kernel)
    sums = np.random.default_rng(2).normal(size=quantizer.size) * 1e4
    reading, weights = quantizer.weigh(QUERIES, sums), quantizer.weights(QUERIES)
    np.testing.assert_allclose(reading.total, weights @ sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(reading.weight_squares, (weights**2).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bias_is_the_misfit_over_the_box(family: type[SeparableQuantizer]) -> None:
    quantizer = _made(family, degree=5, density=0.5)
    side = [
        np.linspace(low, high, 257)[:-1] + (high - low) / 512 for low, high in zip(BOX.lower, BOX.upper, strict=True)
    ]
    rows = np.stack(np.meshgrid(*side, indexing="ij"), axis=-1).reshape(-1, 2)
    few = QUERIES[:4]
    fitted, exact = quantizer.encode(rows) @ quantizer.weights(few).T, quantizer.kernel.value(rows, few)
    misfit = np.sqrt(((fitted - exact) ** 2).sum(axis=0) / (exact**2).sum(axis=0))
    np.testing.assert_allclose(quantizer.weigh(few, np.zeros(quantizer.size)).bias, 0.5 * misfit, rtol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_are_reached_and_not_passed(family: type[SeparableQuantizer]) -> None:
    narrow = Box((0.0, 0.0), (1e-6, 1e-6))
    quantizer = _made(family, degree=2, bounds=narrow)
    encoded = quantizer.encode(np.array([[1e-6, 1e-6], [0.0, 0.0], [5.0, -5.0]]))
    assert np.abs(encoded).sum(axis=1).max() == quantizer.bound.l1
    assert (encoded**2).sum(axis=1).max() == quantizer.bound.l2_squared
    assert np.abs(encoded).max() == quantizer.bound.largest


def test_bernstein_refuses_queries_outside_its_box() -> None:
    quantizer = _made(BernsteinQuantizer)
    with pytest.raises(InputError, match=r"within its bounds only: column 1 has one outside \(2, 5\)"):
        quantizer.weigh(np.array([[0.0, 5.1]]), np.zeros(quantizer.size))
    assert np.isfinite(quantizer.weigh(np.array([[3.0, 5.0 + 1e-12]]), np.zeros(quantizer.size)).total).all()


def test_even_trig_answers_beside_its_box() -> None:
    quantizer = _made(TrigonometricQuantizer, degree=14)
    outside = np.array([[3.7, 5.5]])
    total = quantizer.weigh(outside, quantizer.encode(POINTS).sum(axis=0).astype(float)).total
    assert total[0] == pytest.approx(quantizer.kernel.value(POINTS, outside).sum(), abs=0.05)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_quantizer_survives_its_document(family: type[SeparableQuantizer]) -> None:
    quantizer = _made(family, degree=4, density=0.3)
    document, arrays = quantizer.to_document()
    again = quantizer_from_document(document, arrays, quantizer.kernel, quantizer.size)
    sums = np.arange(quantizer.size, dtype=float)
    for name in ("total", "weight_squares", "bias"):
        assert np.array_equal(getattr(again.weigh(QUERIES, sums), name), getattr(quantizer.weigh(QUERIES, sums), name))
    with pytest.raises(ReleaseFileError, match=f"of {quantizer.size} integers, and the release holds 3"):
        quantizer_from_document(document, arrays, quantizer.kernel, 3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": Gaussian([[1.0, 0.0], [0.3, 1.0]])}, "not a matrix"),
        ({"degree": 0}, "positive"),
        ({"scale": 0}, "positive"),
        ({"kernel": Gaussian([1.0, 1.0, 1.0])}, "3 column"),
    ],
)
def test_what_cannot_be_is_refused(family: type[SeparableQuantizer], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _made(family, **arguments)


def test_the_kernel_at_all_nodes_counts_in_what_a_query_takes() -> None:
    made = _made(TrigonometricQuantizer)
    assert made.query_products >= made.size + sum(map(len, made._nodes))
