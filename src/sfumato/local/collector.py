"""A collector: reads reports, refuses what does not belong, counts the rest, and survives a kill.

A file of reports is their bytes one after another. Reports are checked in this order, and refused for the first reason
that applies: ``length`` (cut off, or too long), ``foreign`` (another protocol's fingerprint), ``duplicate`` (an
identity that was seen before), ``range`` (a row or bucket that does not exist). Refused reports are counted by reason
and change nothing else. Two honest reports share a 48-bit identity with a probability of 2**-48; of 10**8 reports
about 18 are lost to that.

State. Everything is in a folder: counts, refusals and sorted runs of the identities seen. A checkpoint after every
block of reports replaces one small file atomically, so that a killed collector resumes with the last block that was
finished, and the file it was reading goes on from there. One collector at a time works in a folder, which stays locked
until `close`, the end of a ``with`` block, or the end of the collector. A report that is cut off at the end of a file
may be still on its way: it is refused once, and read again when the file is added again.

Malicious clients. A report is worth what the mechanism allows, whoever made it: m of them move an answer by at most
`influence(m)`. Nothing here can tell a lie from noise.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from scipy.stats import poisson

from sfumato.errors import InputError
from sfumato.local.checkpoint import Progress, load_progress, lock_folder, save_progress, unlock_folder
from sfumato.local.mechanism import HEADER_BYTES, ID_BYTES
from sfumato.local.releasing import make_release
from sfumato.local.seen import SeenIdentities
from sfumato.local.server import Payloads
from sfumato.local.sources import Place, blocks_of
from sfumato.protocol import PREFIX_BYTES, prefix

if TYPE_CHECKING:
    from sfumato.local.protocol import Protocol
    from sfumato.release import Release

REASONS = ("length", "foreign", "duplicate", "range")
BLOCK_REPORTS = 1 << 20
CHANCE = 1e-9  # with which honest shards share more identities than are let pass


@dataclass
class Receipt:
    """What became of the reports of one call.

    Attributes
    ----------
    accepted : int
        Counted.
    rejected : dict
        Refused, by reason; reasons that did not occur are left out.
    """

    accepted: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def reject(self, reason: str, count: int) -> None:
        """Note refusals."""
        if count:
            self.rejected[reason] = self.rejected.get(reason, 0) + count

    def merge(self, other: Receipt) -> None:
        """Add another receipt."""
        self.accepted += other.accepted
        for reason, count in other.rejected.items():
            self.reject(reason, count)


class Collector:
    """Counts the reports of one protocol; made by `Protocol.collector`.

    Parameters
    ----------
    protocol : Protocol
        Under which the reports were made.
    state : str or Path, optional
        Folder of the state, resumed if it has one; a temporary folder by default.

    Raises
    ------
    InputError
        If another collector works in the folder, or its state is damaged or another protocol's.
    """

    def __init__(self, protocol: Protocol, state: str | Path | None = None) -> None:
        self.protocol = protocol
        self.server = protocol.server()
        self._temporary = tempfile.TemporaryDirectory(prefix="sfumato-") if state is None else None
        self.folder = Path(self._temporary.name if self._temporary else state or "")
        self._prefix = np.frombuffer(prefix(protocol.document), dtype=np.uint8)
        self.report_bytes = HEADER_BYTES + self.server.device.payload_bytes
        self._tally = self.server.tally()
        self._unlock = weakref.finalize(self, unlock_folder, lock_folder(self.folder), os.getpid())
        try:
            self._resume()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> None:
        progress = load_progress(self.folder, self.protocol.fingerprint)
        self.receipt = Receipt(progress.accepted, dict(progress.rejected))
        self._places, self._halves = dict(progress.places), dict(progress.halves)
        self._sequence = progress.sequence
        if progress.integers is not None:
            self._tally.restore(progress.integers)
        self._seen = SeenIdentities(self.folder, progress.runs)
        self._seen.remove_rubbish()

    def close(self) -> None:
        """Let another collector use the folder; after it this one can be read and released, but adds no more."""
        self._unlock()

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def reports(self) -> int:
        """Accepted reports so far."""
        return self.receipt.accepted

    @property
    def rejected(self) -> dict[str, int]:
        """Refused reports so far, by reason."""
        return dict(self.receipt.rejected)

    def add(self, source: str | Path | bytes | BinaryIO | Iterable[bytes]) -> Receipt:
        """Read reports.

        Parameters
        ----------
        source : path, bytes, binary stream, or iterable of bytes
            A file (reports one after another), a stream such as ``sys.stdin.buffer``, bytes of the same form, or single
            reports, each of any length.

        Returns
        -------
        Receipt
            Of this call; `receipt` has the sum.
        """
        self._check_open()
        total = Receipt()
        for block, place, odd in blocks_of(source, self.report_bytes, BLOCK_REPORTS, self._places):
            receipt = self._count(block)
            receipt.reject("length", odd if place is None or not odd else self._new_half(place))
            total.merge(receipt)
            self.receipt.merge(receipt)
            if place is not None:
                self._places[place.name] = place
            self._checkpoint()
        return total

    def _check_open(self) -> None:
        if not self._unlock.alive:
            raise InputError("the collector is closed; open its folder again with Protocol.collector")

    def _new_half(self, place: Place) -> int:
        """Whether the part of a report at the end of a file was not counted before."""
        known = self._halves.get(place.name)
        self._halves[place.name] = place
        return int(known != place)

    def _count(self, block: Payloads) -> Receipt:
        """Check and count a block of reports of the right length."""
        receipt = Receipt()
        own = (block[:, :PREFIX_BYTES] == self._prefix).all(axis=1)
        receipt.reject("foreign", int(len(own) - own.sum()))
        block = block if own.all() else block[own]
        wide = np.zeros((len(block), 8), dtype=np.uint8)
        wide[:, :ID_BYTES] = block[:, PREFIX_BYTES:HEADER_BYTES]
        identities = wide.view("<u8")[:, 0]
        new = self._seen.first_time(identities)
        receipt.reject("duplicate", int(len(new) - new.sum()))
        if not new.all():
            block, identities = block[new], identities[new]
        good = self.server.count(block[:, HEADER_BYTES:], self._tally)
        receipt.reject("range", int(len(good) - good.sum()))
        receipt.accepted = int(good.sum())
        self._seen.add(identities)
        return receipt

    def _checkpoint(self) -> None:
        self._sequence += 1
        progress = Progress(
            sequence=self._sequence,
            accepted=self.receipt.accepted,
            rejected=self.receipt.rejected,
            runs=self._seen.names,
            places=self._places,
            halves=self._halves,
            integers=self._tally.integers(),
        )
        save_progress(self.folder, self.protocol.fingerprint, progress)
        self._seen.forget_outdated()

    def merge(self, other: Collector) -> Receipt:
        """Add what another collector of the same protocol (a shard) counted.

        Shards must not have read the same reports: the counts of a report that both accepted cannot be taken apart
        again. If more identities occur in both than honest reports share by chance, nothing is merged and `InputError`
        is raised.
        """
        if other.protocol.fingerprint != self.protocol.fingerprint:
            raise InputError("the collectors belong to different protocols and cannot be merged")
        self._check_open()
        blocks = other._seen.blocks(BLOCK_REPORTS)
        common = sum(int((~self._seen.first_time(identities)).sum()) for identities in blocks)
        by_chance = poisson.isf(CHANCE, len(self._seen) * len(other._seen) / 2.0 ** (8 * ID_BYTES))
        if common > by_chance:
            raise InputError(
                f"both collectors accepted the same report, {common} times: give every report to one shard only, or "
                "collect the files again with one collector"
            )
        for identities in other._seen.blocks(BLOCK_REPORTS):
            self._seen.add(identities[self._seen.first_time(identities)])
        self._tally.merge(other._tally)
        self.receipt.merge(other.receipt)
        self._checkpoint()
        return Receipt(other.receipt.accepted, dict(other.receipt.rejected))

    def influence(self, malicious: int) -> float:
        """Return how far so many malicious clients can move any answer at most, given the reports so far.

        It compares with what the same clients would have reported honestly, whatever their points.
        """
        if isinstance(malicious, bool) or not isinstance(malicious, int) or malicious < 0:
            raise InputError(f"the number of malicious clients must be an integer, at least 0; got {malicious!r}")
        if not self.reports:
            raise InputError("no report was accepted yet, so there is no answer to move")
        return min(malicious, self.reports) * self.server.influence() / self.reports

    def release(self) -> Release:
        """Release what was collected so far."""
        return make_release(
            self.protocol,
            self.server,
            self._tally,
            self.reports,
            parameters={"rejected": dict(sorted(self.receipt.rejected.items()))},
        )
