"""The collector's server: takes reports of the local model, and publishes what they say, again and again.

What it publishes is post-processing of reports that are private by themselves, so that it may be published at any time
and any number of times; the count of reports is public with it. A release is made of everything that is kept, in a
consistent view of the storage, in memory that does not grow with the number of reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from sfumato.local import Protocol
from sfumato.local.organiser import make_release
from sfumato.release import Release
from sfumato.services.intake import ReportIntake
from sfumato.services.limits import Limits
from sfumato.services.role import Role
from sfumato.services.signing import SignedProtocol
from sfumato.services.store import open_store


class CollectorRole(Role):
    """Collects the reports of local protocols.

    Parameters
    ----------
    folder, signed, limits, database
        See `Role`.
    """

    name: ClassVar[str] = "collector"
    model: ClassVar[str] = "local"

    def __init__(
        self,
        folder: str | Path,
        signed: Sequence[SignedProtocol],
        limits: Limits | None = None,
        database: str | None = None,
    ) -> None:
        super().__init__(folder, signed, limits, database)
        self._protocols = {name: Protocol.from_document(one.document) for name, one in self.signed.items()}
        self._published: dict[str, int] = {}
        for name, protocol in self._protocols.items():
            store = open_store(self.place(name, 0), database, name, name in self.known)
            over = partial(self.expired, name)
            self.intakes[name, 0] = ReportIntake(store, protocol, self.signed[name].issuer, over, self.limits)
        self.begin()

    def step(self, fingerprint: str, group: int) -> None:
        """Publish a collection, if there are more reports than in its last release."""
        store = self.intakes[fingerprint, 0].store
        if store.count() > self._published.get(fingerprint, 0):
            release = self.release(fingerprint)
            release.save(self.release_path(fingerprint, 0), overwrite=True)
            self._published[fingerprint] = int(release.count.value)
            self.note("published", fingerprint)

    def release(self, fingerprint: str) -> Release:
        """Count all reports that are kept."""
        protocol, intake = self._protocols[fingerprint], self.intakes[fingerprint, 0]
        server = protocol.server()
        tally, reports = server.tally(), 0
        for kept in intake.kept():
            payloads = np.frombuffer(b"".join(kept), dtype=np.uint8).reshape(len(kept), -1)
            reports += int(server.count(payloads, tally).sum())
        return make_release(protocol, server, tally, reports, parameters={"rejected": intake.store.refused()})
