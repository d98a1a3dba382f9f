"""Small collections that several tests share."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import AnalyzerKey, Client, Protocol, Shuffler, Submission
from sfumato.shuffled.sealing import COVER

KEY = AnalyzerKey(bytes(range(32)))


@lru_cache
def small_protocol(participants: int = 8, instances: int = 4, bitsum: str = "rr", **options: Any) -> Protocol:
    """A protocol of one column with little noise to speak of: it is for messages, not for accuracy."""
    return Protocol(
        "gaussian",
        bandwidth=1.0,
        dimension=1,
        epsilon=4,
        delta=0.0 if bitsum == "pure" else 1e-2,
        participants=participants,
        instances=instances,
        bitsum=bitsum,
        key=KEY,
        seed=5,
        **options,
    )


def client_of(protocol: Protocol, label: Any = None, **options: Any) -> Client:
    """A participant who allows the cost of these small collections."""
    return protocol.client(label, **{"max_epsilon": 50, "max_delta": 0.1, **options})


def submissions(protocol: Protocol, count: int, label: Any = None) -> list[Submission]:
    """Messages of so many participants, at points 0, 0.1, ..."""
    return [
        client_of(protocol, label).messages([number / 10], secure=SecureBits.seeded(number)) for number in range(count)
    ]


def opened(protocol: Protocol, submission: Submission, label: Any = None) -> list[tuple[int, int]]:
    """What the messages of a submission say, without cover."""
    found = (KEY.open(message, protocol.context(label)) for message in submission)
    return [content for content in found if content is not None and content != COVER]


def batch_of(protocol: Protocol, sent: list[Submission], folder: Path, label: Any = None) -> Path:
    """Shuffle what was sent."""
    path = folder / "batch"
    with Shuffler(folder / "inbox", protocol, label) as shuffler:
        shuffler.receive(*sent)
        shuffler.shuffle(path)
    return path


def points(count: int, dimension: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Normal points."""
    return np.random.default_rng(seed).normal(size=(count, dimension))
