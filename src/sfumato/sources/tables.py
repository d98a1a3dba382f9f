"""Tables in memory: data frames, Arrow data, and whatever can be read as one of these.

Points of a GeoDataFrame are two columns of numbers with the unit that its reference system states. A geometry is read
as its well-known binary, each cell alone. What is no point (a null, a line, an empty point) has NaN for coordinates.
Nothing of geopandas is imported: a frame that has `geometry` and `crs` is one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.deferred import pyarrow as pa
from sfumato.sources.arrow import TILE_ROWS, layout_of
from sfumato.sources.base import Source, readable
from sfumato.sources.cells import lists_of, numbers_of
from sfumato.sources.keys import canonical, check_key_dtype
from sfumato.sources.remote import Frame
from sfumato.sources.selection import Selection


def open_pandas(frame: Any, selection: Selection) -> Source:
    """Source over a pandas data frame, converted one piece at a time."""
    origin = "the data frame"
    names = [str(name) for name in frame.columns]
    lengths = selection.lengths(names)
    schema = pa.schema(
        [(name, _pandas_type(frame.iloc[:0, place], name in lengths)) for place, name in enumerate(names)]
    )
    layout = layout_of(schema, selection, origin)
    for name in layout.named:
        check_key_dtype(frame.dtypes.iloc[schema.get_field_index(name)], f"{origin}: column {name!r}")

    def record_batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), TILE_ROWS):
            piece = frame.iloc[start : start + TILE_ROWS]
            columns = {name: piece.iloc[:, schema.get_field_index(name)] for name in layout.used}
            used = [
                ids_of(column) if name in layout.named else _numbers(column, lengths.get(name))
                for name, column in columns.items()
            ]
            # A column backed by Arrow may come in several chunks, which a table aligns.
            yield from pa.Table.from_arrays(used, names=layout.used).to_batches()

    return layout.source(record_batches, expected_rows=len(frame))


def _numbers(column: Any, length: int | None = None) -> pa.Array | pa.ChunkedArray:
    """Numbers of a pandas column; objects one by one, for Arrow would take their type off all of them together."""
    if column.dtype == object and length is not None:
        return pa.FixedSizeListArray.from_arrays(pa.array(lists_of(column, length).ravel()), length)
    if column.dtype == object:
        return pa.array(numbers_of(column.to_numpy()))
    return pa.array(column, from_pandas=True)


def ids_of(column: Any) -> pa.Array | pa.ChunkedArray:
    """Take ids of any kind from a pandas column; objects one by one, for Arrow refuses a mix of numbers and text."""
    return pa.array(map(canonical, column), pa.large_binary()) if column.dtype.kind == "O" else _numbers(column)


def _pandas_type(no_rows: Any, lists: bool) -> pa.DataType:
    """Arrow's type of a column, told from none of its rows; objects, which have no type, are what the caller says."""
    if no_rows.dtype == object:
        return pa.list_(pa.float64()) if lists else pa.float64()
    try:
        return pa.array(no_rows, from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError):
        return pa.null()


def open_stream(data: Any, selection: Selection) -> Source:
    """Source over an Arrow table, record batch or reader, or any frame with `__arrow_c_stream__`."""
    origin = "the table"
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    with readable(origin):
        reader = _reader(data)
    layout = layout_of(reader.schema, selection, origin)
    # A table knows its length and can be streamed again; a reader does not, and is used up.
    repeatable = hasattr(data, "__len__")

    def record_batches() -> Iterator[pa.RecordBatch]:
        with readable(origin):
            yield from _reader(data) if repeatable else reader

    return layout.source(record_batches, repeatable=repeatable, expected_rows=len(data) if repeatable else None)


def open_relation(relation: Any, selection: Selection) -> Source:
    """Source over a DuckDB relation, which is run anew at every reading; its schema comes without any row."""
    origin = "the relation"
    with readable(origin):
        schema = pa.table(relation.limit(0)).schema
    layout = layout_of(schema, selection, origin)

    def record_batches() -> Iterator[pa.RecordBatch]:
        with readable(origin):
            yield from pa.RecordBatchReader.from_stream(relation)

    return layout.source(record_batches)


def _reader(data: Any) -> pa.RecordBatchReader:
    return data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)


def open_dataset(dataset: Any, selection: Selection) -> Source:
    """Source over a pyarrow data set, with the least reading ahead, so that memory stays bounded."""
    origin = "the data set"
    layout = layout_of(dataset.schema, selection, origin)

    def record_batches() -> Iterator[pa.RecordBatch]:
        with readable(origin):
            scanner = dataset.scanner(
                columns=layout.used, batch_size=TILE_ROWS, batch_readahead=1, fragment_readahead=1
            )
            yield from scanner.to_batches()

    return layout.source(record_batches)


def open_spark(frame: Any, selection: Selection) -> Source:
    """Source over a Spark DataFrame, of which only the schema is looked at here."""
    layout = layout_of(frame.limit(0).toArrow().schema, selection, "the Spark DataFrame")
    columns = ["`" + name.replace("`", "``") + "`" for name in layout.used]
    return replace(layout.source(tuple), read=Frame(frame=frame.select(*columns), layout=layout))


_POINT = 1
_ODD = (float("nan"), float("nan"))


def is_geographic_frame(data: Any) -> bool:
    """Tell whether a data frame has an active geometry."""
    return getattr(data, "_geometry_column_name", None) is not None and hasattr(data, "crs")


def open_points(frame: Any, selection: Selection) -> Source:
    """Source over a GeoDataFrame; its geometry stands for two coordinates, and by default for all of them."""
    geometry, unit = frame._geometry_column_name, _unit(frame.crs)
    names = ["longitude", "latitude"] if unit == "degrees" else ["x", "y"]
    places = np.array([point_of(cell) for cell in frame[geometry].to_wkb()], dtype=np.float64).reshape(-1, 2)
    plain = frame.drop(columns=[geometry]).assign(**dict(zip(names, places.T, strict=True)))
    asked = [geometry] if selection.columns is None else selection.columns
    columns = [name for column in asked for name in (names if column == geometry else [column])]
    source = open_pandas(plain, replace(selection, columns=columns))
    return replace(source, length_unit=unit if asked == [geometry] else None)


def point_of(cell: object) -> tuple[float, float]:
    """Coordinates of a point in well-known binary; NaN for all else. Never raises.

    Examples
    --------
    >>> point_of(struct.pack("<BIdd", 1, 1, 4.9, 52.4)), point_of(b"odd"), point_of(None)
    ((4.9, 52.4), (nan, nan), (nan, nan))
    """
    if not isinstance(cell, bytes) or len(cell) < 21 or cell[0] > 1:
        return _ODD
    order = "<" if cell[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", cell, 1)
    # Thousands, or the highest bits, tell of a height, a measure or a reference system beside the two coordinates.
    start = 9 if kind & 0x20000000 else 5
    if (kind & 0x0FFFFFFF) % 1000 != _POINT or len(cell) < start + 16:
        return _ODD
    x, y = struct.unpack_from(f"{order}dd", cell, start)
    return x, y


def _unit(system: Any) -> str | None:
    """Return the unit of a reference system, where it says one that is known here."""
    if system is None:
        return None
    if system.is_geographic:
        return "degrees"
    return "metres" if {axis.unit_name for axis in system.axis_info[:2]} == {"metre"} else None
