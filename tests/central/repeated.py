"""Many releases of the same rows: a fit sums them every time, and only the noise of the releases differs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.central.curator import publish
from sfumato.engines import Threads
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Integers
from sfumato.release import Release
from sfumato.sources import open_source


def _summed(mechanism: Mechanism, rows: Any, bits: SecureBits) -> tuple[Integers, int, int]:
    """Sum the rows once, which no coins may decide."""
    source, engine = open_source(rows), Threads(1)
    sums, kept, seen = engine.sum(source, mechanism.encoder, bits)
    assert np.array_equal(sums, engine.sum(source, mechanism.encoder, SecureBits())[0]), "coins decide"
    return sums, kept, seen


def repeated(mechanism: Mechanism, rows: Any, runs: int, seed: int) -> list[Release]:
    """Return what a curator publishes in so many runs; the first is what `Curator.run` does with the same seed."""
    bits = SecureBits.seeded(seed)
    sums, kept, seen = _summed(mechanism, rows, bits)
    return [publish(mechanism, sums, kept, seen, bits) for _ in range(runs)]


def drawn(mechanism: Mechanism, rows: Any, runs: int, seed: int) -> tuple[Integers, Integers]:
    """Return values, shape (runs, size), and counts of what releases with added noise hold, drawn in one call each."""
    bits = SecureBits.seeded(seed)
    sums, kept, seen = _summed(mechanism, rows, bits)
    law = mechanism.count_law
    counts = np.full(runs, seen) if law is None else np.maximum(kept + law.sample(bits, runs), 1)
    return sums + mechanism.noise.sample(bits, runs * sums.size).reshape(runs, -1), counts
