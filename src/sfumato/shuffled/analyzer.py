"""The analyzer: opens a shuffled batch, counts its messages, and publishes a release.

It refuses a batch whose participants are fewer than the guarantee needs. Cover is dropped. A message that does not open
(of another collection, or made up), or that no client sends, is left out. Submissions reach the shuffler whole, so that
such messages come from participants who do not follow the protocol, no more of each than everybody sends: the batch is
refused if they are more than those beyond the needed number can have sent. In `rr`, where everyone sends one message
for each instance, every instance must moreover have enough messages. Copies do not leave the shuffler, so a batch with
copies was changed after it and is refused.

All of this is post-processing of what the shuffler let out: it costs no privacy.

`simulate` is the whole collection at once: what the shuffler would let out has the law of these counts, with no message
made. The bits of all participants are rounded and summed, and the bit-sum protocol samples what so many participants
send together (`BitSum.totals`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits, noise_bits
from sfumato.privacy.laws import ReportNoise
from sfumato.public.arguments import listed
from sfumato.release import Count, Release
from sfumato.shuffled.bitsum import Counts
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse
from sfumato.shuffled.groups import Group
from sfumato.shuffled.messages import BLOCK_MESSAGES, read_batch, read_header
from sfumato.shuffled.sealing import COVER, MESSAGE_BYTES, AnalyzerKey, Context
from sfumato.sources import open_source
from sfumato.threads import spawned

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol

METHOD = "shuffled"
Progress = Callable[[int, int], None]


class Analyzer:
    """The analyzer of a collection; made by `Protocol.analyzer`."""

    def __init__(self, protocol: Protocol, key: AnalyzerKey) -> None:
        if key.public != protocol.key:
            raise InputError(
                f"the key {key.id!r} does not belong to the protocol, whose messages it cannot open; pass the right one"
            )
        self._protocol, self._key = protocol, key

    def counts(
        self, path: str | Path, label: Any = None, *, workers: int = 1, progress: Progress | None = None
    ) -> tuple[Counts, int]:
        """Open a batch and count what its messages say; returns the counts and the number of participants."""
        return self._opened(path, label, workers, progress)[:2]

    def _opened(
        self, path: str | Path, label: Any, workers: int, progress: Progress | None
    ) -> tuple[Counts, int, float]:
        """Return counts, participants, and how many are left if what was lost makes up whole submissions."""
        protocol, header = self._protocol, read_header(path)
        place, group = protocol.group(label)
        if header.context != Context(protocol.fingerprint, place):
            raise InputError(f"the batch {str(path)!r} is of another protocol or class; pass the right one")
        if header.participants < group.participants:
            raise InputError(
                f"the batch holds {header.participants} participants and the guarantee needs {group.participants}; "
                "it stays closed"
            )
        _refuse_copies(path, header.messages)
        totals = np.zeros(2 * protocol.features.instances + 1, dtype=np.int64)
        with _mapping(workers) as mapping:
            task = partial(_count_block, self._key.private, header.context, protocol.features.instances)
            for done, block in enumerate(mapping(task, read_batch(path)), start=1):
                totals += block
                if progress is not None:
                    progress(min(done * BLOCK_MESSAGES, header.messages), header.messages)
        zeros, ones = totals[:-1].reshape(2, -1)
        if not group.bitsum.message_bits:
            zeros = np.zeros_like(zeros)  # where all messages say one, no client sends these
        counts = Counts(ones, zeros)
        lost = _checked_lost(group, header.participants, counts, int(totals[-1]))
        return counts, header.participants, header.participants - lost / group.messages

    def analyze(
        self, path: str | Path, label: Any = None, *, workers: int = 1, progress: Progress | None = None
    ) -> Release:
        """Return the release of a batch.

        Parameters
        ----------
        path : str or Path
            The batch that the shuffler wrote.
        label : int or str, optional
            Its class, where there are classes.
        workers : int
            Processes that open messages.
        progress : callable, optional
            Called with the messages opened and all messages.
        """
        counts, participants, present = self._opened(path, label, workers, progress)
        return release_from(self._protocol, self._protocol.group(label)[1], counts, participants, present=present)


def release_from(
    protocol: Protocol,
    group: Group,
    counts: Counts,
    participants: int,
    private: bool = True,
    present: float | None = None,
) -> Release:
    """Turn the counts of all messages of a group into a release.

    Where messages were lost, those of `present` participants are left; the others count as if they were like these.
    """
    bitsum, features = group.bitsum, protocol.features
    there = participants if present is None else present
    sums = bitsum.estimate(counts, there)
    sums *= participants / ((counts.ones + counts.zeros) if group.every_instance else there)
    variance = features.variance(bitsum.variance * there / bitsum.n, there) * (participants / there) ** 2
    return Release(
        method=METHOD,
        guarantee=protocol.promise.guarantee(protocol.threat, private),
        kernel=protocol.kernel,
        reader=protocol.quantizer,
        values=features.sums(sums, participants),
        noise=ReportNoise(variance),
        count=Count(participants, 0.0, True),
        parameters={
            "protocol": protocol.fingerprint,
            "bitsum": protocol.bitsum,
            "instances": features.instances,
            "threat": protocol.threat,
            **({} if group.label is None else {"class": group.label}),
        },
    )


def _checked_lost(group: Group, participants: int, counts: Counts, cover: int) -> int:
    """Count the messages that are lost, no more than participants beyond the needed number can have spoiled."""
    received = counts.ones + counts.zeros
    lost = participants * group.messages - int(received.sum()) - cover
    spare = participants - group.participants
    if lost < 0:
        raise InputError(
            f"the batch holds more messages than {participants} participants send, {group.messages} each: it was "
            "changed after the shuffler and nothing is released"
        )
    if group.every_instance and (least := int(received.min())) < group.participants:
        raise InputError(
            f"{lost} messages do not open or are missing; without them {least} participants may be left in an "
            f"instance, and the guarantee needs {group.participants}: nothing is released"
        )
    if lost > spare * group.messages:
        raise InputError(
            f"{lost} messages do not open or are missing; {spare} participants beyond the {group.participants} that "
            f"the guarantee needs account for {spare * group.messages} at most: nothing is released; ask the shuffler "
            "for the batch again, or start a collection for fewer participants"
        )
    return lost


def _refuse_copies(path: str | Path, messages: int) -> None:
    digests = np.empty(messages, dtype="V16")
    at = 0
    for block in read_batch(path):
        for start in range(0, len(block), MESSAGE_BYTES):
            digests[at] = hashlib.blake2b(block[start : start + MESSAGE_BYTES], digest_size=16).digest()
            at += 1
    if np.unique(digests).size < messages:
        raise InputError(
            f"the batch {str(path)!r} holds copies of a message, which a shuffler drops: it was changed afterwards and "
            "stays closed"
        )


@contextmanager
def _mapping(workers: int) -> Iterator[Callable[..., Iterator[Integers]]]:
    """Give a `map` that runs here or in several processes, and reads ahead no more than they need."""
    if workers == 1:
        yield map
        return
    with spawned(workers) as pool:

        def windowed(task: Callable[[bytes], Integers], blocks: Iterator[bytes]) -> Iterator[Integers]:
            waiting = []
            for block in blocks:
                waiting.append(pool.submit(task, block))
                if len(waiting) > 2 * workers:
                    yield waiting.pop(0).result()
            for future in waiting:
                yield future.result()

        yield windowed


def _count_block(private: bytes, context: Context, instances: int, block: bytes) -> Integers:
    """Open a block of messages and count zeros, then ones, of every instance, then cover; nothing else counts."""
    key, totals = AnalyzerKey(private), np.zeros(2 * instances + 1, dtype=np.int64)
    for start in range(0, len(block), MESSAGE_BYTES):
        opened = key.open(block[start : start + MESSAGE_BYTES], context)
        if opened == COVER:
            totals[-1] += 1
        elif opened is not None and opened[0] < instances and opened[1] < 2:
            totals[opened[1] * instances + opened[0]] += 1
    return totals


def simulate(protocol: Protocol, X: Any, y: Any, random_state: int | None) -> Any:
    """Run a collection; see `Protocol.simulate`."""
    secure = noise_bits(random_state)
    points = protocol.features.points(open_source(X).whole())
    if protocol.classes is None:
        if y is not None:
            raise InputError("the protocol has no classes: leave out y, or pass classes= to Protocol")
        return _release(protocol, protocol.groups[0], points, secure)
    labels = None if y is None else listed("y, one class for each row of X,", y, len(points))
    if labels is None or len(labels) != len(points):
        raise InputError("the protocol has classes: pass y, one class for each row of X")
    codes = _reported(protocol, labels, secure)
    return {
        group.label: _release(protocol, group, points[codes == place], secure)
        for place, group in enumerate(protocol.groups)
    }


def blank(protocol: Protocol) -> Any:
    """Return what a collection gives, with nothing counted: how long it is, and what is read in it."""
    nothing = np.zeros(protocol.features.instances, dtype=np.int64)
    releases = {}
    for group in protocol.groups:
        counts = Counts(nothing + group.participants, nothing)
        releases[group.label] = release_from(protocol, group, counts, group.participants)
    return releases if protocol.classes is not None else releases[None]


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
    ones, zeros = (part.copy() for part in bitsum.totals(sums, secure))
    for bits in protocol.features.blocks(points[bitsum.n :], secure):  # beyond those that the noise was made for
        sent = bitsum.randomise(bits, secure)
        ones += sent.ones.sum(axis=0)
        zeros += sent.zeros.sum(axis=0)
    return Counts(ones, zeros)
