"""Many releases of the same rows: a fit sums them every time, and only the noise of the releases differs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.central.curator import publish
from sfumato.engines import Threads
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.release import Release
from sfumato.sources import open_source


def repeated(mechanism: Mechanism, rows: Any, runs: int, seed: int) -> list[Release]:
    """Return what a curator publishes in so many runs; the first is what `Curator.run` does with the same seed.

    Rows are summed once, which no coins may decide, and every release has noise of its own.
    """
    bits, source, engine = SecureBits.seeded(seed), open_source(rows), Threads(1)
    sums, kept, seen = engine.sum(source, mechanism.encoder, bits)
    assert np.array_equal(sums, engine.sum(source, mechanism.encoder, SecureBits.seeded(seed + 1))[0]), "coins decide"
    return [publish(mechanism, sums, kept, seen, bits) for _ in range(runs)]
