"""What engines with workers of their own have in common: files are sent as paths, and each task gives one result.

A task reads its rows, takes them through the source's steps, and returns the exact sum of their integers. It draws its
own coins from the operating system, so that no secret is sent and no two tasks, nor two attempts at one, share any. A
task's result is taken from one attempt as a whole, hence the sum has the law of a single process; without coins it is
the same sum, bit for bit. No task fails because of a value or of a coin.

Users. A limit on a user's records is a choice among all of that user's rows, so these must come to one task; which
engine brings them there is its own affair. The choice is made there in one pass (`contributions.one_pass`), by the law
of a single process. Nothing is moved between tasks once a coin was drawn.

Rows that were chosen by coins are chosen anew at every reading. Weights, whose coins decide how many records there are,
are therefore read once; so are users where records outside the bounds are dropped and a count is to be bought.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from sfumato.engines.base import Engine, Presence, Progress, Summand
from sfumato.engines.contributions import Limited, Thinned
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Bound, Integers
from sfumato.sources import Source
from sfumato.sources.base import BATCH_NUMBERS, BATCH_ROWS, Rows
from sfumato.sources.remote import Remote, Shard, Step, stepped
from sfumato.threads import one_blas_thread

Item = TypeVar("Item")
TASK_NUMBERS = 1 << 26  # that a task works through, or it costs less than its start: half a second at least


@dataclass(frozen=True)
class Partial:
    """What a task returns: the sum of its rows' integers, how many rows it holds, and how many were read."""

    sums: Integers
    kept: int
    seen: int


@dataclass(frozen=True)
class Work:
    """What a task does, in a form that can be pickled.

    Attributes
    ----------
    encoder : Summand
        Turns rows into integers.
    steps : tuple of Step
        What is done to the rows before.
    dimension : int
        Columns of the rows as they are read.
    """

    encoder: Summand
    steps: tuple[Step, ...]
    dimension: int

    @property
    def batch(self) -> int:
        """Rows at a time."""
        return min(BATCH_ROWS, max(1, BATCH_NUMBERS // self.dimension))

    def hands(self, shards: Sequence[Shard]) -> list[list[Shard]]:
        """Put neighbouring shards together until a task has enough to do: numbers to read, and features to add to.

        How many features a record touches follows from its bound; where there is none, it may be all.
        """
        bound: Bound | None = getattr(self.encoder, "bound", None)
        touched = self.encoder.size if bound is None else bound.l1 // max(1, bound.largest)
        hands, least = [], TASK_NUMBERS // (self.dimension + touched)
        room = 0
        for shard in shards:
            if room <= 0:
                hands.append(list[Shard]())
                room = least
            hands[-1].append(shard)
            room = 0 if shard.rows is None else room - shard.rows
        return hands

    def read(self, shards: Sequence[Shard]) -> Iterator[Rows]:
        """Read the rows of shards."""
        for shard in shards:
            yield from shard.pieces(self.batch)

    def sum(self, pieces: Iterator[Rows]) -> Partial:
        """Add up the integers of rows, with coins of this process alone."""
        bits, sums, kept, seen = SecureBits(), np.zeros(self.encoder.size, dtype=np.int64), 0, 0
        with one_blas_thread():
            for piece in stepped(pieces, self.steps, bits):
                kept += self.encoder.accumulate(piece.block, sums, bits)
                seen += len(piece)
        return Partial(sums, kept, seen)


class Shipping(Engine):
    """An engine that sends paths, or work to where rows are; a subclass states `run`."""

    name: str
    takes: str

    @abstractmethod
    def run(self, read: Remote, work: Work, take: Callable[[Partial], None]) -> None:
        """Run all tasks, and hand over each one's result as it is there: they are not gathered."""

    def sum(
        self,
        source: Source,
        encoder: Summand,
        coins: SecureBits | None = None,
        progress: Progress | None = None,
    ) -> tuple[Integers, int, int]:
        """Sum the integers of all rows; see `Engine.sum`. Coins are the workers' own, seeded or not."""
        read = self._remote(source)
        if isinstance(encoder, Presence) and encoder.box is not None and is_limited(read.steps):
            raise InputError(
                f"the engine {self.name} chooses users' records anew at every reading, so that a count of those within "
                "the bounds cannot be bought first: pass n_hint= as a number, or outside='clip'"
            )
        sums, kept, seen = np.zeros(encoder.size, dtype=np.int64), 0, 0

        def take(partial: Partial) -> None:
            nonlocal kept, seen
            np.add(sums, partial.sums, out=sums)
            kept, seen = kept + partial.kept, seen + partial.seen
            if progress is not None:
                progress(partial.seen)

        self.run(read, Work(encoder, read.steps, source.dimension), take)
        return sums, kept, seen

    def counted(self, source: Source, limit: int, bits: SecureBits) -> Source:
        """Return the records that count, to be chosen by whoever reads them."""
        read = self._remote(source)
        if source.weighted:
            read = read.then(Thinned())
        if source.keyed:
            read = read.then(Limited(limit))
        repeatable = source.repeatable and not source.weighted
        return replace(source, read=read, keyed=False, weighted=False, expected_rows=None, repeatable=repeatable)

    def _remote(self, source: Source) -> Any:
        if not isinstance(source.read, Remote):
            raise InputError(
                f"the engine {self.name} reads {self.takes}, with users, weights and labels in columns that are named; "
                "pass such data, or engine='threads' for data in the memory of this process"
            )
        return source.read


def is_limited(steps: Sequence[Step]) -> bool:
    """Whether all rows of a user must come to one task."""
    return any(isinstance(step, Limited) for step in steps)


def dealt(items: Sequence[Item], hands: int) -> list[list[Item]]:
    """Deal items, neighbours together, into at most `hands` hands of nearly equal size.

    Examples
    --------
    >>> dealt(range(5), 2), dealt([], 2)
    ([[0, 1, 2], [3, 4]], [])
    """
    size = -(-len(items) // hands) if items else 1
    return [list(items[start : start + size]) for start in range(0, len(items), size)]
