"""From Arrow's columns to blocks of rows: which columns are numbers, and how they are copied side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import InputError
from sfumato.sources.arrays import block_type
from sfumato.sources.base import Block
from sfumato.sources.selection import Columns, choose, listing

# Writing a column into row-major memory touches one cache line a row: this many rows at a time stay in the cache.
TILE_ROWS = 8192


@dataclass(frozen=True)
class Layout:
    """Selected columns of an Arrow schema, side by side in a block.

    Attributes
    ----------
    columns
        Names of the selected columns.
    widths
        Coordinates each gives: 1 for a number, the length for a fixed-size list (an embedding).
    dtype
        Float type of the blocks, wide enough for every column.
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def dimension(self) -> int:
        """Coordinates in a row."""
        return sum(self.widths)

    @property
    def names(self) -> tuple[str, ...]:
        """One name a coordinate: an embedding `e` of length 2 gives `e[0]` and `e[1]`."""
        return tuple(
            column if width == 1 else f"{column}[{i}]"
            for column, width in zip(self.columns, self.widths, strict=True)
            for i in range(width)
        )

    def blocks(self, record_batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[Block]:
        """Copy record batches of any height into fresh blocks of `rows` rows; the last may have fewer."""
        block, filled = np.empty((rows, self.dimension), self.dtype), 0
        for batch in record_batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, rows - filled)
                self._fill(block[filled : filled + part.num_rows], part)
                start += part.num_rows
                filled += part.num_rows
                if filled == rows:
                    yield block
                    block, filled = np.empty((rows, self.dimension), self.dtype), 0
        if filled:
            yield block[:filled].copy()  # a view would keep the whole block alive

    def _fill(self, block: Block, batch: pa.RecordBatch) -> None:
        stops = np.cumsum(self.widths)
        targets = [block[:, stop - width : stop] for stop, width in zip(stops, self.widths, strict=True)]
        columns = [batch.column(batch.schema.get_field_index(name)) for name in self.columns]
        sources = [_values(column, width) for column, width in zip(columns, self.widths, strict=True)]
        for start in range(0, batch.num_rows, TILE_ROWS):
            tile = slice(start, start + TILE_ROWS)
            for target, source in zip(targets, sources, strict=True):
                target[tile] = source[tile]
        for target, column, width in zip(targets, columns, self.widths, strict=True):
            _blank_nulls(target, column, width)


def layout_of(schema: pa.Schema, columns: Columns | None, origin: str) -> Layout:
    """Select columns of a schema.

    Raises
    ------
    InputError
        If a column is missing, named twice, or of a type that is not numeric.
    """
    chosen = choose(columns, schema.names, len(schema), origin)
    fields = [schema.field(position) for position in chosen]
    strange = [field for field in fields if not _is_numeric(_value_type(field.type))]
    if strange:
        raise _not_numeric(schema, strange, origin)
    widths = tuple(_width(field.type) for field in fields)
    if 0 in widths:
        raise InputError(
            f"{origin}: {_describe(fields[widths.index(0)])} is a list of length 0. Leave it out of columns=."
        )
    return Layout(
        columns=tuple(field.name for field in fields),
        widths=widths,
        dtype=np.result_type(*(_block_type(_value_type(field.type)) for field in fields)),
    )


def _not_numeric(schema: pa.Schema, strange: list[pa.Field], origin: str) -> InputError:
    numeric = [repr(field.name) for field in schema if _is_numeric(_value_type(field.type))]
    fix = f"for example columns=[{listing(numeric)}]" if numeric else "after converting text or dates to numbers"
    if any(pa.types.is_list(field.type) or pa.types.is_large_list(field.type) for field in strange):
        fix += "; cast a list of varying length to a fixed-size list, pyarrow.list_(pyarrow.float32(), length)"
    return InputError(
        f"{origin}: not numeric: {listing(map(_describe, strange))}. "
        f"The columns are {listing(map(_describe, schema))}. Pass columns= with numeric columns only, {fix}."
    )


def _describe(field: pa.Field) -> str:
    return f"{field.name!r} ({'unknown type' if pa.types.is_null(field.type) else field.type})"


def _storage_type(kind: pa.DataType) -> pa.DataType:
    # A tensor is stored as a list of its numbers. Other extensions (periods, say) mean more than their storage does.
    return kind.storage_type if isinstance(kind, pa.FixedShapeTensorType) else kind


def _value_type(kind: pa.DataType) -> pa.DataType:
    kind = _storage_type(kind)
    return kind.value_type if pa.types.is_fixed_size_list(kind) else kind


def _width(kind: pa.DataType) -> int:
    kind = _storage_type(kind)
    return int(kind.list_size) if pa.types.is_fixed_size_list(kind) else 1


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _block_type(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(np.float64) if pa.types.is_decimal(kind) else block_type(np.dtype(kind.to_pandas_dtype()))


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _elements(column: pa.Array, width: int) -> pa.Array:
    """All numbers of a column, those of null lists included, so that their count is rows x width."""
    column = _storage(column)
    if not pa.types.is_fixed_size_list(column.type):
        return column
    return column.values.slice(column.offset * width, len(column) * width)


def _values(column: pa.Array, width: int) -> npt.NDArray[Any]:
    """Numbers of a column as (rows, width), uncopied where possible; what stands under a null is arbitrary."""
    elements = _elements(column, width)
    if pa.types.is_decimal(elements.type):
        elements = elements.cast(pa.float64())
    if elements.null_count:
        # Without its validity bits the array is handed over as it lies; _blank_nulls writes the NaNs.
        data = elements.buffers()[1]
        elements = pa.Array.from_buffers(elements.type, len(elements), [None, data], offset=elements.offset)
    values: npt.NDArray[Any] = elements.to_numpy(zero_copy_only=False).reshape(len(column), width)
    return values


def _blank_nulls(target: Block, column: pa.Array, width: int) -> None:
    elements = _elements(column, width)
    if elements.null_count:
        target[elements.is_null().to_numpy(zero_copy_only=False).reshape(len(column), width)] = np.nan
    if column.null_count:
        target[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
