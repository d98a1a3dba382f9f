"""Sorted runs of reports in files: found by identity, swept in order, written whole, checked when they are opened.

Of a run only the first identity of every page is held in memory; it says which part of the file to read. Files are
read and written with ordinary calls, not through memory maps, so that a full or failing disk is an error and not the
end of the process. A file is never changed once it is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.storage import AtomicFile, storage_errors

Identities = NDArray[np.uint64]
Entries = NDArray[np.void]  # with the fields "identity" and "payload"
EntryType = np.dtype[np.void]

PAGE_BYTES = 1 << 14
CHUNK_BYTES = 1 << 24  # that are read at once
PAGES_APART = 16  # that are read along with those before and after, rather than these one by one


def entry_type(payload_bytes: int) -> EntryType:
    """Return how a report stands in a file."""
    return np.dtype([("identity", "<u8"), ("payload", "u1", (payload_bytes,))])


def alone(entries: Entries) -> NDArray[np.bool_]:
    """Say of entries in order of identity which share it with no other."""
    same = entries["identity"][1:] == entries["identity"][:-1]
    result = np.ones(len(entries), dtype=np.bool_)
    result[1:] &= ~same
    result[:-1] &= ~same
    return result


def distinct(entries: Entries) -> Entries:
    """Return entries in order of identity, equal ones once, and of one identity two at most."""
    entries = _ordered(entries)
    single = alone(entries)
    if single.all():
        return entries
    as_bytes = np.ascontiguousarray(entries[~single]).view(f"V{entries.dtype.itemsize}")  # which compare as a whole
    repeated = _ordered(np.unique(as_bytes).view(entries.dtype))
    third = np.zeros(len(repeated), dtype=np.bool_)
    third[2:] = repeated["identity"][2:] == repeated["identity"][:-2]
    return _ordered(np.concatenate([entries[single], repeated[~third]]))


def _ordered(entries: Entries) -> Entries:
    identities = entries["identity"]
    if (identities[1:] >= identities[:-1]).all():
        return entries
    return np.take(entries, np.argsort(identities, kind="stable"))  # fast where they come as a few sorted runs


@dataclass(frozen=True)
class Run:
    """Distinct entries in order of identity, at least one, in a file, or in memory without a name.

    `fences` are the identities of the first entry of every page; `read` returns entries from one position to another.
    """

    name: str
    count: int
    sha256: str
    fences: Identities
    dtype: EntryType
    read: Callable[[int, int], Entries]

    def position(self, identity: int) -> int:
        """Return how many entries have a smaller identity."""
        page = _page(self.dtype)
        start = page * max(0, int(np.searchsorted(self.fences, np.uint64(identity))) - 1)
        held = self.read(start, min(start + page, self.count))
        return start + int(np.searchsorted(held["identity"], np.uint64(identity)))

    def find(self, identities: Identities) -> Entries:
        """Return the entries that have one of the identities, which are sorted and distinct."""
        first = np.searchsorted(identities, self.fences, side="left")
        last = np.append(np.searchsorted(identities, self.fences[1:], side="right"), len(identities))
        pages = np.flatnonzero(first < last)  # an identity that a page begins with may also end the one before
        if not len(pages):
            return np.empty(0, dtype=self.dtype)
        far = np.diff(pages) > PAGES_APART
        full = np.diff(pages // _pages_at_once(self.dtype)) > 0
        stretches = np.split(pages, np.flatnonzero(far | full) + 1)
        return np.concatenate([self._found(stretch, identities) for stretch in stretches])

    def _found(self, pages: NDArray[np.intp], identities: Identities) -> Entries:
        """Search from the first to the last of some pages."""
        page = _page(self.dtype)
        part = self.read(int(pages[0]) * page, min(int(pages[-1] + 1) * page, self.count))
        held = np.ascontiguousarray(part["identity"])
        start, stop = np.searchsorted(identities, held[0]), np.searchsorted(identities, held[-1], side="right")
        wanted = identities[start:stop]
        first = np.searchsorted(held, wanted)
        known = held[first] == wanted
        first, wanted = first[known], wanted[known]
        last = np.searchsorted(held, wanted, side="right") - 1
        return np.take(part, np.concatenate([first, last[last > first]]))


def _page(dtype: EntryType) -> int:
    return max(1, PAGE_BYTES // dtype.itemsize)


def _pages_at_once(dtype: EntryType) -> int:
    return max(1, CHUNK_BYTES // (_page(dtype) * dtype.itemsize))


class _Summary:
    """What is remembered of a run while its entries pass by."""

    def __init__(self, dtype: EntryType) -> None:
        self.dtype = dtype
        self.count = 0
        self.hash = hashlib.sha256()
        self._fences = [np.zeros(0, dtype=np.uint64)]

    def add(self, entries: Entries) -> bytes:
        """Take the next entries; return them as they stand in a file."""
        content, page = entries.tobytes(), _page(self.dtype)
        self._fences.append(entries["identity"][-self.count % page :: page].copy())
        self.count += len(entries)
        self.hash.update(content)
        return content

    def run(self, name: str, read: Callable[[int, int], Entries]) -> Run:
        """Return the run of all that came by."""
        return Run(name, self.count, self.hash.hexdigest(), np.concatenate(self._fences), self.dtype, read)


def in_memory(entries: Entries) -> Run:
    """Make a run of entries that are distinct and in order of identity."""
    summary = _Summary(entries.dtype)
    summary.add(entries)
    return summary.run("", lambda start, stop: entries[start:stop])


def write_run(path: Path, chunks: Iterable[Entries], dtype: EntryType) -> Run:
    """Write entries, which come in order of identity, to a new file; it is on disk when this returns."""
    summary = _Summary(dtype)
    with AtomicFile(path, overwrite=True, private=True) as file:
        for entries in chunks:
            file.write(summary.add(entries))
    return summary.run(path.name, partial(_read, path, dtype))


def load_run(path: Path, count: int, sha256: str, dtype: EntryType) -> Run:
    """Open a file; raise `InputError` if it is not as it was written."""
    summary, chunk, last = _Summary(dtype), _page(dtype) * _pages_at_once(dtype), 0
    with storage_errors("read", path):
        if not path.is_file() or path.stat().st_size != count * dtype.itemsize:
            raise _damaged(path, count)
    for start in range(0, count, chunk):
        entries = _read(path, dtype, start, min(start + chunk, count))
        summary.add(entries)
        identities = entries["identity"]
        if identities[0] < last or (identities[1:] < identities[:-1]).any():
            raise _damaged(path, count)
        last = identities[-1]
    if summary.hash.hexdigest() != sha256 or not count:
        raise _damaged(path, count)
    return summary.run(path.name, partial(_read, path, dtype))


def _read(path: Path, dtype: EntryType, start: int, stop: int) -> Entries:
    entries = np.empty(stop - start, dtype=dtype)
    with storage_errors("read", path):
        try:
            with open(path, "rb") as file:
                file.seek(start * dtype.itemsize)
                whole = file.readinto(entries.view(np.uint8).data) == entries.nbytes
        except FileNotFoundError:
            whole = False
    if not whole:
        raise _damaged(path, stop - start)
    return entries


def _damaged(path: Path, count: int) -> InputError:
    return InputError(
        f"the collector's file {str(path)!r} is missing or damaged, and {count} reports are lost with it. Nothing was "
        "changed: restore the folder from a copy, or collect the files of reports again in a new folder"
    )


def sweep(runs: Sequence[Run]) -> Iterator[Entries]:
    """Yield the union of runs in order of identity, in chunks, the entries of one identity together.

    All runs are cut at the same identities, which are taken from the pages of all of them: between two cuts lies at
    most a chunk and one page of every run, whatever the identities are.
    """
    if not runs:
        return
    step = _pages_at_once(runs[0].dtype)
    cuts = np.sort(np.concatenate([run.fences for run in runs]))[step::step]
    starts = [0] * len(runs)
    for cut in [*map(int, cuts), None]:
        stops = [run.count if cut is None else run.position(cut) for run in runs]
        parts = [run.read(start, stop) for run, start, stop in zip(runs, starts, stops, strict=True)]
        starts = stops
        if any(len(part) for part in parts):
            yield distinct(np.concatenate(parts))
