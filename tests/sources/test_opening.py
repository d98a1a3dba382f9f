"""Whatever the container: a row, its user and its weight are what they would be if no other row were there."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import PrivateKDE
from sfumato.errors import OddDataWarning
from sfumato.kernels import Gaussian
from sfumato.shuffled import Protocol, SecureAggregation
from sfumato.sources import Source, attach, open_source
from tests.sources.odd_cells import CELLS, objects, rows_of_cells, table_of_objects

Cells = list[Any]


def frame(rows: list[Cells]) -> pd.DataFrame:
    return pd.DataFrame({"a": objects([row[0] for row in rows]), "b": objects([row[1] for row in rows])}, dtype=object)


def masked(rows: list[Cells]) -> np.ndarray:
    return np.ma.array(table_of_objects(rows), mask=[[isinstance(row[0], str), False] for row in rows])


WAYS: dict[str, Callable[[list[Cells]], Any]] = {
    "list": lambda rows: rows,
    "tuple": lambda rows: tuple(map(tuple, rows)),
    "list of arrays": lambda rows: [objects(row) for row in rows],
    "lists and arrays": lambda rows: [objects(row) if row[0] is None else row for row in rows],
    "array": table_of_objects,
    "masked array": masked,
    "data frame": frame,
    "iterator of lists": lambda rows: iter([rows[:2], rows[2:]]),
    "iterator of arrays": lambda rows: iter([table_of_objects(rows[:2]), table_of_objects(rows[2:])]),
    "iterator of frames": lambda rows: iter([frame(rows[:2]), frame(rows[2:])]),
}


def read(source: Source) -> np.ndarray:
    return np.concatenate([np.empty((0, source.dimension)), *source.batches(3)])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None, max_examples=60)
@given(rows=rows_of_cells(2))
def test_each_row_is_read_as_if_it_were_alone(way: str, rows: list[Cells]) -> None:
    together = read(open_source(WAYS[way](rows)))
    alone = [read(open_source(WAYS[way]([row]))) for row in rows]
    np.testing.assert_array_equal(together, np.concatenate(alone))


COLUMNS: dict[str, Callable[[Cells], Any]] = {
    "list": lambda cells: cells,
    "tuple": tuple,
    "deque": deque,
    "array": objects,
    "series": lambda cells: pd.Series(objects(cells), dtype=object),
}


def beside(points: int, **values: Any) -> tuple[np.ndarray, np.ndarray]:
    pieces = list(attach(open_source(np.zeros((points, 1))), **values).pieces())
    return np.concatenate([piece.users for piece in pieces]), np.concatenate([piece.weights for piece in pieces])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", COLUMNS)
@settings(deadline=None, max_examples=60)
@given(cells=st.lists(CELLS, min_size=1, max_size=8))
def test_each_user_and_each_weight_is_read_as_if_it_were_alone(way: str, cells: Cells) -> None:
    make = COLUMNS[way]
    users, weights = beside(len(cells), users=make(cells), weights=make(cells))
    alone = [beside(1, users=make([cell]), weights=make([cell])) for cell in cells]
    np.testing.assert_array_equal(users, np.concatenate([user for user, _ in alone]))
    np.testing.assert_array_equal(weights, np.concatenate([weight for _, weight in alone]))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", ["list", "array", "data frame", "iterator of lists", "iterator of frames"])
@settings(deadline=None, max_examples=60)
@given(rows=rows_of_cells(2))
def test_users_in_a_column_are_read_as_if_they_were_alone(way: str, rows: list[Cells]) -> None:
    def keys(some: list[Cells]) -> np.ndarray:
        source = open_source(WAYS[way](some), key="b" if "frame" in way else 1)
        return np.concatenate([keys for _, keys in source.keyed_batches()])

    np.testing.assert_array_equal(keys(rows), np.concatenate([keys([row]) for row in rows]))


DAY = np.datetime64("2024-01-01")
RANDOM = np.random.default_rng(0).normal(size=(200, 2))
DATA: dict[str, list[Any]] = {
    "numbers": RANDOM.tolist(),
    "dates": [[DAY + int(9 * x), y] for x, y in RANDOM],
    "spans of time": [[np.timedelta64(int(9 * x), "D"), y] for x, y in RANDOM],
    "one-element lists": [[[x], [y]] for x, y in RANDOM.tolist()],
    "masked rows": [np.ma.array(row, mask=[place % 2, 0]) for place, row in enumerate(RANDOM)],
    "texts": [[str(x), str(y)] for x, y in RANDOM.tolist()],
    "decimals": [[Decimal(x), y] for x, y in RANDOM.tolist()],
    "long numbers": [[2**70 + place, 0.5] for place in range(200)],
}
MORE = [[None, 0.5], ["", 0.5], ["x", 0.5], [10**400, 0.5], [1j, 0.5], [[1.0, 2.0], 0.5], [pd.NaT, 0.5]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DATA)
def test_one_more_odd_record_changes_nothing_that_is_released(name: str) -> None:
    model = PrivateKDE(bandwidth=30.0, epsilon=1, bounds=(-1e3, 1e3), n_hint=200, method="grid", random_state=1)
    rows = DATA[name]
    expected = model.fit(rows).release_
    for odd in [*MORE, np.array([None, 0.5]), np.array(["", "0.5"]), np.array([1j, 0.5])]:
        for more in ([*rows, odd], [odd, *rows]):
            release = model.fit(more).release_
            assert np.array_equal(release.values, expected.values)
            assert release.count == expected.count


@pytest.mark.filterwarnings("ignore")
def test_one_more_odd_user_or_weight_changes_no_other() -> None:
    pairs = [["a", "b"], ["b", "c"]] * 3
    assert not beside(6, users=pairs, weights=[1] * 6)[0].any()
    assert not beside(7, users=[*pairs, None], weights=[1] * 7)[0].any()
    weights = [[0.5]] * 6
    assert np.isnan(beside(6, users=range(6), weights=weights)[1]).all()
    assert np.isnan(beside(7, users=range(7), weights=[*weights, None])[1]).all()
    huge = [Decimal("1E+9999999"), np.timedelta64(1, "s"), 1, "ada"]
    keys, _ = beside(4, users=huge, weights=[1] * 4)
    assert keys.any(axis=1).tolist() == [True, False, True, True]


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float32"])
def test_a_missing_weight_does_not_change_the_type_of_the_others(dtype: str) -> None:
    for cells in ([1, 0, 1], [1, None, 1]):
        found = beside(3, users=[1, 2, 3], weights=pd.Series(cells, dtype=dtype))[1]
        np.testing.assert_array_equal(found, [np.nan if cell is None else cell for cell in cells])


@pytest.mark.parametrize(
    "data",
    [
        [["a", 1], ["b", 2]],
        table_of_objects([["a", 1], [None, 2]]),
        pd.DataFrame({"a": objects(["a", 1j]), "b": [1.0, 2.0]}),
    ],
    ids=["list", "array", "data frame"],
)
def test_a_column_without_a_number_is_told_to_the_curator_and_drops_its_rows(data: Any) -> None:
    with pytest.warns(OddDataWarning, match=r"column '(0|a)' holds no numbers.*columns=\['(1|b)'\]"):
        rows = read(open_source(data))
    np.testing.assert_array_equal(rows, [[np.nan, 1], [np.nan, 2]])


def test_columns_that_are_named_in_a_file_are_numbers_whatever_they_hold(tmp_path: Any) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,x\na,1\nb,2\n")
    with pytest.warns(OddDataWarning, match="column 'name' holds no numbers"):
        assert np.isnan(read(open_source(path, ["name"]))).all()


def test_numbers_alone_cause_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OddDataWarning)
        for way in WAYS.values():
            assert read(open_source(way([[1.0, 2], [3, None], [4.0, "5"]]))).shape == (3, 2)


def odd_batches() -> Iterator[Any]:
    yield [[1, 2], ["x", 3]]
    yield np.array([[4, 5]])
    yield table_of_objects([[6, None]])
    yield [np.array([7.0, 8.0], np.float32), (True, "9")]


def test_batches_of_different_kinds_go_together() -> None:
    rows = read(open_source(odd_batches()))
    np.testing.assert_array_equal(rows, [[1, 2], [np.nan, 3], [4, 5], [6, np.nan], [7, 8], [1, 9]])


@pytest.mark.filterwarnings("ignore")
def test_simulated_people_are_read_alone() -> None:
    """An odd point counts as the middle of its bounds, in every container, and stops nobody else."""
    points, odd = RANDOM.tolist(), [["x", 0.5], [DAY, 0.5], [None, 0.5]]
    middle = [[0.0, 0.5]] * 3
    public: dict[str, Any] = {"dimension": 2, "epsilon": 4, "delta": 1e-5, "participants": 200, "bounds": (-5, 5)}
    for kind in (Protocol, SecureAggregation):
        protocol = kind(Gaussian(2.0), **public)
        found, expected = (protocol.simulate(points + more, random_state=1).values for more in (odd, middle))
        assert np.array_equal(found, expected)


def test_arrow_columns_keep_their_declared_type() -> None:
    for cells in ([1, 2], [1, None]):
        source = open_source(pa.table({"x": pa.array(cells, pa.int64())}))
        np.testing.assert_array_equal(read(source)[:, 0], [np.nan if cell is None else cell for cell in cells])
