"""The exact integer sum of a stream, on the threads of one machine, in memory that does not grow with n.

Integer sums commute, so the result is the same for every number of threads and every block size. Threads are what runs
a sum unless the caller names another engine, or the rows are on one: `engine_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.base import Engine, Progress, Summand
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.public.arguments import says
from sfumato.public.codec import brief
from sfumato.public.ranges import MOST_RECORDS, check_whole
from sfumato.quantizers.base import Integers
from sfumato.sources import Source
from sfumato.sources.base import BATCH_ROWS
from sfumato.sources.remote import Frame
from sfumato.threads import spread, workers_of

NAMES = ("threads", "processes", "spark")


@dataclass(frozen=True)
class Threads(Engine):
    """Sums on the threads of this machine.

    Attributes
    ----------
    workers : int, optional
        Threads; all available cores by default.
    batch : int
        Rows that one of them takes at a time.

    Examples
    --------
    >>> from sfumato.sources import open_source
    >>> Threads().count(open_source([[1.0], [float("nan")], [3.0]]))
    2
    """

    workers: int | None = None
    batch: int = BATCH_ROWS

    def __post_init__(self) -> None:
        workers_of(self.workers)
        object.__setattr__(self, "batch", check_whole("batch", self.batch, MOST_RECORDS))

    def sum(
        self,
        source: Source,
        encoder: Summand,
        coins: SecureBits | None = None,
        progress: Progress | None = None,
    ) -> tuple[Integers, int, int]:
        """Sum the integers of all rows; see `Engine.sum`."""
        sums, kept, seen = np.zeros(encoder.size, dtype=np.int64), 0, 0
        spare: list[Integers] = []

        def parts() -> Iterator[tuple[NDArray[Any], Integers, SecureBits | None]]:
            for index, batch in enumerate(source.batches(self.batch)):
                partial = spare.pop() if spare else np.zeros(encoder.size, dtype=np.int64)
                yield batch, partial, None if coins is None else coins.child(index)

        def add(part: tuple[NDArray[Any], Integers, SecureBits | None]) -> tuple[Integers, int, int]:
            batch, partial, batch_coins = part
            return partial, encoder.accumulate(batch, partial, batch_coins), len(batch)

        def take(done: tuple[Integers, int, int]) -> None:
            nonlocal kept, seen
            partial, rows_kept, rows_seen = done
            np.add(sums, partial, out=sums)
            partial[:] = 0
            spare.append(partial)
            kept, seen = kept + rows_kept, seen + rows_seen
            if progress is not None:
                progress(rows_seen)

        spread(parts(), add, take, self.workers)
        return sums, kept, seen


def engine_of(engine: Engine | str | None, threads: int | None = None, source: Source | None = None) -> Engine:
    """Return the engine that a caller names; threads by default, and Spark for a source that is a Spark DataFrame.

    Examples
    --------
    >>> engine_of(None, threads=2)
    Threads(workers=2, batch=65536)
    """
    if engine is None and threads is None and source is not None and isinstance(source.read, Frame):
        engine = "spark"
    if engine is None or says(engine, "threads"):
        return Threads(threads)
    if threads is not None:
        raise InputError("threads is for the engine of this machine: say how many workers where the engine is made")
    if isinstance(engine, Engine):
        return engine
    if says(engine, "spark"):
        from sfumato.engines.spark import SparkEngine

        return SparkEngine()
    if says(engine, "processes"):
        from sfumato.engines.processes import Processes

        return Processes()
    raise InputError(f"engine must be {', '.join(map(repr, NAMES))} or an Engine, got {brief(engine)}")
