"""Rows that can be read elsewhere: what an engine sends to other processes and machines in place of the rows.

A source whose `read` is `Files` or `Frame` says where its rows are. Whatever replaces `read` (users put beside the
rows, a choice among them) replaces that too, so that no engine can read the rows and miss what was done to them; what
may be done elsewhere as well is a `Step`, which is sent along.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from sfumato.deferred import pyarrow as pa
from sfumato.privacy.bits import SecureBits
from sfumato.sources.arrow import Layout
from sfumato.sources.base import Rows, reblock


class Shard(Protocol):
    """Some rows of files, in a form that can be pickled."""

    @property
    def rows(self) -> int | None:
        """How many rows, where that is known without reading them; private, and for the size of tasks alone."""
        ...

    def pieces(self, rows: int) -> Iterator[Rows]:
        """Read the rows, in pieces of `rows`."""
        ...


class Step(Protocol):
    """What is done to rows after they are read, in a form that can be pickled; coins are those of whoever runs it."""

    def __call__(self, pieces: Iterator[Rows], bits: SecureBits) -> Iterator[Rows]:
        """Change rows, leave some out, or add a column."""
        ...


@dataclass(frozen=True)
class Remote(ABC):
    """How a source is read here, and by others."""

    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> Self:
        """Return the same rows after one more step."""
        return replace(self, steps=(*self.steps, step))

    def __call__(self, rows: int) -> Iterator[Rows]:
        """Read the rows here."""
        pieces = self._here(rows)
        return reblock(stepped(pieces, self.steps, SecureBits()), rows) if self.steps else pieces

    @abstractmethod
    def _here(self, rows: int) -> Iterator[Rows]:
        """Read the rows as they are."""


def stepped(pieces: Iterator[Rows], steps: Sequence[Step], bits: SecureBits) -> Iterator[Rows]:
    """Take rows through all steps."""
    for step in steps:
        pieces = step(pieces, bits)
    return pieces


@dataclass(frozen=True, kw_only=True)
class Files(Remote):
    """Rows of files that every worker can open.

    Attributes
    ----------
    shards : callable
        Lists the parts into which the files may be cut.
    read : callable
        Reads them here.
    """

    shards: Callable[[], Sequence[Shard]]
    read: Callable[[int], Iterator[Rows]]

    def _here(self, rows: int) -> Iterator[Rows]:
        return self.read(rows)


@dataclass(frozen=True, kw_only=True)
class Frame(Remote):
    """Rows of a Spark DataFrame, which stay where they are until they are asked for.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
        Of the layout's columns alone.
    layout : Layout
        What the columns mean.
    """

    frame: Any
    layout: Layout

    def _here(self, rows: int) -> Iterator[Rows]:
        """Read partition after partition, for the rare statistic that is no sum: all rows pass through here."""
        return self.layout.pieces(self._record_batches(), rows)

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        for row in self.frame.mapInArrow(_serialized, "batch binary").toLocalIterator():
            with pa.ipc.open_stream(bytes(row.batch)) as reader:
                yield from reader


def _serialized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["batch"])
