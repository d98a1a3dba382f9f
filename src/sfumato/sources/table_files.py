"""Files of tables: Parquet, one file or several, and Arrow IPC (Feather)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from sfumato.errors import InputError
from sfumato.sources.arrow import TILE_ROWS, Layout, layout_of
from sfumato.sources.base import Rows, Source, readable
from sfumato.sources.compressed import check_messages
from sfumato.sources.parquet_headers import Leaf, check_pages, read_footer
from sfumato.sources.remote import Files
from sfumato.sources.selection import MOST_NAMED_COLUMNS, Selection
from sfumato.sources.soundness import Soundness

# With a small buffered stream a column chunk is read page by page; otherwise a whole row group lies in memory,
# and with pre-buffering every row group read so far.
PARQUET_BUFFER_BYTES = 65536
TILE_NUMBERS = 1 << 23  # of rows that Parquet's reader decodes at a time: 64 MB
GROWN_BYTES = 1 << 25  # of texts that it decodes at a time where they may grow

IPC_FILE_MAGIC, PARQUET_MAGIC = b"ARROW1", b"PAR1"
# Bytes that describe a file's columns; Arrow takes about forty times as many of memory for them.
LARGEST_SCHEMA = 1 << 24
LARGEST_FOOTER = 1 << 26  # of Parquet, which describes every row group


def open_parquet(files: Sequence[Path], selection: Selection) -> Source:
    """Source over Parquet files, of which the first one's columns count; the others must have them, in any order."""
    layout, expected_rows, growing = None, 0, {}
    for file in files:
        with readable(str(file)):
            _check_footer(file)
            groups = read_footer(file)
        schema, leaves, rows = _parquet_summary(file)
        found = layout_of(schema, selection if layout is None else layout.selection, str(file))
        layout = found if layout is None else _joined(layout, found, files[0], file)
        expected_rows += rows
        with readable(str(file)):
            growing[file] = check_pages(file, groups, leaves, layout.used)
    assert layout is not None
    return _parquet_source(growing, layout, expected_rows)


def _joined(layout: Layout, other: Layout, first: Path, file: Path) -> Layout:
    """Return a layout wide enough for one more file."""
    if other.widths != layout.widths:
        raise InputError(
            f"{file} gives {other.dimension} coordinates a row and {first} gives {layout.dimension}. "
            "Keep embeddings of one length in a folder."
        )
    return replace(layout, dtype=np.result_type(layout.dtype, other.dtype))


def _parquet_source(growing: Mapping[Path, int], layout: Layout, expected_rows: int) -> Source:
    """Source over files that were checked; `growing` as in `_parquet_batches`."""

    def record_batches() -> Iterator[pa.RecordBatch]:
        for file, longest in growing.items():
            yield from _parquet_batches(file, layout, longest)

    source = layout.source(record_batches, expected_rows=expected_rows)
    origin = str(next(iter(growing))) if len(growing) == 1 else "The Parquet files"

    def read(rows: int) -> Iterator[Rows]:
        return _readable_pieces(origin, source.read(rows))

    return replace(source, read=Files(shards=lambda: _row_groups(growing, layout), read=read))


def _readable_pieces(origin: str, pieces: Iterator[Rows]) -> Iterator[Rows]:
    """Give rows, and name the file where memory runs out as they are copied from what Arrow decoded."""
    with readable(origin):
        yield from pieces


@dataclass(frozen=True)
class RowGroup:
    """One row group of a Parquet file, the least that is read of one; `growing` as in `_parquet_batches`."""

    file: str
    group: int
    rows: int
    layout: Layout
    growing: int = 0

    def pieces(self, rows: int) -> Iterator[Rows]:
        """Read the row group."""
        batches = _parquet_batches(Path(self.file), self.layout, self.growing, self.group)
        return _readable_pieces(self.file, self.layout.pieces(batches, rows))


def _row_groups(files: Mapping[Path, int], layout: Layout) -> list[RowGroup]:
    groups: list[RowGroup] = []
    for file, growing in files.items():
        with readable(str(file)), _parquet_file(file) as opened:
            heights = [opened.metadata.row_group(group).num_rows for group in range(opened.metadata.num_row_groups)]
        name = str(file.absolute())
        groups.extend(RowGroup(name, group, rows, layout, growing) for group, rows in enumerate(heights))
    return groups


def _parquet_file(file: Path, texts: Sequence[str] = ()) -> pa.parquet.ParquetFile:
    return pa.parquet.ParquetFile(
        file,
        read_dictionary=texts,  # one long text may be named in every row
        pre_buffer=False,
        buffer_size=PARQUET_BUFFER_BYTES,
        thrift_container_size_limit=2 * MOST_NAMED_COLUMNS,
        thrift_string_size_limit=LARGEST_SCHEMA,
    )


def _check_footer(file: Path) -> None:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 8))
        end = stream.read(8)
        if end[4:] != PARQUET_MAGIC:
            raise ValueError("it does not end as Parquet files do; encrypted ones cannot be read")
        _check_described(end[:4], LARGEST_FOOTER)


def _parquet_summary(file: Path) -> tuple[pa.Schema, list[Leaf], int]:
    with readable(str(file)), _parquet_file(file) as opened:
        columns = map(opened.schema.column, range(len(opened.schema)))
        leaves = [Leaf(column.path, column.max_repetition_level > 0) for column in columns]
        return opened.schema_arrow, leaves, opened.metadata.num_rows


def _parquet_batches(file: Path, layout: Layout, growing: int, group: int | None = None) -> Iterator[pa.RecordBatch]:
    """Decode so many rows at a time as fit; `growing` is how long a text may become that the file holds in parts."""
    rows = max(1, min(TILE_ROWS, TILE_NUMBERS // layout.dimension))
    if growing and layout.named:  # Arrow cannot leave these in a dictionary
        rows = max(1, min(rows, GROWN_BYTES // growing))
    with readable(str(file)), _parquet_file(file, [] if growing else layout.named) as opened:
        groups = None if group is None else [group]
        yield from opened.iter_batches(batch_size=rows, row_groups=groups, columns=layout.used)


def _check_described(size: bytes, most: int) -> None:
    """Refuse, before Arrow decodes it, a description of the columns that takes too much memory."""
    if int.from_bytes(size, "little") > most:
        raise ValueError(
            f"the description of its columns claims more than {most} bytes, which are far more columns than "
            f"{MOST_NAMED_COLUMNS}, or very many row groups"
        )


def open_ipc(path: Path, selection: Selection) -> Source:
    """Source over an Arrow IPC file or stream, memory mapped; Arrow itself believes what is written in it."""
    origin = str(path)
    with readable(origin), pa.memory_map(origin) as mapped:
        schema = _ipc_reader(mapped).schema
    layout = layout_of(schema, selection, origin)
    with readable(origin), pa.memory_map(origin) as mapped:
        _check_ipc(mapped)
    positions = [schema.get_field_index(name) for name in layout.used]

    def record_batches() -> Iterator[pa.RecordBatch]:
        sound = Soundness()
        with readable(origin), pa.memory_map(origin) as mapped:
            for batch in _ipc_reader(mapped, positions):
                sound.check(batch, layout.named)
                yield batch

    source = layout.source(record_batches)
    return replace(source, read=lambda rows: _readable_pieces(origin, source.read(rows)))


def _ipc_reader(mapped: pa.MemoryMappedFile, positions: Sequence[int] | None = None) -> pa.RecordBatchStreamReader:
    """Read the stream, which in a file stands between the magic word and the footer."""
    start = _stream_start(mapped)
    mapped.seek(start)
    head = mapped.read(8)
    _check_described(head[4:] if head[:4] == b"\xff" * 4 else head[:4], LARGEST_SCHEMA)
    mapped.seek(start)
    return pa.ipc.open_stream(mapped, options=pa.ipc.IpcReadOptions(included_fields=positions))


def _stream_start(mapped: pa.MemoryMappedFile) -> int:
    mapped.seek(0)
    return 8 if mapped.read(len(IPC_FILE_MAGIC)) == IPC_FILE_MAGIC else 0


def _check_ipc(mapped: pa.MemoryMappedFile) -> None:
    """Check what the batches take when decompressed; and that a file, which has a footer, was not cut off."""
    start = _stream_start(mapped)
    mapped.seek(start)
    batches = check_messages(mapped)
    if start:
        mapped.seek(max(0, mapped.size() - len(IPC_FILE_MAGIC) - 4))
        _check_described(mapped.read(4), LARGEST_SCHEMA)
        if pa.ipc.open_file(mapped).num_record_batches != batches:
            raise ValueError("its footer tells of another number of batches than it holds")
