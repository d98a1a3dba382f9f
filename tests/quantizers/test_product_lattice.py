"""Series by products of columns: every pair is its mode's, and in its disc; `test_lattice` has what all series do."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.quantizers import Box
from sfumato.quantizers.product_lattice import FINE, ProductLattice


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
def test_products_of_columns_are_the_modes(columns: int) -> None:
    """Halves of one to three columns, modes of both signs and 0: every pair is its mode's, up to the roundings."""
    random = np.random.default_rng(columns)
    modes = np.unique(random.integers(-4, 5, size=(40, columns)), axis=0)
    modes = modes[modes.any(axis=1)]
    box, periods = Box((-1.0,) * columns, (2.0,) * columns), (5.0,) * columns
    quantizer = ProductLattice(Gaussian(1.0), box, periods, modes, np.full((len(modes), 2), [3000, 900]))
    rows = random.uniform(-1, 2, size=(2000, columns))
    pairs = quantizer.encode(rows).reshape(len(rows), -1, 2)
    assert (np.square(pairs).sum(axis=2) <= np.square(quantizer.radii)).all()
    angles = 2 * np.pi * (rows + 1) @ modes.T / 5.0
    errors = pairs / quantizer.lengths[:, None] - np.stack([np.cos(angles), np.sin(angles)], axis=2)
    largest, typical = quantizer.table_errors
    assert (np.sqrt(np.square(errors).sum(axis=2)) <= largest).all()
    assert (np.sqrt(np.square(errors).mean(axis=(0, 2))) <= 1.2 * np.asarray(typical)).all()


def test_the_disc_holds_at_every_position() -> None:
    """All positions of a period, high powers: rounding to the nearest at the full radius would leave the disc."""
    quantizer = ProductLattice(
        Gaussian(1.0),
        Box((0.0,), (4.0,)),
        (4.0001,),
        np.array([[1], [7], [50]]),
        np.array([[90, 9], [900, 9], [4096, 9]]),
    )
    pairs = quantizer.encode(np.linspace(0, 4, 2**18)[:, None]).reshape(-1, 3, 2)
    assert (np.square(pairs).sum(axis=2) <= np.square(quantizer.radii)).all()


def test_pairs_that_share_a_part_share_its_radius() -> None:
    box, modes = Box((0.0, 0.0), (4.0, 4.0)), np.array([[1, 0], [1, 1]])
    with pytest.raises(InputError, match="share its radius"):
        ProductLattice(Gaussian(1.0), box, (5.0, 5.0), modes, np.array([[90, 50], [91, 60]]))
    with pytest.raises(InputError, match="two radii"):
        ProductLattice(Gaussian(1.0), box, (5.0, 5.0), modes, np.array([[90, 50], [90, 1]]))


def test_tables_are_whole_in_the_disc_and_the_same_on_every_machine() -> None:
    made = ProductLattice(Gaussian(1.0), Box((0.0,), (6.0,)), (9.2,), np.array([[1]]), np.array([[90, 11]]))
    *_, coarse, fine = made._tables
    sine = coarse[(np.arange(len(coarse)) - len(coarse) // 4) % len(coarse)]
    for real, imaginary in ((coarse, sine), fine):
        assert (real == np.rint(real)).all() and (np.square(real) + np.square(imaginary) <= FINE**2).all()
    turns = ((np.arange(len(coarse)) + 0.5) / len(coarse) - 0.5) / len(coarse)
    exact = (FINE - 1) * np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)])
    assert np.array_equal(fine, np.rint(exact))
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 1e-4  # no entry is near enough to a tie for a last digit


@pytest.mark.parametrize("rows", [1, 5, 512, 600])
def test_blocks_of_which_no_row_is_kept_add_nothing(rows: int) -> None:
    made = ProductLattice(Gaussian(1.0), Box((0.0,), (6.0,)), (9.2,), np.array([[1]]), np.array([[90, 11]]), 7)
    sums = np.zeros(made.size, dtype=np.int64)
    assert made.accumulate(np.full((rows, 1), np.nan), sums) == 0 and not sums.any()
    assert made.encode(np.full((rows, 1), np.inf)).shape == (0, made.size)
    mixed = np.vstack([np.full((rows, 1), np.nan), [[1.0]]])
    assert made.accumulate(mixed, sums) == 1 and np.array_equal(sums, made.encode(np.array([[1.0]]))[0])
