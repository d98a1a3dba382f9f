"""The shuffler's server: takes sealed submissions, closes a group by its policy, mixes, and hands the batch over.

It closes a group when its time is up or it is large enough, and never below the number of participants that the
document asks for. From then on nobody is let in. The batch is handed to the analyzer, signed with the shuffler's key,
as often as it takes; what came in is kept, encrypted, until the analyzer has published, and then forgotten: first the
key, then the rest (`intake.SubmissionIntake`).

Two shufflers on one database may both hand a batch over. Both are of the same closed set, in independent orders, which
tell no more than the set; the analyzer opens one of them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sfumato.errors import SfumatoError
from sfumato.privacy.bits import SecureBits
from sfumato.services import sending
from sfumato.services.intake import SubmissionIntake
from sfumato.services.limits import Limits
from sfumato.services.role import Role
from sfumato.services.signing import SignedProtocol
from sfumato.services.store import CLOSED, FORGOTTEN, OPEN, Store, open_store
from sfumato.shuffled import Protocol
from sfumato.shuffled.messages import Header, written_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.shuffled.shuffler import MEMORY, mix
from sfumato.storage import AtomicFile, storage_errors

_LEAST_WAIT, _MOST_WAIT = 1.0, 300.0


@dataclass(frozen=True)
class Policy:
    """When a group closes, if enough participants are there.

    Attributes
    ----------
    participants : int, optional
        As soon as there are so many.
    seconds : float, optional
        So long after the server first knew the collection; restarts do not count anew.
    """

    participants: int | None = None
    seconds: float | None = None

    def due(self, participants: int, seconds: float) -> bool:
        """Whether a group of so many, open for so long, closes.

        Examples
        --------
        >>> Policy(participants=10).due(9, 1e9), Policy(participants=10, seconds=60.0).due(9, 61.0)
        (False, True)
        """
        enough = self.participants is not None and participants >= self.participants
        return enough or (self.seconds is not None and seconds >= self.seconds)


class ShufflerRole(Role):
    """Shuffles the submissions of shuffled protocols.

    Parameters
    ----------
    folder, signed, limits, database
        See `Role`. Shufflers that share a database need the same ``server.key``, and the same ``inbox.key`` of each
        group.
    analyzer : str
        Address of the analyzer's server.
    policy : Policy
        When groups close.
    """

    name: ClassVar[str] = "shuffler"
    model: ClassVar[str] = "shuffled"

    def __init__(
        self,
        folder: str | Path,
        signed: Sequence[SignedProtocol],
        analyzer: str,
        policy: Policy,
        limits: Limits | None = None,
        database: str | None = None,
    ) -> None:
        super().__init__(folder, signed, limits, database)
        self._protocols = {name: Protocol.from_document(one.document) for name, one in self.signed.items()}
        self._analyzer, self._policy = analyzer, policy
        self._waits: dict[tuple[str, int], tuple[float, float]] = {}
        for name, protocol in self._protocols.items():
            store = open_store(self.place(name, 0), database, name, name in self.known)
            for group in range(len(protocol.groups)):
                place = self.place(name, group)
                self.intakes[name, group] = SubmissionIntake(
                    store.group(group),
                    protocol,
                    group,
                    self.signed[name].issuer,
                    partial(self.expired, name),
                    self.limits,
                    place / "inbox.key",
                )
        self.begin()

    def status(self, fingerprint: str, group: int) -> dict[str, Any]:
        """Say also whether the group is still open."""
        found = super().status(fingerprint, group)
        is_open = self.intake(fingerprint, group).store.stage == OPEN
        return {**found, "open": is_open and not self.expired(fingerprint)}

    def step(self, fingerprint: str, group: int) -> None:
        """Close what is due, hand over what is closed, and forget what is published or past its time."""
        store = self.intakes[fingerprint, group].store
        if self.expired(fingerprint):  # the analyzer's key is deleted, or about to be
            store.advance(OPEN, FORGOTTEN)
            store.advance(CLOSED, FORGOTTEN)
        if store.stage == OPEN and self._due(fingerprint, group):
            store.advance(OPEN, CLOSED)
        if store.stage == CLOSED and self._patient(fingerprint, group):
            if OPEN not in store.stages():
                self.note("closed", fingerprint)  # here, so that a kill after the closing costs no entry
            self.hand_over(fingerprint, group)
        if store.stage == FORGOTTEN:
            self._forget(fingerprint, group)

    def _due(self, fingerprint: str, group: int) -> bool:
        store = self.intakes[fingerprint, group].store
        now = self.now().timestamp()
        store.claim("since", str(now))
        since = _since(store)
        participants = store.count()
        if participants < self._protocols[fingerprint].groups[group].participants:
            return False
        return self._policy.due(participants, now - since)

    def _patient(self, fingerprint: str, group: int) -> bool:
        """Whether it is time to try again: after each failure the wait is twice as long."""
        due, _ = self._waits.get((fingerprint, group), (0.0, 0.0))
        return time.monotonic() >= due

    def hand_over(self, fingerprint: str, group: int) -> None:
        """Hand the batch of a closed group to the analyzer, or ask what became of it; forget once it is published."""
        try:
            published = self._handed_over(fingerprint, group)
        except SfumatoError:
            _, wait = self._waits.get((fingerprint, group), (0.0, _LEAST_WAIT / 2))
            wait = min(2 * wait, _MOST_WAIT)
            self._waits[fingerprint, group] = time.monotonic() + wait, wait
            raise
        self._waits[fingerprint, group] = time.monotonic() + _LEAST_WAIT, _LEAST_WAIT / 2
        if published:
            self.intakes[fingerprint, group].store.advance(CLOSED, FORGOTTEN)

    def _handed_over(self, fingerprint: str, group: int) -> bool:
        stage = sending.batch_stage(self._analyzer, fingerprint, group)
        if stage == "waiting":
            batch = self.batch(fingerprint, group)
            stage = sending.send_batch(self._analyzer, fingerprint, group, batch, self.key)
        return stage == "published"

    def batch(self, fingerprint: str, group: int) -> Path:
        """Return the batch of a closed group, which is made if it is not there."""
        path = self.place(fingerprint, group) / "batch"
        if written_batch(path) is None:
            intake = self.intakes[fingerprint, group]
            assert isinstance(intake, SubmissionIntake)
            participants = intake.store.count()
            size = participants * intake.messages * MESSAGE_BYTES
            header = partial(Header, fingerprint, group, participants)
            with AtomicFile(path, overwrite=True, private=True) as file:
                messages = itertools.chain.from_iterable(intake.kept())
                mix(file, header, messages, size, path.parent, MEMORY, SecureBits())
        return path

    def _forget(self, fingerprint: str, group: int) -> None:
        intake = self.intakes[fingerprint, group]
        assert isinstance(intake, SubmissionIntake)
        intake.forget_key()
        batch = self.place(fingerprint, group) / "batch"
        with storage_errors("remove", batch):
            batch.unlink(missing_ok=True)
        if intake.store.fact("deleted") is None and intake.store.forget():
            self.note("messages-deleted", fingerprint)
            intake.store.advance(FORGOTTEN, FORGOTTEN, {"deleted": "yes"})


def _since(store: Store) -> float:
    """Return when the server first knew a group, a second since 1970."""
    said = store.fact("since")
    try:
        since = float(said or "")
    except ValueError:
        since = math.nan
    if not math.isfinite(since):
        raise store.damaged(f"the time 'since' is {said!r:.40}")
    return since
