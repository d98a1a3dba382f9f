from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from sfumato.errors import InputError
from sfumato.sources import open_source
from sfumato.sources.base import Rows, block_type, readable, reblock


class Loader:
    """An iterable that starts anew each time, as data loaders do."""

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter([np.full((2, 3), 1.0), np.full((1, 3), 2.0)])


def test_a_loader_that_starts_anew_is_repeatable() -> None:
    source = open_source(Loader())
    assert source.repeatable
    for _ in range(2):
        assert [batch[:, 0].tolist() for batch in source.batches(2)] == [[1.0, 1.0], [2.0]]


def test_opening_draws_no_more_than_the_first_batch() -> None:
    drawn = []

    def batches() -> Iterator[np.ndarray]:
        for number in range(5):
            drawn.append(number)
            yield np.full((4, 2), number, dtype=float)

    source = open_source(batches())
    assert drawn == [0]
    stream = source.batches(4)
    assert next(stream)[0, 0] == 0.0
    assert drawn == [0]
    assert [batch[0, 0] for batch in stream] == [1.0, 2.0, 3.0, 4.0]


def test_joining_types_loses_no_digits() -> None:
    batches = [np.full((2, 1), 0.5, np.float32), np.full((2, 1), 0.1, np.float64), np.full((2, 1), 3, np.int8)]
    [batch] = open_source(iter(batches)).batches()
    assert batch[:, 0].tolist() == [0.5, 0.5, 0.1, 0.1, 3.0, 3.0]


def test_empty_batches_are_passed_over() -> None:
    [batch] = open_source(iter([np.empty((0, 2)), [], [[1, 2]], np.empty((0, 2)), ()])).batches()
    assert batch.tolist() == [[1.0, 2.0]]


def test_columns_are_selected_in_each_batch() -> None:
    frames = [pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [4], "c": ["x"], "a": [3]})]
    [batch] = open_source(iter(frames), columns=["b", "a"]).batches()
    assert batch.tolist() == [[2.0, 1.0], [4.0, 3.0]]


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 4))], r"Batch 3 .* dimension 4 and batch 1 has 3"),
        ([np.ones((2, 3)), np.ones(3)], r"Batch 2 .* 1-dimensional .* reshape"),
        ([np.ones((2, 3)), np.array([["a"] * 3])], r"Batch 2 .* not real numbers"),
        ([np.ones((2, 3)), "rows.csv"], r"Batch 2 .* type str"),
        ([pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})], r"Batch 2 .* columns \('b',\) and batch 1 has \('a',\)"),
    ],
)
def test_a_batch_of_another_kind_is_named(batches: list[object], message: str) -> None:
    source = open_source(iter(batches))
    with pytest.raises(InputError, match=message):
        list(source.batches())


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], r"no batch, so the dimension is unknown"),
        ([np.ones(3)], r"Batch 1 .* reshape"),
        ([7], r"Batch 1 .* type int"),
        ([[]], r"Batch 1 .* dimension is unknown"),
    ],
)
def test_the_first_batch_is_checked_at_opening(batches: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(iter(batches))


def test_errors_of_the_callers_code_are_left_alone() -> None:
    def batches() -> Iterator[np.ndarray]:
        yield np.ones((1, 1))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(open_source(batches()).batches())


def test_a_buffer_that_is_filled_again_does_not_repeat_its_last_batch() -> None:
    def refilling() -> Iterator[np.ndarray]:
        buffer = np.empty((100, 2))
        for number in range(50):
            buffer[:] = number
            yield buffer

    rows = np.concatenate(list(open_source(refilling()).batches(rows=700)))
    assert np.array_equal(rows[:, 0], np.repeat(np.arange(50.0), 100))


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_pieces_of_any_height_are_cut_and_joined_in_order(rows: int) -> None:
    numbers = np.arange(20.0).reshape(10, 2)
    pieces = [Rows(numbers[start:stop]) for start, stop in ((0, 4), (4, 4), (4, 5), (5, 10))]
    made = list(reblock(iter(pieces), rows))
    assert (np.concatenate([piece.block for piece in made]) == numbers).all()
    assert all(len(piece) == rows for piece in made[:-1])


def test_rows_keep_their_digits_when_they_are_joined() -> None:
    joined = Rows.joined([Rows(np.ones((1, 1), np.float32)), Rows(np.full((1, 1), 1 / 3))])
    assert joined.block.dtype == np.float64 and joined.block[1, 0] == 1 / 3
    assert [block_type(np.dtype(kind)).name for kind in ("i2", "f4", "i4", "f8")] == [
        "float32",
        "float32",
        "float64",
        "float64",
    ]


def test_what_libraries_raise_for_damage_names_the_file() -> None:
    with pytest.raises(InputError, match="x.csv cannot be read as rows"), readable("x.csv"):
        raise EOFError("short")
