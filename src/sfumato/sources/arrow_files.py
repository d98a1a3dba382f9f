"""Parquet files and folders, and Arrow IPC (Feather) files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from sfumato.errors import InputError
from sfumato.sources.arrow import TILE_ROWS, layout_of
from sfumato.sources.base import Source, readable
from sfumato.sources.selection import Selection

# With a small buffered stream a column chunk is read page by page; otherwise a whole row group lies in memory,
# and with pre-buffering every row group read so far.
PARQUET_BUFFER_BYTES = 65536

IPC_FILE_MAGIC = b"ARROW1"


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
    return pa.parquet.ParquetFile(file, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES)


def _parquet_summary(file: Path) -> tuple[pa.Schema, int]:
    with readable(str(file)), _parquet_file(file) as opened:
        return opened.schema_arrow, opened.metadata.num_rows


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
    opener = pa.ipc.open_file if magic == IPC_FILE_MAGIC else pa.ipc.open_stream
    return opener(mapped, options=options)


def _ipc_batches(reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)
