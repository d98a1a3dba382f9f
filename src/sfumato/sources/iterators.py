"""Batches made by the caller's own code: a generator, a data loader, any iterable of 2-d pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from sfumato.errors import InputError
from sfumato.sources.base import Rows, Source, reblock


def open_iterator(iterable: Iterable[Any], open_batch: Callable[[Any], Source]) -> Source:
    """Source over batches, each opened by `open_batch`; the first one is looked at, to know the dimension.

    An iterator can be read once. An iterable that gives a new iterator each time can be read again.
    """
    iterator = iter(iterable)
    repeatable = iterator is not iterable
    try:
        first = next(iterator)
    except StopIteration:
        raise InputError(
            "The iterator gave no batch, so the dimension is unknown. Give at least one, even np.empty((0, dimension))."
        ) from None
    head = _open(first, 1, open_batch)

    def pieces(rows: int) -> Iterator[Rows]:
        batches = iterable if repeatable else chain([first], iterator)
        for number, batch in enumerate(batches, start=1):
            if isinstance(batch, list | tuple) and not batch:
                continue  # no rows, hence no dimension to check
            source = _open(batch, number, open_batch)
            _check_same(source, head, number)
            # Callers may refill one buffer for every batch, while batches wait here for their turn: keep copies.
            yield from map(_copied, source.pieces(rows))

    return Source(
        dimension=head.dimension,
        column_names=head.column_names,
        read=lambda rows: reblock(pieces(rows), rows),
        repeatable=repeatable,
        keyed=head.keyed,
        weighted=head.weighted,
    )


def _copied(piece: Rows) -> Rows:
    keys = None if piece.keys is None else piece.keys.copy()
    weights = None if piece.weights is None else piece.weights.copy()
    return Rows(piece.block.copy(), keys, weights)


def _open(batch: Any, number: int, open_batch: Callable[[Any], Source]) -> Source:
    try:
        return open_batch(batch)
    except InputError as error:
        raise InputError(f"Batch {number} of the iterator: {error}") from error


def _check_same(source: Source, head: Source, number: int) -> None:
    if source.dimension != head.dimension:
        raise InputError(
            f"Batch {number} of the iterator has dimension {source.dimension} and batch 1 has {head.dimension}. "
            "Give batches of one dimension."
        )
    if source.column_names != head.column_names:
        raise InputError(
            f"Batch {number} of the iterator has columns {source.column_names} and batch 1 has {head.column_names}. "
            "Give batches with the same columns in the same order, or pass columns=."
        )
