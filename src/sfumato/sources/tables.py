"""Data frames and Arrow tables in memory, Arrow readers and data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sfumato.sources.arrow import TILE_ROWS, layout_of
from sfumato.sources.base import Block, Source, readable
from sfumato.sources.selection import Columns


def open_pandas(frame: Any, columns: Columns | None) -> Source:
    """Source over a pandas data frame, converted one piece at a time."""
    origin = "the data frame"
    names = [str(name) for name in frame.columns]
    schema = pa.schema([(name, _pandas_type(frame.iloc[:0, position])) for position, name in enumerate(names)])
    layout = layout_of(schema, columns, origin)
    positions = [schema.get_field_index(name) for name in layout.columns]

    def record_batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), TILE_ROWS):
            piece = frame.iloc[start : start + TILE_ROWS]
            used = [pa.array(piece.iloc[:, position], from_pandas=True) for position in positions]
            # A column backed by Arrow may come in several chunks, which a table aligns.
            yield from pa.Table.from_arrays(used, names=list(layout.columns)).to_batches()

    return Source(
        dimension=layout.dimension,
        column_names=layout.names,
        read=lambda rows: layout.blocks(record_batches(), rows),
        expected_rows=len(frame),
    )


def _pandas_type(no_rows: Any) -> pa.DataType:
    """Arrow's type of a column, told from none of its rows, so that no value decides what an object column is."""
    try:
        return pa.array(no_rows, from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError):
        return pa.null()


def open_stream(data: Any, columns: Columns | None) -> Source:
    """Source over an Arrow table, record batch or reader, or any frame with `__arrow_c_stream__`."""
    origin = "the table"
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    with readable(origin):
        reader = _reader(data)
    layout = layout_of(reader.schema, columns, origin)
    # A table knows its length and can be streamed again; a reader does not, and is used up.
    repeatable = hasattr(data, "__len__")

    def read(rows: int) -> Iterator[Block]:
        with readable(origin):
            yield from layout.blocks(_reader(data) if repeatable else reader, rows)

    return Source(
        dimension=layout.dimension,
        column_names=layout.names,
        read=read,
        repeatable=repeatable,
        expected_rows=len(data) if repeatable else None,
    )


def _reader(data: Any) -> pa.RecordBatchReader:
    return data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)


def open_dataset(dataset: Any, columns: Columns | None) -> Source:
    """Source over a pyarrow data set, with the least reading ahead, so that memory stays bounded."""
    origin = "the data set"
    layout = layout_of(dataset.schema, columns, origin)

    def read(rows: int) -> Iterator[Block]:
        with readable(origin):
            scanner = dataset.scanner(
                columns=list(layout.columns), batch_size=TILE_ROWS, batch_readahead=1, fragment_readahead=1
            )
            yield from layout.blocks(scanner.to_batches(), rows)

    return Source(dimension=layout.dimension, column_names=layout.names, read=read)
