"""Users and weights that come apart: beside their rows, whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato import InputError
from sfumato.sources import open_source
from sfumato.sources.beside import attach, is_untyped

ROWS = np.arange(6.0).reshape(3, 2)
NAMES = ["ada", "bob", "ada"]


@pytest.mark.parametrize(
    "users", [NAMES, np.array(NAMES), pd.Series(NAMES), pa.array(NAMES), pa.chunked_array([NAMES])]
)
def test_users_are_the_same_however_they_are_held(users: Any) -> None:
    [(block, keys)] = attach(open_source(ROWS), users=users).keyed_batches()
    [(_, plain)] = attach(open_source(ROWS), users=NAMES).keyed_batches()
    assert (keys == plain).all() and (block == ROWS).all()
    assert (keys[0] == keys[2]).all() and (keys[0] != keys[1]).any()


@pytest.mark.parametrize("weights", [[0.5, None, 1], np.array([0.5, np.nan, 1.0]), pd.Series([0.5, None, 1.0])])
def test_weights_are_read_like_other_numbers(weights: Any) -> None:
    pieces = list(attach(open_source(ROWS), weights=weights).pieces(2))
    found = np.concatenate([piece.weights for piece in pieces if piece.weights is not None])
    assert found == pytest.approx([0.5, np.nan, 1.0], nan_ok=True)


@pytest.mark.parametrize("beside", [{"users": NAMES[:2]}, {"weights": [1.0] * 4}, {"users": np.array([NAMES])}])
def test_as_many_as_rows_and_in_one_dimension(beside: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        list(attach(open_source(ROWS), **beside).pieces())


def test_users_come_once() -> None:
    keyed = open_source([["ada", 1.0]], key=0)
    with pytest.raises(InputError, match="come with users already"):
        attach(keyed, users=["bob"])


def test_what_has_no_declared_type() -> None:
    assert [is_untyped(values) for values in ([1], (1,), np.ones(1), "text", 7)] == [True, True, False, False, False]
