"""Rows with the keys of their users as Arrow batches, to be brought together by user, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from sfumato.deferred import pyarrow as pa
from sfumato.sources.base import Rows

MOST_BYTES = 1 << 26  # of coordinates in one batch: Arrow's plain binary columns hold 2 GB


def packed(pieces: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
    """Write rows: two words of the key, the weight, and the coordinates in one cell, in double precision.

    Rows that no choice can take, because they belong to nobody or have a coordinate that is no number, are left out.
    """
    for piece in pieces:
        counts = piece.users.any(axis=1) & np.isfinite(piece.block).all(axis=1)
        whole = piece[counts]
        height = max(1, MOST_BYTES // (8 * whole.block.shape[1]))
        for start in range(0, len(whole), height):
            yield _packed(whole[start : start + height])


def _packed(rows: Rows) -> pa.RecordBatch:
    block = np.ascontiguousarray(rows.block, dtype=np.float64)
    ends = np.arange(len(rows) + 1, dtype=np.int32) * (8 * block.shape[1])
    cells = pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(block)])
    keys = np.ascontiguousarray(rows.users).view(np.int64)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    columns = [pa.array(keys[:, 0].copy()), pa.array(keys[:, 1].copy()), pa.array(weights), cells]
    return pa.RecordBatch.from_arrays(columns, names=["key", "other", "weight", "row"])


def unpacked(batches: Iterable[pa.RecordBatch], dimension: int) -> Iterator[Rows]:
    """Read what `packed` wrote, in batches of any height."""
    for batch in batches:
        if not batch.num_rows:
            continue
        key, other, weight, cells = (batch.column(place) for place in range(4))
        keys = np.column_stack([key.to_numpy(), other.to_numpy()]).view(np.uint64)
        wide = cells.cast(pa.large_binary())
        start = int(np.frombuffer(wide.buffers()[1], np.int64)[wide.offset])
        block = np.frombuffer(wide.buffers()[2], np.float64, len(cells) * dimension, start)
        yield Rows(block.reshape(-1, dimension), keys, weight.to_numpy())
