"""From Arrow's columns to blocks of rows: which columns are numbers, and how they are copied side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import InputError
from sfumato.kernels.product import Overlap
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.sources.arrays import block_type
from sfumato.sources.base import Block, Rows, Source
from sfumato.sources.codes import codes_of
from sfumato.sources.keys import KEY_WORDS, check_key_type, keys_of
from sfumato.sources.selection import Selection, listing

# Writing a column into row-major memory touches one cache line a row: this many rows at a time stay in the cache.
TILE_ROWS = 8192


@dataclass(frozen=True)
class Layout:
    """Selected columns of an Arrow schema: the coordinates side by side in a block, user and weight beside it.

    Attributes
    ----------
    columns
        Names of the columns that hold coordinates.
    widths
        Coordinates each gives: 1 for a number, the length for a fixed-size list (an embedding).
    dtype
        Float type of the blocks, wide enough for every column.
    key, weight
        Names of the columns of users and weights, or None.
    coded
        Columns among the coordinates that are categories.
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    dtype: np.dtype[Any]
    key: str | None = None
    weight: str | None = None
    coded: Mapping[str, Overlap] = field(default_factory=dict)

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

    @property
    def used(self) -> list[str]:
        """Names of all columns to be read."""
        return [*self.columns, *(name for name in (self.key, self.weight) if name is not None)]

    @property
    def selection(self) -> Selection:
        """The same columns of another schema."""
        coded: dict[str | int, Overlap] = dict(self.coded.items())
        return Selection(self.columns, self.key, self.weight, coded)

    def source(
        self,
        record_batches: Callable[[], Iterable[pa.RecordBatch]],
        *,
        repeatable: bool = True,
        expected_rows: int | None = None,
    ) -> Source:
        """Source over record batches, which are asked for anew at every reading."""
        return Source(
            dimension=self.dimension,
            column_names=self.names,
            read=lambda rows: self.pieces(record_batches(), rows),
            repeatable=repeatable,
            expected_rows=expected_rows,
            keyed=self.key is not None,
            weighted=self.weight is not None,
            categories={self.names.index(name): category for name, category in self.coded.items()},
        )

    def pieces(self, record_batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[Rows]:
        """Copy record batches of any height into fresh pieces of `rows` rows; the last may have fewer."""
        piece, filled = self._empty(rows), 0
        for batch in record_batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, rows - filled)
                self._fill(piece[filled : filled + part.num_rows], part)
                start += part.num_rows
                filled += part.num_rows
                if filled == rows:
                    yield piece
                    piece, filled = self._empty(rows), 0
        if filled:
            # Copied by the list of positions: a view would keep the whole block alive.
            yield piece[np.arange(filled)]

    def _empty(self, rows: int) -> Rows:
        return Rows(
            np.empty((rows, self.dimension), self.dtype),
            None if self.key is None else np.empty((rows, KEY_WORDS), np.uint64),
            None if self.weight is None else np.empty(rows),
        )

    def _fill(self, rows: Rows, batch: pa.RecordBatch) -> None:
        """Write a batch to rows of the same height."""
        stops = np.cumsum(self.widths)
        targets = [rows.block[:, stop - width : stop] for stop, width in zip(stops, self.widths, strict=True)]
        columns = [_column(batch, name) for name in self.columns]
        widths = list(self.widths)
        if rows.weights is not None and self.weight is not None:
            targets.append(rows.weights[:, None])
            columns.append(_column(batch, self.weight))
            widths.append(1)
        coded = {self.columns.index(name): category for name, category in self.coded.items()}
        for place, category in coded.items():
            targets[place][:, 0] = codes_of(columns[place], category)
        numeric = [place for place in range(len(columns)) if place not in coded]
        targets = [targets[place] for place in numeric]
        columns = [columns[place] for place in numeric]
        widths = [widths[place] for place in numeric]
        sources = [_values(column, width) for column, width in zip(columns, widths, strict=True)]
        for start in range(0, batch.num_rows, TILE_ROWS):
            tile = slice(start, start + TILE_ROWS)
            for target, source in zip(targets, sources, strict=True):
                target[tile] = source[tile]
        for target, column, width in zip(targets, columns, widths, strict=True):
            _blank_nulls(target, column, width)
        if rows.keys is not None and self.key is not None:
            rows.keys[:] = keys_of(_column(batch, self.key))


def layout_of(schema: pa.Schema, selection: Selection, origin: str) -> Layout:
    """Select columns of a schema.

    Raises
    ------
    InputError
        If a column is missing, named twice, or of a type that is not numeric, or that cannot name users.
    """
    chosen = selection.choose(schema.names, len(schema), origin)
    fields = [schema.field(position) for position in chosen.coordinates]
    strange = [field for field in map(schema.field, chosen.numbers) if not _is_numeric(_value_type(field.type))]
    if strange:
        raise _not_numeric(schema, strange, origin)
    coded = {schema.field(position).name: category for position, category in chosen.coded.items()}
    for name in coded:
        check_key_type(schema.field(name).type, name, origin, "hold values of a category")
    key, weight = (None if position is None else schema.field(position) for position in (chosen.key, chosen.weight))
    if key is not None:
        check_key_type(key.type, key.name, origin)
    if weight is not None and pa.types.is_fixed_size_list(_storage_type(weight.type)):
        raise InputError(f"{origin}: {_describe(weight)} is a list, and a weight is one number. Pass another weight=.")
    widths = tuple(1 if field.name in coded else _width(field.type) for field in fields)
    if 0 in widths:
        raise InputError(
            f"{origin}: {_describe(fields[widths.index(0)])} is a list of length 0. Leave it out of columns=."
        )
    if sum(widths) > MOST_COLUMNS:
        raise InputError(f"{origin}: the columns hold {sum(widths)} coordinates, and {MOST_COLUMNS} can be read.")
    return Layout(
        columns=tuple(field.name for field in fields),
        widths=widths,
        dtype=np.result_type(
            np.float32, *(_block_type(_value_type(field.type)) for field in fields if field.name not in coded)
        ),
        key=None if key is None else key.name,
        weight=None if weight is None else weight.name,
        coded=coded,
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


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


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
