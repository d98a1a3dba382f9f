"""Server halves of shared sketches: counters of what devices send, one for each row and bucket."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels import L2LSH, Angular, Kernel
from sfumato.local import Protocol
from sfumato.local.device import HEADER_BYTES
from sfumato.published.local.sketch_servers import SketchServer

CASES = [
    ("mldp-kde", L2LSH(0.5), {}),
    ("fkm-lr", Angular(), {}),
    ("race", L2LSH(0.5), {"not_private": True, "rows": 20}),
]


@pytest.mark.parametrize(("name", "kernel", "options"), CASES)
def test_every_report_adds_one_to_every_row(name: str, kernel: Kernel, options: dict[str, object]) -> None:
    made = Protocol(kernel, 3, 2, 50, mechanism=name, radius=0.1, bounds=(0, 1), seed=1, options=options)
    server, client = made.server(), made.client(not_private=name == "race")
    assert isinstance(server, SketchServer)
    payloads = np.array([list(client.report([0.2, 0.4, 0.6])[HEADER_BYTES:]) for _ in range(7)], dtype=np.uint8)
    tally = server.tally()
    assert server.count(payloads, tally).all()
    counters = tally.integers().reshape(made.document["mechanism"]["rows"], -1)
    assert (counters.sum(axis=1) == 7).all() and counters.min() >= 0
