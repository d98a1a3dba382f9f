"""Which report identities were seen, for any number of reports in bounded memory.

Identities are 48-bit integers. Each block of reports becomes one sorted run in a file; runs of similar length are
merged, so that m blocks leave about log2 m of them. A look-up is a binary search in every run, through memory maps.
Files are never changed once written: a checkpoint names the runs that belong to it, and what it does not name is
rubbish that a kill left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from sfumato.storage import private_opener

Identities = NDArray[np.uint64]
SUFFIX = ".ids.npy"


class SeenIdentities:
    """Sorted runs of identities in a folder.

    Parameters
    ----------
    folder : Path
        Where the runs are.
    names : sequence of str
        Runs that an earlier checkpoint named.
    """

    def __init__(self, folder: Path, names: Sequence[str] = ()) -> None:
        self.folder = folder
        self._runs = [(name, _opened(folder / name)) for name in names]
        self._outdated: list[str] = []
        self._number = 1 + max((int(name.split(".")[0]) for name in names), default=0)

    @property
    def names(self) -> list[str]:
        """Runs that make up the present content."""
        return [name for name, _ in self._runs]

    def __len__(self) -> int:
        return sum(len(run) for _, run in self._runs)

    def first_time(self, identities: Identities) -> NDArray[np.bool_]:
        """Say of each identity whether it occurs neither before it in this block nor in any run."""
        order = np.argsort(identities, kind="stable")
        ordered = identities[order]
        new = np.ones(len(ordered), dtype=np.bool_)
        new[1:] = ordered[1:] != ordered[:-1]
        for _, run in self._runs:
            if len(run):
                places = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
                new &= run[places] != ordered
        result = np.empty(len(ordered), dtype=np.bool_)
        result[order] = new
        return result

    def add(self, identities: Identities) -> None:
        """Remember identities that are new and differ from each other."""
        if not len(identities):
            return
        self._write(np.sort(identities))
        while len(self._runs) > 1 and len(self._runs[-2][1]) < 2 * len(self._runs[-1][1]):
            (first_name, first), (second_name, second) = self._runs[-2:]
            del self._runs[-2:]
            self._outdated += [first_name, second_name]
            self._write(first, second)

    def blocks(self, count: int) -> Iterator[Identities]:
        """Yield all identities, at most `count` at a time."""
        for _, run in self._runs:
            for start in range(0, len(run), count):
                yield np.asarray(run[start : start + count])

    def _write(self, *parts: Identities) -> None:
        name = f"{self._number:09d}{SUFFIX}"
        self._number += 1
        with open(self.folder / name, "wb", opener=private_opener):
            pass  # it is there, and private, before anything is written to it
        made: Any = open_memmap(
            self.folder / name, mode="w+", dtype=np.dtype("<u8"), shape=(sum(len(part) for part in parts),)
        )
        if len(parts) == 1:
            made[:] = parts[0]
        else:
            _merge(parts[0], parts[1], made)
        made.flush()
        self._runs.append((name, _opened(self.folder / name)))

    def forget_outdated(self) -> None:
        """Delete the files that no checkpoint names any more; call it after the checkpoint is written."""
        for name in self._outdated:
            (self.folder / name).unlink(missing_ok=True)
        self._outdated = []

    def remove_rubbish(self) -> None:
        """Delete the runs that a killed process left behind."""
        kept = set(self.names)
        for entry in os.scandir(self.folder):
            if entry.name.endswith(SUFFIX) and entry.name not in kept:
                os.unlink(entry.path)


def _opened(path: Path) -> Identities:
    run: Identities = np.load(path, mmap_mode="r")
    return run


@njit(nogil=True, cache=True)
def _merge(first, second, out):  # type: ignore[no-untyped-def]
    i = j = 0
    for k in range(len(out)):
        if j >= len(second) or (i < len(first) and first[i] < second[j]):
            out[k] = first[i]
            i += 1
        else:
            out[k] = second[j]
            j += 1
