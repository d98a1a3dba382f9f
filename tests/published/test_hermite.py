"""The Hermite expansion: right to its truncation, within its bounds order by order, cut off as it says."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import eval_hermite

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian, Laplacian
from sfumato.published import hermite
from sfumato.published.hermite import HermiteQuantizer, cells_of, first_corner, scaled_hermite
from sfumato.quantizers import Box, quantizer_from_document

BOX = Box((-2.3, 0.4), (3.1, 5.0))
KERNEL = Gaussian([1.0, 1.7])
POINTS = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, size=(400, 2))
QUERIES = np.random.default_rng(1).uniform(-3, 6, size=(30, 2))


def _made(**arguments: Any) -> HermiteQuantizer:
    return HermiteQuantizer(**{"kernel": KERNEL, "bounds": BOX, "rho": 4, **arguments})


def _sums(quantizer: HermiteQuantizer, rows: np.ndarray = POINTS) -> np.ndarray:
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(rows, sums)
    return sums.astype(float)


def test_functions_are_scipys() -> None:
    x = np.linspace(-4, 4, 41)
    values = scaled_hermite(x, 12)
    for order in range(12):
        expected = eval_hermite(order, x) * np.exp(-(x**2)) / math.factorial(order)
        np.testing.assert_allclose(values[:, order], expected, atol=1e-12)


def test_cells_are_whole_bandwidths() -> None:
    lengths = np.array([1.0, 1.7])
    assert first_corner(BOX, lengths).tolist() == [-3.0, 0.0]
    assert cells_of(BOX, lengths) == (7, 3)
    assert cells_of(Box((0.0,), (4.0,)), np.array([2.0])) == (2,)
    assert cells_of(Box((0.0,), (1e300,)), np.array([1e-9])) == (2**53,)


@pytest.mark.parametrize("rho", [1, 2, 4, 6, 9, 12])
def test_the_expansion_converges_to_the_kernel(rho: int) -> None:
    quantizer = _made(rho=rho, cutoff="fixed", bits=30)
    # Cramer's inequality: order r of a column is at most 1.09 sqrt(2^r / r!) / 2^r.
    left_out = sum(1.09 * 2.0 ** (-r / 2) / math.sqrt(math.factorial(r)) for r in range(rho, 60))
    errors = quantizer.encode(POINTS[:60]) @ quantizer.weights(QUERIES).T - KERNEL.value(POINTS[:60], QUERIES)
    assert np.abs(errors).max() < (1 + left_out) ** 2 - 1 + 1e-6
    assert np.abs(errors).max() > 0.02 * left_out


def test_integers_are_the_rounded_powers() -> None:
    quantizer = _made(rho=5, bits=20)
    for row, integers in zip(POINTS[:20], quantizer.encode(POINTS[:20]), strict=True):
        units = (row - quantizer.origin) / quantizer.lengths
        cell = np.floor(units).astype(int)
        offset = units - cell - 0.5
        table = integers.reshape(*quantizer.cells, 5, 5)
        for r, s in product(range(5), repeat=2):
            assert abs(table[(*cell, r, s)] - 2**20 * offset[0] ** r * offset[1] ** s) <= 0.5 + 1e-6
        assert np.count_nonzero(table) <= 25 and not np.delete(table.reshape(21, -1), cell @ [3, 1], axis=0).any()


@pytest.mark.parametrize(("rho", "bits"), [(1, 20), (3, 20), (5, 3), (8, 20)])
def test_the_bound_is_reached_and_not_passed(rho: int, bits: int) -> None:
    quantizer = _made(rho=rho, bits=bits, repetitions=2)
    corners = np.array([[-3.0 + 1, 1.7], [-2.0, 1.7 * 2], [1.0, 1.7]])
    edges = np.concatenate([corners, np.nextafter(corners, -10), POINTS])
    encoded = np.abs(quantizer.encode(edges))
    assert encoded.sum(axis=1).max() == quantizer.bound.l1
    assert (encoded**2).sum(axis=1).max() == quantizer.bound.l2_squared
    assert encoded.max() == quantizer.bound.largest
    real = 2 * 2**bits * (2 - 2.0 ** (1 - rho)) ** 2
    assert quantizer.bound.l1 <= real and (bits < 2 * rho or quantizer.bound.l1 == real)


def test_what_the_source_prints_is_not_a_bound() -> None:
    quantizer = _made(rho=4)
    printed = 2**20 * (2 * (1 - 2.0**-3)) ** 2
    assert np.abs(quantizer.encode(np.array([[-2.0, 1.7]]))).sum() > 1.1 * printed


def test_the_published_cut_off_leaves_out_near_records() -> None:
    box = Box((0.0,), (9.0,))
    record = np.array([[2.999]])
    published, fixed = (HermiteQuantizer(Gaussian(1.0), box, 4, cutoff) for cutoff in ("published", "fixed"))
    near, far = np.array([[4.4]]), np.array([[4.6]])
    sums = published.encode(record)[0].astype(float)
    assert published.weigh(near, sums).total[0] == pytest.approx(math.exp(-(1.401**2)), abs=0.01)
    assert published.weigh(far, sums).total[0] == 0.0  # its cell's centre is 2.1 away, more than sqrt(4)
    assert fixed.weigh(far, sums).total[0] == pytest.approx(math.exp(-(1.601**2)), abs=0.01)


@pytest.mark.parametrize("cutoff", ["published", "fixed"])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_read_uses_the_weights(cutoff: str, repetitions: int) -> None:
    quantizer = _made(cutoff=cutoff, repetitions=repetitions)
    sums = np.tile(_sums(_made(cutoff=cutoff)), repetitions)
    reading, weights = quantizer.weigh(QUERIES, sums), quantizer.weights(QUERIES)
    np.testing.assert_allclose(reading.total, weights @ sums, rtol=1e-9, atol=1e-9)
    squares = (weights[:, : quantizer.size // repetitions] ** 2).sum(axis=1) * repetitions**2
    inflation = math.pi / (2 * repetitions) if repetitions > 1 else 1.0
    np.testing.assert_allclose(reading.weight_squares, inflation * squares, rtol=1e-9)


def test_repetitions_answer_by_the_median() -> None:
    once, thrice = _made(), _made(repetitions=3)
    base = _sums(once)
    noisy = np.concatenate([base * factor for factor in (1.0, 5.0, -2.0)])
    np.testing.assert_allclose(thrice.weigh(QUERIES, noisy).total, once.weigh(QUERIES, base).total, atol=1e-9)
    assert np.array_equal(thrice.encode(POINTS[:3]), np.tile(once.encode(POINTS[:3]), 3))
    assert thrice.bound.l1 == 3 * once.bound.l1


@pytest.mark.parametrize("cutoff", ["published", "fixed"])
def test_the_bias_is_the_misfit_over_the_box(cutoff: str) -> None:
    quantizer = _made(rho=3, cutoff=cutoff, density=0.5)
    side = [np.linspace(0, cells, 8 * cells, endpoint=False) + 1 / 16 for cells in quantizer.cells]
    places = np.stack(np.meshgrid(*side, indexing="ij"), axis=-1).reshape(-1, 2)
    rows = quantizer.origin + places * quantizer.lengths
    wide = HermiteQuantizer(KERNEL, Box(tuple(rows.min(axis=0)), tuple(rows.max(axis=0))), 3, cutoff)
    assert wide.cells == quantizer.cells
    fitted = wide.encode(rows) @ wide.weights(QUERIES[:5]).T
    exact = KERNEL.value(rows, QUERIES[:5])
    misfit = np.sqrt(((fitted - exact) ** 2).sum(axis=0) / (exact**2).sum(axis=0))
    np.testing.assert_allclose(quantizer.weigh(QUERIES[:5], np.zeros(quantizer.size)).bias, 0.5 * misfit, rtol=1e-3)


def test_many_cells_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    quantizer = _made()
    whole = quantizer.weigh(QUERIES, _sums(quantizer))
    monkeypatch.setattr("sfumato.published.hermite.BLOCK_CELLS", 50)
    assert np.array_equal(quantizer.weigh(QUERIES, _sums(quantizer)).total, whole.total)


def test_a_quantizer_survives_its_document() -> None:
    quantizer = _made(rho=3, cutoff="fixed", repetitions=2, bits=11, density=0.1)
    document, arrays = quantizer.to_document()
    again = quantizer_from_document(document, arrays, KERNEL, quantizer.size)
    sums = _sums(quantizer)
    for ours, theirs in zip(
        vars(quantizer.weigh(QUERIES, sums)).values(), vars(again.weigh(QUERIES, sums)).values(), strict=True
    ):
        assert np.array_equal(ours, theirs)
    with pytest.raises(ReleaseFileError, match="holds 7"):
        quantizer_from_document(document, arrays, KERNEL, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": Laplacian(1.0)}, "gaussian kernel"),
        ({"kernel": Gaussian([[1.0, 0.0], [0.3, 1.0]])}, "one for each column"),
        ({"rho": 0}, "from 1 to 32"),
        ({"rho": 33}, "from 1 to 32"),
        ({"cutoff": "none"}, "'published' or 'fixed'"),
        ({"repetitions": 0}, "cannot be"),
        ({"kernel": Gaussian([1.0, 1.0, 1.0])}, "3 column"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _made(**arguments)


@pytest.mark.parametrize("cutoff", ["published", "fixed"])
def test_a_query_looks_at_the_cells_around_it_alone(cutoff: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quantizer = _made(kernel=Gaussian(1.0), bounds=Box((0.0, 0.0), (90.0, 3.0)), rho=2, cutoff=cutoff)
    sums = np.random.default_rng(3).normal(size=quantizer.size)
    queries = np.column_stack([np.array([-1e30, -3.0, 0.0, 44.2, 90.0, 93.0]), np.linspace(-1, 4, 6)])
    assert [away.shape for away in quantizer._aways(queries)[1]] == [(6, hermite.WINDOW), (6, 3)]
    near = quantizer.weigh(queries, sums)
    assert near.total == pytest.approx(quantizer.weights(queries) @ sums, rel=1e-12)
    monkeypatch.setattr(hermite, "WINDOW", 90)
    whole = quantizer.weigh(queries, sums)
    assert (near.total == whole.total).all() and (near.weight_squares == whole.weight_squares).all()
    assert near.bias == pytest.approx(whole.bias, rel=1e-12)


def test_cells_of_many_columns_are_not_multiplied_out() -> None:
    many = Box((0.0,) * 3000, (1e50,) * 3000)
    assert 2**64 <= _made(kernel=Gaussian(1e-50), bounds=many, rho=32).size < 2**128
