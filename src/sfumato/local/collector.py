"""A collector: reads reports, refuses what does not belong, counts the rest, and survives a kill.

A file of reports is their bytes one after another. Reports are checked in this order, and refused for the first reason
that applies: ``length`` (cut off, or too long), ``foreign`` (another protocol's fingerprint), ``range`` (a row or
bucket that does not exist), ``duplicate`` (an identity that came before). Refused reports are counted by reason.

Conflicts. An identity counts if all reports that came under it are equal, and then once. If two of them differ, none
counts: the identity is refused as one ``conflict``, and the reports beyond the first as duplicates, whichever came
first. So what is counted is a function of the set of all reports. Neither the order in which they arrive, nor the calls
and shards among which they are divided, nor the order in which shards are merged make a difference. Two honest reports
share a 48-bit identity with a probability of 2**-48; of 10**8 reports about 36 are lost to that.

State. Everything is in a folder: the reports, as sorted runs, and a checkpoint that names them. Nothing is counted that
is not on disk: the integers of a release are counted from the reports there. A checkpoint after every block of reports
replaces one small file atomically. After a kill, or a disk that was full, the collector has the blocks up to the last
one that was finished, and the file that it was reading goes on from there; adding the same reports again counts none of
them twice. All files have checksums, which are verified when the folder is opened. One collector at a time works in a
folder, which stays locked until `close`, the end of a ``with`` block, or the end of the collector. A report that is cut
off at the end of a file may be still on its way: it is refused once, and read again when the file is added again.

Malicious clients. A report is worth what the mechanism allows, whoever made it: m of them move an answer by at most
`influence(m)`. Nothing here can tell a lie from noise. Whoever sees a report on its way can send another under its
identity, so that neither counts; that too is within the influence of one report.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from sfumato.errors import InputError, StorageError
from sfumato.local.arrivals import Place, SeenReports, blocks_of, entries_of
from sfumato.local.checkpoint import (
    Progress,
    load_progress,
    lock_folder,
    save_progress,
    temporary_folder,
    unlock_folder,
)
from sfumato.local.device import HEADER_BYTES
from sfumato.local.organiser import make_release
from sfumato.local.server import Payloads, Tally
from sfumato.privacy.process import process_mark
from sfumato.public.codec import brief
from sfumato.public.document import PREFIX_BYTES, prefix
from sfumato.storage import checked_path

if TYPE_CHECKING:
    from sfumato.local.protocol import Protocol
    from sfumato.release import Release

BLOCK_REPORTS = 1 << 20
BLOCK_BYTES = 1 << 26


@dataclass
class Receipt:
    """What became of the reports of one call.

    Attributes
    ----------
    accepted : int
        Counted, less those of earlier calls that are now in conflict and count no more.
    rejected : dict
        Refused, by reason; reasons that did not occur are left out.
    """

    accepted: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def reject(self, reason: str, count: int) -> None:
        """Note refusals."""
        count += self.rejected.pop(reason, 0)
        if count:
            self.rejected[reason] = count

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
        self._temporary = temporary_folder() if state is None else None
        self.folder = Path(self._temporary.name if self._temporary else checked_path("the folder of the state", state))
        self._prefix = np.frombuffer(prefix(protocol.document), dtype=np.uint8)
        self.report_bytes = HEADER_BYTES + self.server.device.payload_bytes
        self._unlock = weakref.finalize(self, unlock_folder, lock_folder(self.folder), process_mark())
        try:
            empty = SeenReports(self.folder, self.server.device.payload_bytes)
            self._progress = load_progress(empty, protocol.fingerprint)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another collector use the folder; until one does this one can be released, but it adds no more."""
        self._unlock()

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def receipt(self) -> Receipt:
        """What became of all reports so far."""
        return Receipt(self._progress.accepted, dict(self._progress.rejected))

    @property
    def reports(self) -> int:
        """Accepted reports so far."""
        return self._progress.accepted

    @property
    def rejected(self) -> dict[str, int]:
        """Refused reports so far, by reason."""
        return dict(self._progress.rejected)

    @property
    def _conflicts(self) -> int:
        return self._progress.rejected.get("conflict", 0)

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

        Raises
        ------
        StorageError
            If the disk refuses. The blocks before are kept, without a state folder as long as this lives; the same
            source can be added again.
        """
        self._check_open()
        total = Receipt()
        most = max(1, min(BLOCK_REPORTS, BLOCK_BYTES // self.report_bytes))
        for block, place, odd in blocks_of(source, self.report_bytes, most, self._progress.places):
            with self._durably():
                total.merge(self._add_block(block, place, odd))
        return total

    def _check_open(self) -> None:
        if not self._unlock.alive:
            raise InputError("the collector is closed; open its folder again with Protocol.collector")

    @contextmanager
    def _durably(self) -> Iterator[None]:
        """Say what is kept if the disk refuses."""
        try:
            yield
        except StorageError as problem:
            has = f"has the {self.reports} reports of before; add the same source again when the disk is in order"
            failure = StorageError(
                f"{problem}. The collector still {has}: nothing is lost, and nothing is counted twice"
                if self._temporary is None
                else f"{problem}. Without a state folder nothing of what was read is kept when the collector ends: "
                "then collect all of it again, what came through pipes too, with a state folder (--state FOLDER), or "
                f"with TMPDIR on a disk that has room. Until then the collector still {has}"
            )
            failure.errno = problem.errno
            raise failure from problem

    def _add_block(self, block: Payloads, place: Place | None, odd: int) -> Receipt:
        """Check the reports of a block, all of the right length, and put them on disk."""
        receipt, before = Receipt(), self._progress
        own = (block[:, :PREFIX_BYTES] == self._prefix).all(axis=1)
        receipt.reject("foreign", int(len(own) - own.sum()))
        block = block if own.all() else block[own]
        good = self.server.count(block[:, HEADER_BYTES:], self.server.tally())
        receipt.reject("range", int(len(good) - good.sum()))
        block = block if good.all() else block[good]
        seen, change = before.seen.added(entries_of(block))
        receipt.reject("duplicate", len(block) - change.identities)
        receipt.reject("conflict", change.conflicts)
        receipt.accepted = change.identities - change.conflicts
        places, halves = dict(before.places), dict(before.halves)
        if place is not None:
            places[place.name] = place
            if odd:  # the part of a report at the end of a file, which may have been refused before
                odd, halves[place.name] = int(halves.get(place.name) != place), place
        receipt.reject("length", odd)
        self._commit(receipt, replace(before, seen=seen, places=places, halves=halves))
        return receipt

    def _commit(self, receipt: Receipt, progress: Progress) -> None:
        """Make a block's receipt and progress those of the collector once they are on disk, and not before."""
        total = self.receipt
        total.merge(receipt)
        progress = replace(progress, accepted=total.accepted, rejected=total.rejected)
        save_progress(self.protocol.fingerprint, progress)
        self._progress = progress
        progress.seen.remove_rubbish()

    def merge(self, other: Collector) -> Receipt:
        """Add what another collector of the same protocol (a shard) read.

        A report that both read counts once; different reports under one identity do not count, as if one collector had
        read them all.
        """
        if other.protocol.fingerprint != self.protocol.fingerprint:
            raise InputError("the collectors belong to different protocols and cannot be merged")
        self._check_open()
        with self._durably():
            seen, accepted, conflicts = self._progress.seen.merged(other._progress.seen)
            apart = self.reports + self._conflicts + other.reports + other._conflicts
            receipt = Receipt(accepted - self.reports, other.rejected)
            receipt.reject("duplicate", apart - accepted - conflicts)
            receipt.reject("conflict", conflicts - self._conflicts - other._conflicts)
            self._commit(receipt, replace(self._progress, seen=seen))
        return receipt

    @property
    def _tally(self) -> Tally:
        """The reports on disk, counted."""
        tally, counted = self.server.tally(), 0
        for payloads in self._progress.seen.counting():
            counted += int(self.server.count(payloads, tally).sum())
        if counted != self.reports:
            raise InputError(f"the collector's state in {str(self.folder)!r} contradicts itself: collect again")
        return tally

    def influence(self, malicious: int) -> float:
        """Return how far so many malicious clients can move any answer at most, given the reports so far.

        It compares with what the same clients would have reported honestly, whatever their points.
        """
        if isinstance(malicious, bool) or not isinstance(malicious, int) or malicious < 0:
            raise InputError(f"the number of malicious clients must be an integer, at least 0; got {brief(malicious)}")
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
