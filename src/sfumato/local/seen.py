"""The reports of a collection as a set on disk, for any number of them in bounded memory.

Of every identity its report is kept, and of an identity under which different reports came two of them, which is enough
to know that none of them counts. Adding and merging are unions of sets, so that neither the order of arrival nor that
of merging shows in what is counted.

Each block of reports becomes one run in a file, sorted by identity; runs of similar length are merged, so that m blocks
leave about log2 m of them. Every file has a name that was never used before: a checkpoint says which runs belong to
it, with their SHA-256, and what it does not name is left over from a failure.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.local.mechanism import HEADER_BYTES, ID_BYTES
from sfumato.local.runs import (
    Entries,
    Identities,
    Run,
    alone,
    distinct,
    entry_type,
    in_memory,
    load_run,
    sweep,
    write_run,
)
from sfumato.local.server import Payloads
from sfumato.public.document import PREFIX_BYTES

NAME = re.compile(r"[0-9a-f]{16}\.reports")


def entries_of(reports: Payloads) -> Entries:
    """Return the entries of reports, shape (reports, report_bytes), whose prefix is left out."""
    entries = np.empty(len(reports), dtype=entry_type(reports.shape[1] - HEADER_BYTES))
    identities = np.zeros((len(reports), 8), dtype=np.uint8)
    identities[:, :ID_BYTES] = reports[:, PREFIX_BYTES:HEADER_BYTES]
    entries["identity"] = identities.view("<u8")[:, 0]
    entries["payload"] = reports[:, HEADER_BYTES:]
    return entries


@dataclass(frozen=True)
class Change:
    """What a union changed.

    Attributes
    ----------
    identities : int
        That were not known before.
    conflicts : int
        Identities that have different reports now and had not before.
    """

    identities: int
    conflicts: int


class SeenReports:
    """A set of reports in a folder. A union is a new one: this one stays as it is, and so do its files.

    Parameters
    ----------
    folder : Path
        Where the runs are.
    payload_bytes : int
        Of a report.
    runs : sequence of Run
        The longest first.
    """

    def __init__(self, folder: Path, payload_bytes: int, runs: Sequence[Run] = ()) -> None:
        self.folder = folder
        self.payload_bytes = payload_bytes
        self.runs = tuple(runs)
        self._dtype = entry_type(payload_bytes)

    def loaded(self, named: Iterable[Mapping[str, Any]]) -> SeenReports:
        """Return the set whose runs a checkpoint names; raise `InputError` if one is not as it was written."""
        runs = []
        for one in named:
            if not NAME.fullmatch(one["name"]):
                raise ValueError("not a run")
            runs.append(load_run(self.folder / one["name"], one["reports"], one["sha256"], self._dtype))
        return self._of(runs)

    def names(self) -> list[dict[str, Any]]:
        """Name the runs for a checkpoint."""
        return [{"name": run.name, "reports": run.count, "sha256": run.sha256} for run in self.runs]

    def counting(self) -> Iterator[Payloads]:
        """Yield the payloads of all reports that count."""
        for entries in sweep(self.runs):
            yield entries["payload"][alone(entries)]

    def added(self, entries: Entries) -> tuple[SeenReports, Change]:
        """Return the union with entries in any order, equal ones among them."""
        block = distinct(np.take(entries, np.argsort(entries["identity"])))
        fresh, change = self._unknown(block)
        if not len(fresh):
            return self, change
        merged, kept = [in_memory(fresh)], list(self.runs)
        while kept and kept[-1].count < 2 * sum(run.count for run in merged):
            merged.append(kept.pop())
        return self._of([*kept, self._write(sweep(merged))]), change

    def _unknown(self, block: Entries) -> tuple[Entries, Change]:
        """Return what a block of distinct entries adds to the set, and what that changes."""
        identities = _unique(block["identity"])
        known = [run.find(identities) for run in self.runs] if len(block) else []
        if not any(len(part) for part in known):
            return block, Change(len(identities), len(block) - len(identities))
        old = np.concatenate(known)
        shared, place, held = np.unique(old["identity"], return_index=True, return_counts=True)
        met = np.zeros(len(block), dtype=np.bool_)
        met[np.searchsorted(block["identity"], shared, side="left")] = True
        met[np.searchsorted(block["identity"], shared, side="right") - 1] = True  # of two entries the second
        new, again = block[~met], block[met]
        which = np.searchsorted(shared, again["identity"])
        differs = (again["payload"] != old["payload"][place[which]]).any(axis=1)
        again = again[differs & (held[which] == 1)]  # where two differ already, a third says nothing more
        count = len(identities) - len(shared)
        conflicts = len(new) - count + len(_unique(again["identity"]))
        return distinct(np.concatenate([new, again])), Change(count, conflicts)

    def merged(self, other: SeenReports) -> tuple[SeenReports, int, int]:
        """Return the union with another set, and how many of its identities have one report, and different ones."""
        single = conflicts = 0

        def counted() -> Iterator[Entries]:
            nonlocal single, conflicts
            for entries in sweep([*self.runs, *other.runs]):
                ones = int(alone(entries).sum())
                single, conflicts = single + ones, conflicts + (len(entries) - ones) // 2
                yield entries

        made = self._write(counted())
        return self._of([made] if made.count else []), single, conflicts

    def remove_rubbish(self) -> None:
        """Delete the runs that are not of this set; call it when a checkpoint on disk names those that are."""
        kept = {run.name for run in self.runs}
        with suppress(OSError):  # they do no harm, and the next call finds them again
            for path in self.folder.iterdir():
                if NAME.fullmatch(path.name) and path.name not in kept:
                    path.unlink()

    def _of(self, runs: Sequence[Run]) -> SeenReports:
        return SeenReports(self.folder, self.payload_bytes, runs)

    def _write(self, chunks: Iterable[Entries]) -> Run:
        return write_run(self.folder / f"{secrets.token_hex(8)}.reports", chunks, self._dtype)


def _unique(ordered: Identities) -> Identities:
    """Return each of some sorted identities once."""
    differs = np.ones(len(ordered), dtype=np.bool_)
    differs[1:] = ordered[1:] != ordered[:-1]
    return ordered[differs]
