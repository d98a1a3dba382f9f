"""Data frames and Arrow tables in memory, Arrow readers and data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sfumato.sources.arrow import TILE_ROWS, layout_of
from sfumato.sources.base import Block, Source, readable
from sfumato.sources.selection import Columns, check_unique


def open_pandas(frame: Any, columns: Columns | None) -> Source:
    """Source over a pandas data frame, converted one piece at a time."""
    origin = "the data frame"
    check_unique([str(name) for name in frame.columns], origin)
    with readable(origin):
        # The types come from no rows at all, so that no value decides what an object column is.
        schema = pa.Schema.from_pandas(frame.iloc[:0], preserve_index=False)
    layout = layout_of(schema, columns, origin)
    positions = [schema.get_field_index(name) for name in layout.columns]
    used = pa.schema([schema.field(position) for position in positions])

    def record_batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), TILE_ROWS):
            piece = frame.iloc[start : start + TILE_ROWS, positions]
            yield pa.RecordBatch.from_pandas(piece, schema=used, preserve_index=False)

    return Source(
        dimension=layout.dimension,
        column_names=layout.names,
        read=lambda rows: layout.blocks(record_batches(), rows),
        expected_rows=len(frame),
    )


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
