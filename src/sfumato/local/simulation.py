"""Many devices at once: what a collection would have given, for people who are simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.local.mechanism import Device
from sfumato.local.releasing import make_release
from sfumato.local.vectorised import directions
from sfumato.privacy.bits import noise_bits
from sfumato.public.domain import Domain
from sfumato.quantizers.base import Floats
from sfumato.sources import Source, open_source

if TYPE_CHECKING:
    from sfumato.local.protocol import Protocol
    from sfumato.release import Release

BLOCK_PEOPLE = 1 << 16
CONDITION = "simulated: one party held all points and is trusted with them"


def simulate(protocol: Protocol, X: Any, random_state: int | None = None) -> Release:
    """See `Protocol.simulate`."""
    source = X if isinstance(X, Source) else open_source(X)
    if source.dimension != protocol.document["dimension"]:
        raise InputError(f"the protocol has {protocol.document['dimension']} columns, the points {source.dimension}")
    server = protocol.server()
    bits = noise_bits(random_state)
    tally, people = server.tally(), 0
    for number, block in enumerate(source.batches(BLOCK_PEOPLE)):
        server.simulate(prepared(server.device, block.astype(np.float64)), bits.child(number), tally)
        people += len(block)
    return make_release(protocol, server, tally, people, private=bits.private, conditions=(CONDITION,))


def prepared(device: Device, points: Floats) -> Floats:
    """Do to many points what `Device.prepared` does to one, bit for bit."""
    return clip(device.domain, directions(points) if device.angular else points)


def clip(domain: Domain, points: Floats) -> Floats:
    """Do to many points what `Domain.clip` does to one, bit for bit."""
    lower, upper = np.array(domain.lower), np.array(domain.upper)
    clipped = np.where(np.isfinite(points), np.clip(points, lower, upper), np.array(domain.middle))
    return np.asarray(clipped, dtype=np.float64)
