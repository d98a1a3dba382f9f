"""What every kind of input becomes: a `Source`, which gives blocks of rows."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import InputError

Block = npt.NDArray[np.floating[Any]]


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
        Gives blocks of exactly the asked number of rows, but for the last; callers use `batches`.
    repeatable
        False where the rows can be read only once (iterators, Arrow readers).
    expected_rows
        True number of rows where it is known for free, for progress bars only. It is private: it may not reach a
        release, a ledger's public part, or any choice of parameters.

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
    read: Callable[[int], Iterator[Block]] = field(repr=False)
    repeatable: bool = True
    # Kept out of the repr, which may be printed where the public reads it.
    expected_rows: int | None = field(default=None, repr=False)
    _taken: bool = field(default=False, init=False, repr=False)

    def batches(self, rows: int = 65536) -> Iterator[Block]:
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
        if rows < 1:
            raise InputError(f"rows={rows}: a batch holds at least one row; pass rows=1 or more.")
        if self._taken and not self.repeatable:
            raise InputError(
                "These rows come from an iterator, which can be read only once, and they were read already. "
                "Open a new iterator, or pass an array, a table or a file."
            )
        self._taken = True
        return self.read(rows)


def reblock(blocks: Iterator[Block], rows: int) -> Iterator[Block]:
    """Cut and join blocks of any height into blocks of `rows` rows; blocks that fit are passed on uncopied."""
    waiting: list[Block] = []
    missing = rows
    for block in blocks:
        start = 0
        while start < len(block):
            piece = block[start : start + missing]
            waiting.append(piece)
            start += len(piece)
            missing -= len(piece)
            if missing == 0:
                yield _join(waiting)
                waiting, missing = [], rows
    if waiting:
        yield _join(waiting)


def _join(pieces: list[Block]) -> Block:
    # Joining float32 with float64 gives float64, so no row loses digits to its neighbours.
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


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
    except (pa.ArrowException, OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError) as error:
        raise InputError(
            f"{origin} cannot be read as rows ({error}). It is damaged, truncated, or not what its name or type says."
        ) from error
