"""What every kind of input becomes: a `Source`, which gives blocks of rows."""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.kernels.product import Overlap
from sfumato.sources.keys import KEY_WORDS, Keys

Block = npt.NDArray[np.floating[Any]]
Weights = npt.NDArray[np.float64]

BATCH_ROWS = 65536
# Numbers in a batch that nobody asked the height of, 256 MB: rows of many columns come in lower batches.
BATCH_NUMBERS = 1 << 25


@dataclass(frozen=True)
class Rows:
    """Some rows: their coordinates and, where the source was opened with them, their users and their weights.

    Attributes
    ----------
    block
        Coordinates, shape (rows, dimension).
    keys
        Who each row belongs to, see `sfumato.sources.keys`; zeros for nobody. None for a source without users.
    weights
        Weight of each row as it was given, NaN where there is none. None for a source without weights.
    """

    block: Block
    keys: Keys | None = None
    weights: Weights | None = None

    def __len__(self) -> int:
        return len(self.block)

    @property
    def users(self) -> Keys:
        """The keys, of a source that was opened with users."""
        assert self.keys is not None
        return self.keys

    def __getitem__(self, which: Any) -> Rows:
        """Take some of the rows: a slice, positions or a mask."""
        return Rows(
            self.block[which],
            None if self.keys is None else self.keys[which],
            None if self.weights is None else self.weights[which],
        )

    @classmethod
    def joined(cls, pieces: Sequence[Rows]) -> Rows:
        """Rows of several pieces, one below the other; a single piece is passed on uncopied."""
        if len(pieces) == 1:
            return pieces[0]
        keys = [piece.keys for piece in pieces if piece.keys is not None]
        weights = [piece.weights for piece in pieces if piece.weights is not None]
        return cls(
            # Joining float32 with float64 gives float64, so no row loses digits to its neighbours.
            np.concatenate([piece.block for piece in pieces]),
            np.concatenate(keys) if keys else None,
            np.concatenate(weights) if weights else None,
        )

    @classmethod
    def blank(cls, rows: int, dimension: int, dtype: npt.DTypeLike, *, keyed: bool, weighted: bool) -> Rows:
        """Rows without a number, a user or a weight, to be written to."""
        return cls(
            np.full((rows, dimension), np.nan, dtype),
            np.zeros((rows, KEY_WORDS), np.uint64) if keyed else None,
            np.full(rows, np.nan) if weighted else None,
        )


@dataclass
class Source:
    """Rows of one dimension, read in batches.

    Attributes
    ----------
    dimension
        Number of coordinates in a row.
    column_names
        One name a coordinate, or None where the data has no names (arrays, lists).
    read
        Gives pieces of exactly the asked number of rows, but for the last; callers use `batches` or `pieces`.
    repeatable
        False where the rows can be read only once (iterators, Arrow readers).
    expected_rows
        True number of rows where it is known for free, for progress bars only. It is private: it may not reach a
        release, a ledger's public part, or any choice of parameters.
    keyed, weighted
        Whether the rows come with users (`key`) and with weights.
    categories
        Coordinates that are categories, by their places, with their public values: they hold codes.
    length_unit
        Unit of the coordinates where a reference system says so: "degrees" of longitude and latitude, or "metres".
    paths
        Files or folders that were opened, without links, whose account is charged; of a pattern the folder that it
        begins in.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.sources import open_source
    >>> source = open_source(np.arange(10.0).reshape(5, 2))
    >>> source.dimension
    2
    >>> [batch.shape for batch in source.batches(rows=2)]
    [(2, 2), (2, 2), (1, 2)]
    """

    dimension: int
    column_names: tuple[str, ...] | None
    read: Callable[[int], Iterator[Rows]] = field(repr=False)
    repeatable: bool = True
    # Kept out of the repr, which may be printed where the public reads it.
    expected_rows: int | None = field(default=None, repr=False)
    keyed: bool = False
    weighted: bool = False
    categories: Mapping[int, Overlap] = field(default_factory=dict)
    length_unit: str | None = None
    paths: tuple[str, ...] = field(default=(), repr=False)
    _taken: bool = field(default=False, init=False, repr=False)

    def batches(self, rows: int | None = None) -> Iterator[Block]:
        """Give the rows in order, as C-contiguous float32 or float64 arrays of shape (rows, dimension).

        Parameters
        ----------
        rows
            Rows in each batch; the last one may have fewer.

        Returns
        -------
        Iterator of arrays
            A batch may share memory with the data, so it must not be written to.

        Raises
        ------
        InputError
            If `rows` is not positive, or a source that can be read only once is read again.
        """
        pieces = self.pieces(rows)
        return (piece.block for piece in pieces)

    def whole(self) -> npt.NDArray[np.float64]:
        """Return all rows in one float64 array, for data that fits into memory.

        Examples
        --------
        >>> from sfumato.sources import open_source
        >>> open_source([[1, "2"], [None, 4]]).whole()
        array([[ 1.,  2.],
               [nan,  4.]])
        """
        return np.concatenate([np.empty((0, self.dimension)), *self.batches()]).astype(np.float64)

    def keyed_batches(self, rows: int | None = None) -> Iterator[tuple[Block, Keys]]:
        """Give the rows in order with the users they belong to.

        Parameters
        ----------
        rows
            Rows in each batch; the last one may have fewer.

        Returns
        -------
        Iterator of pairs of arrays
            The coordinates, and a 128-bit key for each row as two uint64: equal for rows of the same user, zeros for a
            row of nobody.

        Raises
        ------
        InputError
            If the source was opened without users, or for the reasons of `batches`.

        Examples
        --------
        >>> from sfumato.sources import open_source
        >>> [(block, keys)] = open_source([["ada", 1.0], [None, 2.0], ["ada", 3.0]], key=0).keyed_batches()
        >>> block[:, 0].tolist(), bool((keys[0] == keys[2]).all()), keys[1].tolist()
        ([1.0, 2.0, 3.0], True, [0, 0])
        """
        if not self.keyed:
            raise InputError("These rows come without users. Pass key=, the column that names them, to open_source.")
        pieces = self.pieces(rows)
        return ((piece.block, piece.users) for piece in pieces)

    def pieces(self, rows: int | None = None) -> Iterator[Rows]:
        """Give the rows in order with all that is known of them; parameters and errors as for `batches`."""
        rows = min(BATCH_ROWS, max(1, BATCH_NUMBERS // self.dimension)) if rows is None else rows
        if rows < 1:
            raise InputError(f"rows={rows}: a batch holds at least one row; pass rows=1 or more.")
        if self._taken and not self.repeatable:
            raise InputError(
                "These rows come from an iterator, which can be read only once, and they were read already. "
                "Open a new iterator, or pass an array, a table or a file."
            )
        self._taken = True
        return self.read(rows)


def block_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Smallest of float32 and float64 that holds every value of a real type (64-bit integers are rounded)."""
    return np.dtype(np.float32) if np.result_type(np.float32, dtype) == np.float32 else np.dtype(np.float64)


def reblock(pieces: Iterator[Rows], rows: int) -> Iterator[Rows]:
    """Cut and join pieces of any height into pieces of `rows` rows; those that fit are passed on uncopied."""
    waiting: list[Rows] = []
    missing = rows
    for given in pieces:
        start = 0
        while start < len(given):
            piece = given[start : start + missing]
            waiting.append(piece)
            start += len(piece)
            missing -= len(piece)
            if missing == 0:
                yield Rows.joined(waiting)
                waiting, missing = [], rows
    if waiting:
        yield Rows.joined(waiting)


# What libraries raise for damage: a name that is no text, an archive that is encrypted, a header nested too deeply.
UNREADABLE = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, TypeError, OverflowError, RuntimeError, MemoryError,
)  # fmt: skip


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what counts as damage, and what Arrow raises where it is loaded."""
    arrow = sys.modules.get("pyarrow")
    return UNREADABLE if arrow is None else (*UNREADABLE, arrow.ArrowException)


class TooLargeError(ValueError):
    """A file that may be sound, and takes more than is allowed; the text says what to do."""


@contextmanager
def readable(origin: str) -> Iterator[None]:
    """Turn what libraries raise for a file or stream that cannot be read into an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{origin}: no such file. Check the path.") from error
    except PermissionError as error:
        raise InputError(f"{origin}: no permission to read it. Check the file's owner and mode.") from error
    except TooLargeError as error:
        raise InputError(f"{origin} is too large to read: {error}.") from error
    except _unreadable() as error:
        raise InputError(
            f"{origin} cannot be read as rows ({error}). It is damaged, truncated, or not what its name or type says."
        ) from error


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
        categories=head.categories,
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
