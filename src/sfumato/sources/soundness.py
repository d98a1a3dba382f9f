"""Whether record batches of a file are what they say: Arrow believes offsets, and reads outside of memory."""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.deferred import pyarrow as pa


class Soundness:
    """Check of the batches of one stream, in order; a dictionary that many of them share is looked at once."""

    def __init__(self) -> None:
        # Kept, and not only their addresses: memory that is freed may be given to another dictionary.
        self._sound: dict[str, pa.Array] = {}

    def check(self, batch: pa.RecordBatch, texts: Iterable[str]) -> None:
        """Refuse (pyarrow.ArrowInvalid) a batch whose lengths do not fit its memory, or whose texts lie outside of it.

        Texts, which are looked for in the named columns, are taken as bytes: they need not be proper UTF-8.
        """
        batch.validate()
        for column in batch.columns:
            if is_list(column.type):
                column.validate(full=True)
        for name in texts:
            values = _values(batch.column(batch.schema.get_field_index(name)))
            if name not in self._sound or not _same_memory(values, self._sound[name]):
                values.validate(full=True)
                self._sound[name] = values


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type is that of lists of any length."""
    views = [getattr(pa.types, name, None) for name in ("is_list_view", "is_large_list_view")]
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, *views) if test is not None)


def _values(column: pa.Array) -> pa.Array:
    """Return the values that a column, or its dictionary, stores; texts as bytes."""
    while isinstance(column, pa.ExtensionArray | pa.DictionaryArray):
        column = column.storage if isinstance(column, pa.ExtensionArray) else column.dictionary
    kind = {"string": pa.binary(), "large_string": pa.large_binary()}.get(str(column.type))
    return column if kind is None else column.view(kind)


def _same_memory(values: pa.Array, others: pa.Array) -> bool:
    """Tell whether two arrays without children are the same part of the same memory, which nobody writes to."""
    first, second = (
        (array.type, array.offset, len(array), [part and (part.address, part.size) for part in array.buffers()])
        for array in (values, others)
    )
    return bool(first == second)
