"""Tables: data frames and Arrow data in memory, Parquet files and folders, Arrow IPC (Feather) files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from sfumato.errors import InputError
from sfumato.sources.arrow import TILE_ROWS, layout_of
from sfumato.sources.base import Source, readable
from sfumato.sources.cells import numbers_of
from sfumato.sources.keys import canonical, check_key_dtype
from sfumato.sources.selection import MOST_NAMED_COLUMNS, Selection

# With a small buffered stream a column chunk is read page by page; otherwise a whole row group lies in memory,
# and with pre-buffering every row group read so far.
PARQUET_BUFFER_BYTES = 65536

IPC_FILE_MAGIC, PARQUET_MAGIC = b"ARROW1", b"PAR1"
# Bytes that describe a file's columns; Arrow takes about forty times as many of memory for them.
LARGEST_SCHEMA = 1 << 24
LARGEST_FOOTER = 1 << 26  # of Parquet, which describes every row group


def open_pandas(frame: Any, selection: Selection) -> Source:
    """Source over a pandas data frame, converted one piece at a time."""
    origin = "the data frame"
    names = [str(name) for name in frame.columns]
    schema = pa.schema([(name, _pandas_type(frame.iloc[:0, position])) for position, name in enumerate(names)])
    layout = layout_of(schema, selection, origin)
    for name in [*layout.coded, *([] if layout.key is None else [layout.key])]:
        check_key_dtype(frame.dtypes.iloc[schema.get_field_index(name)], f"{origin}: column {name!r}")

    def record_batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), TILE_ROWS):
            piece = frame.iloc[start : start + TILE_ROWS]
            columns = {name: piece.iloc[:, schema.get_field_index(name)] for name in layout.used}
            named = {layout.key, *layout.coded}
            used = [ids_of(column) if name in named else _numbers(column) for name, column in columns.items()]
            # A column backed by Arrow may come in several chunks, which a table aligns.
            yield from pa.Table.from_arrays(used, names=layout.used).to_batches()

    return layout.source(record_batches, expected_rows=len(frame))


def _numbers(column: Any) -> pa.Array | pa.ChunkedArray:
    """Numbers of a pandas column; objects one by one, for Arrow would take their type off all of them together."""
    if column.dtype == object:
        return pa.array(numbers_of(column.to_numpy()))
    return pa.array(column, from_pandas=True)


def ids_of(column: Any) -> pa.Array | pa.ChunkedArray:
    """Take ids of any kind from a pandas column; objects one by one, for Arrow refuses a mix of numbers and text."""
    return pa.array(map(canonical, column), pa.large_binary()) if column.dtype.kind == "O" else _numbers(column)


def _pandas_type(no_rows: Any) -> pa.DataType:
    """Arrow's type of a column, told from none of its rows; objects, which have no type, are read as numbers."""
    if no_rows.dtype == object:
        return pa.float64()
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


def open_parquet(path: Path, selection: Selection) -> Source:
    """Source over a Parquet file, or over all `*.parquet` files below a folder in the order of their names.

    In a folder the first file's columns count; the others must have them too, in any order.
    """
    files = _parquet_files(path)
    first, *others = (_parquet_summary(file) for file in files)
    layout = layout_of(first[0], selection, str(files[0]))
    expected_rows = first[1]
    for file, (schema, rows) in zip(files[1:], others, strict=True):
        other = layout_of(schema, layout.selection, str(file))
        if other.widths != layout.widths:
            raise InputError(
                f"{file} gives {other.dimension} coordinates a row and {files[0]} gives {layout.dimension}. "
                "Keep embeddings of one length in a folder."
            )
        layout = replace(layout, dtype=np.result_type(layout.dtype, other.dtype))
        expected_rows += rows

    def record_batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with readable(str(file)), _parquet_file(file) as opened:
                yield from opened.iter_batches(batch_size=TILE_ROWS, columns=layout.used)

    return layout.source(record_batches, expected_rows=expected_rows)


def _parquet_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file() and file.name[0] not in "._")
    if not files:
        raise InputError(f"The folder {path} holds no .parquet file. Pass a folder of Parquet files, or a single file.")
    return files


def _parquet_file(file: Path) -> pa.parquet.ParquetFile:
    return pa.parquet.ParquetFile(
        file,
        pre_buffer=False,
        buffer_size=PARQUET_BUFFER_BYTES,
        thrift_container_size_limit=2 * MOST_NAMED_COLUMNS,
        thrift_string_size_limit=LARGEST_SCHEMA,
    )


def _parquet_summary(file: Path) -> tuple[pa.Schema, int]:
    with readable(str(file)), file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 8))
        end = stream.read(8)
        if end[4:] == PARQUET_MAGIC:
            _check_described(end[:4], LARGEST_FOOTER)
    with readable(str(file)), _parquet_file(file) as opened:
        return opened.schema_arrow, opened.metadata.num_rows


def _check_described(size: bytes, most: int) -> None:
    """Refuse, before Arrow decodes it, a description of the columns that takes too much memory."""
    if int.from_bytes(size, "little") > most:
        raise ValueError(
            f"the description of its columns claims more than {most} bytes, which are far more columns than "
            f"{MOST_NAMED_COLUMNS}, or very many row groups"
        )


def open_ipc(path: Path, selection: Selection) -> Source:
    """Source over an Arrow IPC file or stream, memory mapped."""
    origin = str(path)
    with readable(origin), pa.memory_map(origin) as mapped:
        schema = _ipc_reader(mapped).schema
    layout = layout_of(schema, selection, origin)
    positions = [schema.get_field_index(name) for name in layout.used]

    def record_batches() -> Iterator[pa.RecordBatch]:
        with readable(origin), pa.memory_map(origin) as mapped:
            yield from _ipc_batches(_ipc_reader(mapped, positions))

    return layout.source(record_batches)


def _ipc_reader(
    mapped: pa.MemoryMappedFile, positions: Sequence[int] | None = None
) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    options = pa.ipc.IpcReadOptions(included_fields=positions)
    magic = mapped.read(len(IPC_FILE_MAGIC))
    mapped.seek(0)
    _check_schema(mapped, magic == IPC_FILE_MAGIC)
    opener = pa.ipc.open_file if magic == IPC_FILE_MAGIC else pa.ipc.open_stream
    return opener(mapped, options=options)


def _check_schema(mapped: pa.MemoryMappedFile, file: bool) -> None:
    """Check the schema, which stands in front and, in a file, in the footer too."""
    sizes = []
    mapped.seek(8 if file else 0)
    start = mapped.read(8)
    sizes.append(start[4:] if start[:4] == b"\xff" * 4 else start[:4])
    if file:
        mapped.seek(max(0, mapped.size() - len(IPC_FILE_MAGIC) - 4))
        sizes.append(mapped.read(4))
    mapped.seek(0)
    for size in sizes:
        _check_described(size, LARGEST_SCHEMA)


def _ipc_batches(reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)
