"""From Arrow's columns to blocks of rows: which columns are numbers, and how they are copied side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.deferred import pyarrow as pa
from sfumato.errors import InputError
from sfumato.kernels.product import Overlap
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.sources.base import Block, Rows, Source, block_type
from sfumato.sources.cells import codes_of
from sfumato.sources.keys import KEY_WORDS, check_key_type, keys_of
from sfumato.sources.selection import Selection, listing
from sfumato.sources.soundness import is_list

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
    declared
        Columns of lists whose length the caller declares.
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    dtype: np.dtype[Any]
    key: str | None = None
    weight: str | None = None
    coded: Mapping[str, Overlap] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()

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
    def named(self) -> list[str]:
        """Those of them that may hold text."""
        return [*self.coded, *([] if self.key is None else [self.key])]

    @property
    def selection(self) -> Selection:
        """The same columns of another schema."""
        columns = [
            f"{name}[{width}]" if name in self.declared else name
            for name, width in zip(self.columns, self.widths, strict=True)
        ]
        return Selection(columns, self.key, self.weight, dict(self.coded.items()))

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
        widths = list(self.widths)
        columns = [
            _fixed(_column(batch, name), width) if name in self.declared else _column(batch, name)
            for name, width in zip(self.columns, widths, strict=True)
        ]
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
    try:
        names = schema.names
    except UnicodeDecodeError:
        raise InputError(f"{origin}: the name of a column is not UTF-8. Write it with names that are text.") from None
    chosen = selection.choose(names, len(schema), origin)
    fields = [
        _with_length(schema.field(position), chosen.lengths.get(position), origin) for position in chosen.coordinates
    ]
    schema = _replaced(schema, chosen.coordinates, fields)
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
    if least := [place for place, width in enumerate(widths) if width < 1]:
        raise InputError(
            f"{origin}: {_describe(fields[least[0]])} is a list of length {widths[least[0]]}. Leave it out of columns=."
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
        declared=frozenset(fields[place].name for place, at in enumerate(chosen.coordinates) if at in chosen.lengths),
    )


def _with_length(column: pa.Field, length: int | None, origin: str) -> pa.Field:
    """Give a column of lists the length that its caller declares: where lists vary, no record may decide it."""
    kind = _storage_type(column.type)
    if length is None:
        return column
    if pa.types.is_fixed_size_list(kind):
        if kind.list_size != length:
            raise InputError(
                f"{origin}: {_describe(column)} has lists of {kind.list_size}, and columns= says {length}."
            )
        return column
    if not is_list(kind) and not pa.types.is_null(kind):
        raise InputError(f"{origin}: {_describe(column)} is no column of lists. Leave the length out of columns=.")
    return pa.field(column.name, pa.list_(kind.value_type if is_list(kind) else pa.float64(), length))


def _replaced(schema: pa.Schema, places: Iterable[int], fields: Sequence[pa.Field]) -> pa.Schema:
    columns = list(schema)
    for place, column in zip(places, fields, strict=True):
        columns[place] = column
    return pa.schema(columns, schema.metadata)  # once: each change of a schema copies all of it


def _fixed(column: pa.Array, length: int) -> pa.Array:
    """Return lists of one length, of lists of any or of nothing: another length, or a null, is a null."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.list_(pa.float64(), length))
    if not is_list(column.type):
        return column
    import pyarrow.compute as pc  # slow to load, and few tables have such columns

    proper = pc.equal(pc.list_value_length(column), length)
    kept = column.filter(pc.fill_null(proper, False))
    lists = pa.FixedSizeListArray.from_arrays(kept.flatten(), length)
    places = np.cumsum(pc.fill_null(proper, False).to_numpy(zero_copy_only=False)) - 1
    return lists.take(pa.array(places, mask=~pc.fill_null(proper, False).to_numpy(zero_copy_only=False)))


def _not_numeric(schema: pa.Schema, strange: list[pa.Field], origin: str) -> InputError:
    numeric = [repr(field.name) for field in schema if _is_numeric(_value_type(field.type))]
    fix = f"for example columns=[{listing(numeric)}]" if numeric else "after converting text or dates to numbers"
    if any(is_list(field.type) for field in strange):
        example = next(field.name for field in strange if is_list(field.type))
        fix += (
            f"; the length of a column of lists is public and not read off them: name it with its length, as in "
            f"columns=['{example}[384]']"
        )
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
