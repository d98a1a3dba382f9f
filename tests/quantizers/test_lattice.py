"""The Fourier series on a box: exact integers in their discs, answers within the stated bias, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.errors import InputError, SfumatoError
from sfumato.kernels import Cauchy, Exponential, Gaussian, Laplacian, ShiftInvariantKernel
from sfumato.quantizers import Box, LatticeQuantizer, ProductLattice, quantizer_from_document
from sfumato.quantizers.base import BLOCK_NUMBERS, Known
from sfumato.quantizers.series import series

SQUARE = Box((0.0, 0.0), (6.0, 6.0))
KERNELS: dict[str, ShiftInvariantKernel] = {
    "gaussian": Gaussian(1.0),
    "laplacian": Laplacian(1.0),
    "cauchy": Cauchy(1.0),
    "columns": Gaussian([1.0, 2.0]),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
families = pytest.mark.parametrize("family", [LatticeQuantizer, ProductLattice])
SMOOTH = np.random.default_rng(0).normal(3, 1.2, size=(3000, 2)).clip(0, 6)
ONE_PLACE = np.full((50, 2), [1.2345, 4.321])


def _quantizer(
    kernel: ShiftInvariantKernel,
    reach: int = 8,
    folded: bool = False,
    counted: int = 999,
    family: type[LatticeQuantizer] = LatticeQuantizer,
) -> LatticeQuantizer:
    """All modes within `reach`, one of each pair."""
    numbers = np.arange(-reach, reach + 1)
    modes = np.array([(i, j) for i in numbers for j in numbers if (i, j) > (0, 0)], dtype=np.int64)
    extents = 6.0 / kernel.column_scales(2)
    periods = tuple(float(2 * extent if folded else extent + 4.0) for extent in extents)
    amplitudes = np.random.default_rng(1).integers(1, 500, size=len(modes))
    if family is ProductLattice:  # a radius for each number of a column, of either sign
        radii = np.random.default_rng(1).integers(500, 4096, size=(reach + 1, 2))
        amplitudes = radii[np.abs(modes), [0, 1]]
    return family(kernel, SQUARE, periods, modes, amplitudes, counted)


def _errors(quantizer: LatticeQuantizer, rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    sums = np.zeros(quantizer.size, dtype=np.int64)
    assert quantizer.accumulate(rows, sums) == len(rows)
    answer = quantizer.read(queries, sums.astype(np.float64), Known(0.0, count=len(rows)))
    return answer.total / len(rows) - quantizer.kernel.exact_density(rows, queries)


@families
@kernels
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("rows", [SMOOTH, ONE_PLACE], ids=["smooth", "one place"])
@pytest.mark.parametrize("counted", [0, 999])
def test_answers_stay_within_the_proven_bias(
    kernel: ShiftInvariantKernel, folded: bool, rows: np.ndarray, counted: int, family: type[LatticeQuantizer]
) -> None:
    quantizer = _quantizer(kernel, folded=folded, counted=counted, family=family)
    queries = np.random.default_rng(2).uniform(0, 6, size=(400, 2))
    errors = _errors(quantizer, rows, queries)
    assert np.abs(errors).max() <= quantizer.bias_bound(queries, np.zeros(0), Known(0.0))[0] + 1e-9
    # Parseval's figure is for queries spread over the whole period, of which the box is a part.
    share = math.prod(
        6.0 / scale / period for scale, period in zip(kernel.column_scales(2), quantizer.periods, strict=True)
    )
    assert math.sqrt(np.square(errors).mean() * share) <= 1.3 * quantizer.typical_bias


@kernels
def test_more_modes_leave_less(kernel: ShiftInvariantKernel) -> None:
    queries = SMOOTH[:200]
    few, many = _quantizer(kernel, 3, folded=True), _quantizer(kernel, 12, folded=True)
    assert many.typical_bias < few.typical_bias / 2
    assert np.abs(_errors(many, SMOOTH, queries)).max() < np.abs(_errors(few, SMOOTH, queries)).max() / 2


@families
@given(rows=hnp.arrays(np.float64, (5, 2), elements=st.floats(allow_nan=True, allow_infinity=True)))
@settings(max_examples=50)
def test_every_row_stays_within_the_bound(rows: np.ndarray, family: type[LatticeQuantizer]) -> None:
    quantizer = _quantizer(Gaussian(1.0), 3, family=family)
    encoded = quantizer.encode(rows)
    assert (np.square(encoded.astype(object)).sum(axis=1) <= quantizer.bound.l2_squared).all()
    pairs = encoded[:, 1:].reshape(len(encoded), len(quantizer.modes), 2)
    assert (np.square(pairs).sum(axis=2) <= np.square(quantizer.radii)).all()
    sums = np.zeros(quantizer.size, dtype=np.int64)
    assert quantizer.accumulate(rows, sums) == len(encoded)
    assert (sums == encoded.sum(axis=0)).all()


@families
def test_the_bound_is_reached_up_to_the_table(family: type[LatticeQuantizer]) -> None:
    quantizer = _quantizer(Gaussian(1.0), 3, family=family)
    norms = np.square(quantizer.encode(SMOOTH).astype(float)).sum(axis=1)
    least = quantizer.counted**2 + np.square(quantizer.lengths * (1 - quantizer.table_errors[0])).sum()
    assert norms.min() >= least
    assert least > 0.985 * quantizer.bound.l2_squared  # for the least radii that are drawn, 500 in both halves


def test_the_series_of_the_gaussian_is_known() -> None:
    period = 10.0
    expected = math.sqrt(math.pi) / period * np.exp(-np.square(math.pi * np.arange(20) / period))
    np.testing.assert_allclose(series(Gaussian(1.0), 6.0, period).coefficients[:20], expected, atol=1e-12)


def test_wrapping_errs_most_at_the_far_end() -> None:
    assert series(Gaussian(1.0), 6.0, 9.2).error == pytest.approx(math.exp(-(3.2**2)), rel=1e-3)
    assert series(Gaussian(1.0), 6.0, 12.0).error == 0


def test_queries_outside_are_refused() -> None:
    quantizer = _quantizer(Gaussian(1.0), 2)
    with pytest.raises(InputError, match="outside the bounds"):
        quantizer.weights(np.array([[6.1, 3.0]]))


def test_many_queries_are_combined_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    modes, ones = np.arange(1, 2001)[:, None], np.ones(2000, dtype=np.int64)
    quantizer = LatticeQuantizer(Gaussian(1.0), Box((0.0,), (6.0,)), (9.2,), modes, ones)
    asked, weights = [], LatticeQuantizer.weights

    def noted(self: LatticeQuantizer, Y: np.ndarray) -> np.ndarray:
        asked.append(len(Y))
        return weights(self, Y)

    monkeypatch.setattr(LatticeQuantizer, "weights", noted)
    queries, sums = np.linspace(0, 6, 3000)[:, None], np.ones(quantizer.size)
    found = quantizer.combined(queries, np.ones(len(queries)), sums, Known(1.0))
    assert max(asked) * quantizer.size <= BLOCK_NUMBERS
    assert np.isclose(found.total, quantizer.read(queries, sums, Known(1.0)).total.sum())


def test_a_bought_count_moves_the_answer_with_it() -> None:
    quantizer = _quantizer(Gaussian(1.0), 4, counted=0)
    sums = np.zeros(quantizer.size)
    answer = quantizer.read(SMOOTH[:3], sums, Known(1.0, count=100.0, count_variance=25.0))
    assert answer.total == pytest.approx(np.full(3, 100 * quantizer.constant))
    assert answer.count_covariance == pytest.approx(25 * quantizer.constant)
    assert (answer.standard_error**2 > (5 * quantizer.constant) ** 2).all()


@families
def test_a_document_is_read_back(family: type[LatticeQuantizer]) -> None:
    quantizer = _quantizer(Gaussian(1.0), 3, family=family)
    document, arrays = quantizer.to_document()
    again = quantizer_from_document(document, arrays, quantizer.kernel, quantizer.size)
    assert type(again) is family
    np.testing.assert_array_equal(again.encode(SMOOTH[:20]), quantizer.encode(SMOOTH[:20]))


HOSTILE: list[tuple[str, Any]] = [
    ("counted", -1),
    ("counted", 1.5),
    ("counted", 2**60),
    ("periods", [9.0]),
    ("periods", [6.0, 9.0]),
    ("periods", [float("nan"), 9.0]),
    ("periods", [1e300, 9.0]),
    ("modes", np.zeros((24, 2), dtype=np.int64)),
    ("modes", np.full((24, 2), 2**40)),
    ("modes", np.full((24, 2), -(2**63))),  # its absolute value is itself
    ("modes", np.ones((24, 3), dtype=np.int64)),
    ("modes", np.ones((24, 2))),
    ("amplitudes", np.zeros(24, dtype=np.int64)),
    ("amplitudes", np.ones((24, 1), dtype=np.int64)),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_hostile_documents_are_refused(name: str, value: Any) -> None:
    quantizer = _quantizer(Gaussian(1.0), 3)
    document, arrays = quantizer.to_document()
    target: dict[str, Any] = arrays if name in arrays else document
    target[name] = value
    with pytest.raises(SfumatoError):
        quantizer_from_document(document, arrays, quantizer.kernel, quantizer.size)


def test_other_kernels_are_refused() -> None:
    with pytest.raises(InputError, match="product over the columns"):
        _quantizer(Exponential(1.0))
