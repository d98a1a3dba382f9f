"""What a pool of public rows costs those who read a release of it: bounded, and new protocols keep within that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.local import Protocol, pool
from sfumato.local.pool_server import PoolReader
from sfumato.public.ranges import reader_memory

ASKED: dict[str, dict[str, Any]] = {
    "phases": {"kernel": "gaussian", "bandwidth": 1.0},
    "metric-phases": {"kernel": "gaussian", "bandwidth": 1.0, "radius": 0.1},
    "rows": {"kernel": "laplacian", "bandwidth": 1.0},
    "metric-rows": {"kernel": "l2-lsh", "bandwidth": 1.0, "radius": 0.1},
    "mldp-kde": {"kernel": "l2-lsh", "bandwidth": 1.0, "radius": 0.1},
}


@pytest.mark.once
@pytest.mark.parametrize("mechanism", ASKED)
def test_a_pool_that_takes_too_much_memory_is_refused_before_it_is_drawn(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Protocol(
        **ASKED[mechanism], dimension=2, epsilon=2, participants=100, mechanism=mechanism, bounds=(0, 1), seed=1
    )
    release = made.simulate(np.full((100, 2), 0.3), random_state=1)
    reader, kernel = release.reader, release.kernel
    document, arrays = reader.to_document()
    assert type(reader).from_document(document, arrays, kernel, reader.size).size == reader.size  # type: ignore[attr-defined]
    monkeypatch.setattr(pool, "row_bytes", None)  # nothing is drawn
    with reader_memory(8), pytest.raises(InputError, match="pass max_memory= to load"):
        type(reader).from_document(document, arrays, kernel, reader.size)  # type: ignore[attr-defined]


@pytest.mark.once
@pytest.mark.parametrize("mechanism", [name for name in ASKED if name != "mldp-kde"])
def test_new_pools_keep_within_what_readers_take(mechanism: str) -> None:
    asked = {**ASKED[mechanism], "dimension": 1500, "epsilon": 2, "participants": 10**6, "bounds": (0, 1), "seed": 1}
    made = Protocol(**asked, mechanism=mechanism)
    reader = made.server().quantizer(made.server().tally())
    assert isinstance(reader, PoolReader)
    reader.check_cost(reader.device)
    with pytest.raises(InputError, match="pool must be an integer from"):
        Protocol(**asked, mechanism=mechanism, options={"pool": 65536})


@pytest.mark.once
def test_a_pool_that_is_drawn_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pool.row_table(bytes(32), "rows", 50, 2, 3)
    monkeypatch.setattr(pool, "BLOCK_CELLS", 35)
    blocks = pool.pool_tables(bytes(32), "rows", 50, 2, 3, lambda keys, words: (keys, words))
    assert all(np.array_equal(one, other) for one, other in zip(whole, blocks, strict=True))
    assert np.array_equal(pool.by_blocks(blocks[0], lambda part: part.max(axis=1)), blocks[0].max(axis=1))
