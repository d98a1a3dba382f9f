"""The one door to the data: an engine adds up the integers of a source's rows.

Everything that is learnt from private rows is an exact integer sum: features under an encoder, the sums of all classes
in one pass, hashed counters, histograms, and the count, which sums nothing and counts what is kept. So an engine that
can `sum` can do all of it. What a record may contribute (weights, limits per user) is decided by the engine too, in
`counted`, because it is a choice among rows that may be spread over machines.

Integer sums commute. Without coins an engine's result is the same, bit for bit, as any other's; with coins it has the
same law, if each part of the source is summed once, with coins that no other part has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.contributions import bounded, thinned
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Integers
from sfumato.quantizers.box import Box
from sfumato.sources import Source

Progress = Callable[[int], None]


class Summand(Protocol):
    """What an engine sums: an `Encoder`, or anything that adds each row's integers to sums of a fixed size."""

    @property
    def size(self) -> int:
        """How many sums."""
        ...

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the integers of `rows` to `sums` in place and return how many rows were kept."""
        ...


@dataclass(frozen=True)
class Presence:
    """Sums nothing: the number of rows kept is the count. Without a box every row of finite numbers is kept."""

    box: Box | None = None

    @property
    def size(self) -> int:
        """No sums."""
        return 0

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Count the rows that are kept."""
        kept = np.isfinite(rows).all(axis=1) if self.box is None else self.box.holds(rows)
        return int(kept.sum())


class Engine(ABC):
    """Where sums run; a new one states `sum`, and `counted` and `rows` where its rows are not read here."""

    @abstractmethod
    def sum(
        self,
        source: Source,
        encoder: Summand,
        coins: SecureBits | None = None,
        progress: Progress | None = None,
    ) -> tuple[Integers, int, int]:
        """Sum the integers of all rows.

        Parameters
        ----------
        source : Source
            The rows.
        encoder : Summand
            Turns rows into integers.
        coins : SecureBits, optional
            Parent of the secret coins; every batch has a child of its own. None for encoders that toss none.
        progress : callable, optional
            Called with the number of rows of each batch done. For the curator's eyes only.

        Returns
        -------
        sums, kept, seen
            The exact sum, how many rows it holds, and how many were read.
        """

    def count(self, source: Source, box: Box | None = None) -> int:
        """Count the rows of finite numbers, of those in `box` where one is passed."""
        return self.sum(source, Presence(box))[1]

    def counted(self, source: Source, limit: int, bits: SecureBits) -> Source:
        """Return the records that count: what the weights' coins keep, and of that `limit` of every user."""
        if source.weighted:
            source = thinned(source, bits)
        return bounded(source, limit, bits) if source.keyed else source

    def rows(self, source: Source) -> Iterator[NDArray[Any]]:
        """Read the rows in one place, in batches, for the rare statistic that is no sum over rows (pairs)."""
        return source.batches()
