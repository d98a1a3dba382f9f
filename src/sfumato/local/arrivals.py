"""Reports as they arrive, in blocks, and all of a collection as a set on disk, any number of them in bounded memory.

Of every identity its report is kept, and of an identity under which different reports came two of them, which is enough
to know that none of them counts. Adding and merging are unions of sets, so that neither the order of arrival nor that
of merging shows in what is counted.

Each block of reports becomes one run in a file, sorted by identity; runs of similar length are merged, so that m blocks
leave about log2 m of them. Every file has a name that was never used before: a checkpoint says which runs belong to
it, with their SHA-256, and what it does not name is left over from a failure.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sfumato.errors import InputError
from sfumato.local.device import HEADER_BYTES, ID_BYTES
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
from sfumato.storage import reading, storage_errors

TAIL_BYTES = 1 << 16
NAME = re.compile(r"[0-9a-f]{16}\.reports")


@dataclass(frozen=True)
class Place:
    """How far a file was read: its path, the bytes read, and the SHA-256 of the last of them, which knows it again."""

    name: str
    offset: int
    tail: str


Block = tuple[Payloads, Place | None, int]


def blocks_of(source: Any, size: int, reports: int, places: Mapping[str, Place]) -> Iterator[Block]:
    """Cut a source into blocks of `reports` reports of `size` bytes, each with its place and how many were odd."""
    if isinstance(source, str | Path):
        return _file_blocks(Path(source), size, reports, places)
    if isinstance(source, bytes | bytearray | memoryview):
        return _single(bytes(source), size)
    if hasattr(source, "read"):
        return _stream_blocks(source, size, reports)
    if isinstance(source, Iterable):
        return _item_blocks(source, size, reports)
    raise InputError(f"reports come from a path, bytes, a binary stream or an iterable of bytes, not {type(source)!r}")


def _table(content: bytes, size: int) -> Payloads:
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, size)


def _single(content: bytes, size: int) -> Iterator[Block]:
    whole = len(content) // size * size
    yield _table(content[:whole], size), None, int(whole < len(content))


def _stream_blocks(stream: BinaryIO, size: int, reports: int) -> Iterator[Block]:
    rest = b""
    while content := stream.read(size * reports - len(rest)):
        if not isinstance(content, bytes):
            raise InputError("reports are bytes: open the stream in binary mode")
        content = rest + content
        whole = len(content) // size * size
        rest = content[whole:]
        if whole:
            yield _table(content[:whole], size), None, 0
    if rest:
        yield _table(b"", size), None, 1


def refuse_devices(path: str | Path) -> None:
    """Refuse to read reports from what may never end."""
    with storage_errors("read", path):
        mode = os.stat(path).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InputError(f"cannot read reports from {str(path)!r}: a device may never end; pass a file or a pipe")


def _file_blocks(path: Path, size: int, reports: int, places: Mapping[str, Place]) -> Iterator[Block]:
    if not path.exists():
        raise InputError(f"cannot read {str(path)!r}: there is no such file")
    name = os.path.realpath(path)
    refuse_devices(path)
    with reading(path) as file:
        if not file.seekable():  # a pipe gives its bytes once, and has no place to go on from
            yield from _stream_blocks(file, size, reports)
            return
        offset = _resumed(file, places.get(name))
        file.seek(offset)
        for block, _, odd in _stream_blocks(file, size, reports):
            offset += block.size
            # A report that is cut off at the end may be one that is still being written: it is read again next time.
            yield block, Place(name, offset, _tail(file, offset)), odd


def _resumed(file: BinaryIO, place: Place | None) -> int:
    """Where to go on: after what was read of the same file, else at its beginning."""
    if place is None or _tail(file, place.offset) != place.tail:
        return 0
    return place.offset


def _tail(file: BinaryIO, offset: int) -> str:
    position = file.tell()
    start = max(0, offset - TAIL_BYTES)
    file.seek(start)
    content = file.read(offset - start)
    file.seek(position)
    return hashlib.sha256(content).hexdigest()


def _item_blocks(items: Iterable[bytes], size: int, reports: int) -> Iterator[Block]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, reports)):
        if not all(isinstance(item, bytes | bytearray | memoryview) for item in batch):
            raise InputError("reports are bytes, one item each")
        right = [item for item in batch if len(item) == size]
        yield _table(b"".join(right), size), None, len(batch) - len(right)


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
    """What a union changed: identities that were not known, and identities whose reports differ now and did not."""

    identities: int
    conflicts: int


class SeenReports:
    """A set of reports in a folder, the longest run first. A union is a new set: this one and its files stay."""

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

    def finds_runs(self) -> bool:
        """Whether the folder holds runs, of this set or not."""
        with storage_errors("read", self.folder):
            return any(NAME.fullmatch(path.name) for path in self.folder.iterdir())

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
