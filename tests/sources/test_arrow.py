"""Which numbers come out: types, nulls, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

from sfumato.sources import open_source
from sfumato.sources.arrow import _replaced, layout_of
from sfumato.sources.selection import Selection

FLOAT32 = ["bool", "int8", "uint8", "int16", "uint16", "float16", "float32"]
FLOAT64 = ["int32", "uint32", "int64", "uint64", "float64"]


@pytest.mark.parametrize(("kind", "expected"), [(k, np.float32) for k in FLOAT32] + [(k, np.float64) for k in FLOAT64])
@pytest.mark.parametrize("wrap", [np.asarray, lambda a: pa.table({"x": a[:, 0], "y": a[:, 1]})], ids=["array", "table"])
def test_the_float_type_holds_every_value(kind: str, expected: type, wrap: Callable[[np.ndarray], object]) -> None:
    info = np.finfo(kind) if "float" in kind else np.iinfo("int8" if kind == "bool" else kind)
    array = np.array([[0, 1], [info.max, info.min]], dtype=object).astype(kind)
    [batch] = open_source(wrap(array)).batches()
    assert batch.dtype == expected
    np.testing.assert_array_equal(batch, array.astype(np.float64))


@pytest.mark.parametrize(("kind", "expected"), [("bool", np.float32), ("int16", np.float32), ("int64", np.float64)])
def test_sparse_matrices_of_integers(kind: str, expected: type) -> None:
    [batch] = open_source(scipy.sparse.csc_array(np.eye(3, dtype=kind)), columns=[2, 0]).batches()
    assert batch.dtype == expected
    np.testing.assert_array_equal(batch, np.eye(3)[:, [2, 0]])


def test_long_doubles_become_float64() -> None:
    [batch] = open_source(np.ones((2, 1), np.longdouble)).batches()
    assert batch.dtype == np.float64


def test_one_wide_column_widens_the_block() -> None:
    [batch] = open_source(pa.table({"a": pa.array([1], pa.int8()), "b": pa.array([2**31 - 1], pa.int32())})).batches()
    assert batch.tolist() == [[1.0, 2.0**31 - 1]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.bool_(),
        pa.int8(),
        pa.uint16(),
        pa.int64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(5, 2),
        pa.decimal256(50, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [0, 1, 9])
def test_nulls_become_nan_in_every_type(kind: pa.DataType, start: int) -> None:
    values = [1, None, 0, 1, None, None, 1, 0, 1, None, 1]
    cells = [None if value is None else Decimal(value) for value in values]
    make = (lambda v: v) if pa.types.is_decimal(kind) else (lambda v: None if v is None else kind.to_pandas_dtype()(v))
    # Slices begin inside a byte of Arrow's validity bits, and of its booleans.
    table = pa.table({"x": pa.array([make(v) for v in cells], kind), "y": np.arange(11.0)}).slice(start)
    [batch] = open_source(table).batches()
    expected = [[np.nan if v is None else v, y] for y, v in enumerate(values)][start:]
    np.testing.assert_array_equal(batch, np.array(expected, dtype=float))


def test_nulls_of_other_containers_become_nan() -> None:
    expected = [[1.0, np.nan], [np.nan, 4.0]]
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [np.nan, 4.0]})
    masked = np.ma.masked_array([[1, 7], [7, 4]], mask=[[False, True], [True, False]])
    for data in (frame, masked, [[1, None], [None, 4]], [[1, "four"], ["", "4"]], iter([[[1, None]], [["?", 4]]])):
        [batch] = open_source(data).batches()
        np.testing.assert_array_equal(batch, expected)


def test_what_is_no_number_in_a_list_becomes_nan() -> None:
    [batch] = open_source([[1, 10**400], [1j, 2], [3, [4, 5]]]).batches()
    np.testing.assert_array_equal(batch, [[1, np.nan], [np.nan, 2], [3, np.nan]])


def test_a_list_of_nothing_but_nulls_does_not_raise() -> None:
    [batch] = open_source([[None, None]]).batches()
    assert np.isnan(batch).all()


def test_selected_columns_do_not_mind_the_others() -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "x": [1, 2], "odd": [1j, 2j], "mixed": [1, "a"]})
    for data in (frame, pa.table({"name": ["a", "b"], "x": [1, 2]})):
        [batch] = open_source(data, columns=["x"]).batches()
        assert batch.tolist() == [[1.0], [2.0]]


EMBEDDINGS = [[1, 2, 3], None, [4, None, 6], [7, 8, 9]]
EXPECTED = np.array([[1, 2, 3], [np.nan] * 3, [4, np.nan, 6], [7, 8, 9]], dtype=float)


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("inner", [pa.float32(), pa.int8(), pa.float64()], ids=str)
@pytest.mark.parametrize("in_file", [False, True])
def test_an_embedding_counts_as_its_coordinates(start: int, inner: pa.DataType, in_file: bool, tmp_path: Path) -> None:
    column = pa.array(EMBEDDINGS, pa.list_(inner, 3))
    data = pa.table({"id": ["a", "b", "c", "d"], "e": column, "w": [0.5] * 4}).slice(start)
    if in_file:
        pa.parquet.write_table(data, tmp_path / "rows.parquet")
        data = tmp_path / "rows.parquet"
    source = open_source(data, columns=["w", "e"])
    assert source.dimension == 4
    assert source.column_names == ("w", "e[0]", "e[1]", "e[2]")
    [batch] = source.batches()
    np.testing.assert_array_equal(batch, np.insert(EXPECTED, 0, 0.5, axis=1)[start:])


def test_a_null_embedding_hides_the_numbers_stored_under_it() -> None:
    numbers = pa.array(np.arange(6, dtype=np.float32))
    column = pa.FixedSizeListArray.from_arrays(numbers, 2, mask=pa.array([False, True, False]))
    [batch] = open_source(pa.table({"e": column})).batches()
    np.testing.assert_array_equal(batch, [[0, 1], [np.nan, np.nan], [4, 5]])


def test_tensors_are_embeddings() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    table = pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(values)})
    [batch] = open_source(table.slice(1)).batches()
    np.testing.assert_array_equal(batch, values.reshape(3, 4)[1:])


def test_a_layout_names_every_coordinate_and_copies_batches_of_any_height() -> None:
    schema = pa.schema([("x", pa.float32()), ("e", pa.list_(pa.float32(), 2)), ("name", pa.string())])
    layout = layout_of(schema, Selection(columns=["e", "x"], key="name"), "the table")
    assert layout.names == ("e[0]", "e[1]", "x") and layout.dtype == np.float32
    batch = pa.record_batch([[1.0, None], [[2.0, 3.0], [4.0, 5.0]], ["ada", None]], schema=schema)
    [first, second, third] = layout.pieces([batch, batch, batch], 2)
    assert first.block.tolist()[0] == [2.0, 3.0, 1.0] and np.isnan(second.block[1, 2]) and len(third) == 2


def test_a_column_without_a_type_that_is_declared_as_lists_is_nan(tmp_path: Path) -> None:
    table = pa.table({"x": [1.0, 2.0], "e": pa.nulls(2)})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), table.schema) as writer:
        writer.write_table(table)
    for data in (table, tmp_path / "rows.parquet", tmp_path / "rows.arrow"):
        source = open_source(data, columns=["x", "e[2]"])
        np.testing.assert_array_equal(source.whole(), [[1, np.nan, np.nan], [2, np.nan, np.nan]])


def test_a_wide_schema_is_read_once_and_keeps_what_is_said_of_it() -> None:
    """A change of a schema copies all of it: one for each of 32,000 columns took minutes."""
    fields = [pa.field(str(place), pa.float32()) for place in range(3)]

    said = {b"a": b"b"}

    class Readable:
        metadata = said

        def __iter__(self) -> Iterator[pa.Field]:
            return iter(fields)

    changed = _replaced(Readable(), [1], [pa.field("other", pa.int8())])
    assert changed.equals(pa.schema([fields[0], ("other", pa.int8()), fields[2]], said), check_metadata=True)
