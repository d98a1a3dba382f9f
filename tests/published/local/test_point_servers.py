"""Server halves of reported points: what devices send is parsed as it was drawn, and simulations agree."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels import Gaussian
from sfumato.local import Protocol
from sfumato.local.device import HEADER_BYTES
from sfumato.published.local.point_servers import PointServer

POINT = [0.25, 0.5, 0.75]


@pytest.mark.parametrize("name", ["dm", "pm", "sw", "gi"])
def test_reports_of_devices_are_in_range_and_centred_like_simulated_ones(name: str) -> None:
    """Means of 400 reports, which lie within six standard errors of each other with probability 1 - 1e-7 or so."""
    made = Protocol(Gaussian(0.5), 3, 4, 50, mechanism=name, radius=0.1, bounds=(0, 1), seed=1)
    server, client = made.server(), made.client()
    assert isinstance(server, PointServer)
    payloads = np.array([list(client.report(POINT)[HEADER_BYTES:]) for _ in range(400)], dtype=np.uint8)
    sent, good = server.parse(payloads)
    assert good.all() and sent.shape == (400, 3)
    drawn = made.simulate(np.tile(POINT, (400, 1)), random_state=1).values.reshape(-1, 3)
    spread = np.sqrt((sent.var(axis=0) + drawn.var(axis=0)) / 400) + 1e-9
    assert (np.abs(sent.mean(axis=0) - drawn.mean(axis=0)) < 6 * spread).all()
