"""Categories as codes: one rule, whatever the column is held in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.kernels import Overlap
from sfumato.sources.cells import codes_of

CELLS = ["north", "south", " north", "NORTH", "", "7", "west"]
WAYS: dict[str, Any] = {
    "list": CELLS,
    "text": np.array(CELLS),
    "objects": np.array(CELLS, dtype=object),
    "arrow": pa.array(CELLS),
    "dictionary": pa.array(CELLS).dictionary_encode(),
}


@pytest.mark.parametrize("unseen", ["drop", "other"])
@pytest.mark.parametrize("way", WAYS)
def test_a_column_has_the_codes_of_its_cells_alone(way: str, unseen: str) -> None:
    category = Overlap(["north", "south", 7], unseen=unseen)
    alone = [float(codes_of([cell], category)[0]) for cell in CELLS]
    assert np.array_equal(codes_of(WAYS[way], category), alone, equal_nan=True)
    other = 3.0 if unseen == "other" else np.nan
    assert np.array_equal(alone, [0.0, 1.0, 0.0, other, other, 2.0, other], equal_nan=True)


def test_nulls_and_masks_are_unseen() -> None:
    category = Overlap([1, 2], unseen="other")
    assert codes_of(pa.array([1, None, 2]), category).tolist() == [0, 2, 1]
    assert codes_of(np.ma.array([1, 1, 2], mask=[False, True, False]), category).tolist() == [0, 2, 1]
    assert codes_of([1, None, float("nan")], category).tolist() == [0, 2, 2]
    assert codes_of([], category).shape == (0,)
