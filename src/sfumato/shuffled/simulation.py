"""The whole collection at once: what the shuffler would let out has the law of these counts, with no message made.

The bits of all participants are rounded and summed, and the bit-sum protocol samples what so many participants send
together (`BitSum.totals`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits, noise_bits
from sfumato.release import Release
from sfumato.shuffled.analyzer import release_from
from sfumato.shuffled.bitsum import BitSum, Counts
from sfumato.shuffled.bitsum.rr import RandomisedResponse
from sfumato.shuffled.bitsum.sampled_rr import SampledResponse
from sfumato.shuffled.groups import Group
from sfumato.sources import open_source

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol


def simulate(protocol: Protocol, X: Any, y: Any, random_state: int | None) -> Any:
    """Run a collection; see `Protocol.simulate`."""
    secure = noise_bits(random_state)
    points = protocol.features.points(open_source(X).whole())
    if protocol.classes is None:
        if y is not None:
            raise InputError("the protocol has no classes: leave out y, or pass classes= to Protocol")
        return _release(protocol, protocol.groups[0], points, secure)
    if y is None or len(y) != len(points):
        raise InputError("the protocol has classes: pass y, one class for each row of X")
    codes = _reported(protocol, y, secure)
    return {
        group.label: _release(protocol, group, points[codes == place], secure)
        for place, group in enumerate(protocol.groups)
    }


def _reported(protocol: Protocol, y: Any, secure: SecureBits) -> Integers:
    if protocol.labels is None:
        return np.array([protocol.group(label)[0] for label in y], dtype=np.int64)
    return protocol.labels.report_codes(protocol.labels.codes(y), secure)


def _release(protocol: Protocol, group: Group, points: NDArray[np.float64], secure: SecureBits) -> Release:
    people = len(points)
    if people < group.participants:
        who = "" if group.label is None else f" in class {group.label!r}"
        raise InputError(
            f"{people} participants{who} take part and the guarantee needs {group.participants}: pass more points, or "
            "a protocol for fewer participants"
        )
    return release_from(protocol, group, sampled_counts(protocol, group, points, secure), people, secure.private)


def sampled_counts(protocol: Protocol, group: Group, points: NDArray[np.float64], secure: SecureBits) -> Counts:
    """Sample what the analyzer counts if these participants send their messages."""
    bitsum, people = group.bitsum, len(points)
    if isinstance(bitsum, RandomisedResponse | SampledResponse):
        bitsum = replace(bitsum, n=people)  # every participant does the same, whoever else takes part
    sums = np.zeros(protocol.features.instances, dtype=np.int64)
    for bits in protocol.features.blocks(points[: bitsum.n], secure):
        sums += bits.sum(axis=0)
    counts = bitsum.totals(sums, secure)
    return _with_more(protocol, bitsum, counts, points[bitsum.n :], secure)


def _with_more(
    protocol: Protocol, bitsum: BitSum, counts: Counts, points: NDArray[np.float64], secure: SecureBits
) -> Counts:
    """Add the messages of participants beyond those that the noise was made for."""
    ones, zeros = counts.ones.copy(), counts.zeros.copy()
    for bits in protocol.features.blocks(points, secure):
        sent = bitsum.randomise(bits, secure)
        ones += sent.ones.sum(axis=0)
        zeros += sent.zeros.sum(axis=0)
    return Counts(ones, zeros)
