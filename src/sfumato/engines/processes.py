"""Sums in processes of this machine, which read files by their paths: for work that threads cannot share.

It is here to show that an engine is `run` and nothing else, and needs no more than the standard library. Ray and
Dask over paths do the same on several machines; they were left out, because Spark is where the tables are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato.engines.shipping import Partial, Shipping, Work, dealt, is_limited
from sfumato.errors import InputError
from sfumato.sources.remote import Files, Remote, Shard
from sfumato.threads import spawned, spread, workers_of


@dataclass(frozen=True)
class Processes(Shipping):
    """Sums in processes of this machine.

    Attributes
    ----------
    workers : int, optional
        Processes; all available cores by default.

    Examples
    --------
    >>> Processes(2)
    Processes(workers=2)
    """

    name, takes = "processes", "files"
    workers: int | None = None

    def __post_init__(self) -> None:
        workers_of(self.workers, "workers")

    def run(self, read: Remote, work: Work, take: Callable[[Partial], None]) -> None:
        """Run all tasks; see `Shipping.run`. With users there is one, for all rows of a user must meet in it."""
        if not isinstance(read, Files):
            raise InputError("the engine processes reads files: pass paths, or engine='spark' for a Spark DataFrame")
        workers, shards = workers_of(self.workers), read.shards()
        hands = dealt(shards, 1) if is_limited(read.steps) else work.hands(shards)
        with spawned(workers) as pool:
            spread(hands, lambda hand: pool.submit(_task, work, hand).result(), take, workers)


def _task(work: Work, shards: Sequence[Shard]) -> Partial:
    return work.sum(work.read(shards))
