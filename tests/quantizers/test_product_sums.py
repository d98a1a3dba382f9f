"""Sums of products of columns: exact where numbers are largest, in tiles of any filling; the sum of each row's own."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.compiled import njit
from sfumato.kernels import Gaussian
from sfumato.quantizers import Box
from sfumato.quantizers.product_lattice import RADIUS, ProductLattice
from sfumato.quantizers.product_sums import TILE, dots


@njit()
def four_sums(first, second):  # type: ignore[no-untyped-def]
    return dots(first[0], first[1], second[0], second[1])


def test_dots_are_exact_where_numbers_are_largest() -> None:
    """All products of one sign and size, together beyond 32 bits; then any numbers."""
    most = np.full((2, TILE), RADIUS - 1, dtype=np.int16)
    assert TILE * (RADIUS - 1) ** 2 > 2**31
    assert four_sums(most, -most) == (-TILE * (RADIUS - 1) ** 2,) * 4
    random = np.random.default_rng(1)
    for limit in (1, 300, RADIUS - 1):
        first, second = random.integers(-limit, limit, size=(2, 2, TILE), endpoint=True).astype(np.int16)
        assert four_sums(first, second) == tuple((first.astype(np.int64) @ second.astype(np.int64).T).ravel().tolist())


@pytest.mark.parametrize("odd", [np.zeros((2, TILE)), np.zeros((TILE, 2), dtype=np.int16).T], ids=["wider", "apart"])
def test_dots_refuse_what_they_would_misread(odd: np.ndarray) -> None:
    fine = np.zeros((2, TILE), dtype=np.int16)
    with pytest.raises(Exception, match="No implementation of function"):
        four_sums(odd, fine)
    with pytest.raises(Exception, match="No implementation of function"):
        four_sums(fine, odd)


def lattice(columns: int, outside: str = "clip") -> ProductLattice:
    modes = np.unique(np.random.default_rng(columns).integers(-4, 5, size=(40, columns)), axis=0)
    modes = modes[modes.any(axis=1)]
    box = Box((-1.0,) * columns, (2.0,) * columns, outside=outside)
    return ProductLattice(Gaussian(1.0), box, (5.0,) * columns, modes, np.full((len(modes), 2), [3000, 900]), 5)


@pytest.mark.parametrize("outside", ["clip", "drop"])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [0, 1, TILE - 1, TILE, 3 * TILE + 7])
def test_sums_are_those_of_each_row_alone(columns: int, rows: int, outside: str) -> None:
    """With rows that are dropped and clipped in between, and numbers of either size."""
    made = lattice(columns, outside)
    points = np.random.default_rng(rows).uniform(-1.5, 2.5, size=(rows, columns))
    points[::5, 0], points[3::7, -1] = np.nan, np.inf
    for kind in (np.float64, np.float32):
        given = points.astype(kind)
        each = [made.encode(row[None]) for row in given]
        assert np.array_equal(made.encode(given), np.concatenate([np.zeros((0, made.size), dtype=np.int64), *each]))
        sums = np.ones(made.size, dtype=np.int64)
        assert made.accumulate(given, sums) == sum(map(len, each))
        assert np.array_equal(sums, 1 + sum((one.sum(axis=0) for one in each), np.zeros(made.size, dtype=np.int64)))


def test_positions_and_powers_have_known_integers() -> None:
    """A row at the lower edge has angle 0 and every pair at its length; a quarter of the period turns it by modes."""
    made = lattice(2)
    assert np.array_equal(made.encode(np.full((1, 2), -1.0))[0, 1::2], np.full(len(made.modes), 2999 * 899))
    assert not made.encode(np.full((1, 2), -1.0))[0, 2::2].any()
    turned = made.encode(np.array([[0.25, -1.0]]))[0, 1:].reshape(-1, 2) / made.lengths[:, None]
    angles = np.pi / 2 * made.modes[:, 0]
    assert np.abs(turned - np.stack([np.cos(angles), np.sin(angles)], axis=1)).max() < 2 / 899


@pytest.mark.parametrize("outside", ["clip", "drop"])
def test_numbers_behind_the_boxs_columns_are_not_read(outside: str) -> None:
    quantizer, rows = lattice(2, outside), np.random.default_rng(5).uniform(-2, 3, size=(50, 2))
    more = np.hstack([rows, np.full((50, 2), 1e300)])
    assert np.array_equal(quantizer.encode(more), quantizer.encode(rows))
