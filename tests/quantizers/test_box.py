from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.quantizers.box import Box, Lattice


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 1), "lower < upper"),
        ((2, 1), "lower < upper"),
        ((0, np.inf), "finite"),
        ((np.nan, 1), "finite"),
        ([(0, 1)], "1 columns but the points have 2"),
        ([(0, 1, 2), (0, 1, 2)], "one pair per column"),
        ("abc", "must be numbers"),
    ],
)
def test_bad_bounds_are_named(bounds: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Box.from_bounds(bounds, dimension=2)


def test_one_pair_serves_all_columns() -> None:
    assert Box.from_bounds((0, 2), 3) == Box((0.0,) * 3, (2.0,) * 3)


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(InputError, match="outside must be one of 'clip', 'drop'"):
        Box((0.0,), (1.0,), "wrap")


ROWS = np.array([[0.5, 0.5], [2.0, 0.5], [np.nan, 0.5], [0.5, -np.inf], [-3.0, 7.0]])


def test_clipping_keeps_finite_rows_at_the_edge() -> None:
    lattice = Lattice(Box((0.0, 0.0), (1.0, 1.0)), (-4, -4))
    out = np.empty((5, 2))
    assert lattice.place(ROWS, out) == 3
    assert (out[:3] + lattice.centre).tolist() == [[8, 8], [16, 8], [0, 16]]


def test_dropping_keeps_only_rows_inside() -> None:
    box = Box((0.0, 0.0), (1.0, 1.0), "drop")
    assert Lattice(box, (-4, -4)).place(ROWS, np.empty((5, 2))) == 1
    assert box.holds(ROWS).tolist() == [True, False, False, False, False]


def test_box_survives_its_document() -> None:
    box = Box((0.1, -5.0), (1 / 3, 2.0), "drop")
    assert Box.from_document(box.to_document()) == box


def test_whole_numbers_beyond_all_doubles_are_no_bounds() -> None:
    with pytest.raises(InputError, match="within 1e[+]50 of 0"):
        Box.from_bounds([(0, 10**5000)], 1)
