"""Which data set a path names: one file, a folder of files, or a pattern of file names, whatever the spelling.

The ledger keeps an account for each. A pattern stands for the folder that it begins in, for what it matches changes
with every new file, and two patterns that match one file must not have two budgets. Of a folder, only files that some
source would read count, by the names that they have there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path

from sfumato.errors import InputError
from sfumato.privacy.loss import visible_form
from sfumato.storage import checked_path

# Endings of the files that are read in a folder or by a pattern; arrays of .npz are read by their name alone.
KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npy", ".arrow", ".feather")

_WILD = re.compile(r"[*?\[]")
_MOST_ENTRIES = 1 << 17  # of a folder that are looked at for links: a second or two

FileIds = frozenset[tuple[int, int]]


def kind_of(name: str) -> str | None:
    """Return the ending that says how a file is read; None if none does.

    Examples
    --------
    >>> kind_of("trips.CSV.gz"), kind_of("README")
    ('.csv.gz', None)
    """
    return next((kind for kind in KINDS if name.lower().endswith(kind)), None)


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder inside a data set is none of its data: a version control's, a log, a marker.

    Names of partitions, such as ``_year=2024``, are no hidden ones.

    Examples
    --------
    >>> [is_hidden(name) for name in (".venv", "_delta_log", "_year=2024", "trips.csv")]
    [True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_pattern(data: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a pattern of file names: it has a wildcard, and no file has that very name.

    Examples
    --------
    >>> is_pattern("trips/2024-*.csv"), is_pattern("trips.csv")
    (True, False)
    """
    return bool(_WILD.search(os.fspath(data))) and not os.path.lexists(data)


def folder_of(pattern: str | os.PathLike[str]) -> Path:
    """Return the folder that a pattern begins in: what stands before the first part with a wildcard.

    Examples
    --------
    >>> folder_of("data/20??/trips-*.csv").as_posix()
    'data'
    """
    parts = Path(pattern).parts
    first = next(place for place, part in enumerate(parts) if _WILD.search(part))
    return Path(*parts[:first])


def file_and_array(data: str | os.PathLike[str]) -> tuple[str, str | None]:
    """Split ``FILE.npz:NAME`` into the file and the array's name, which may hold wildcards, or None.

    A file of that very name comes first, as it does for patterns.

    Examples
    --------
    >>> file_and_array("trips.npz:a[0]"), file_and_array("trips.npz")
    (('trips.npz', 'a[0]'), ('trips.npz', None))
    """
    whole = checked_path("the data's path", data)
    path, marker, name = whole.partition(".npz:")
    return (f"{path}.npz", name) if marker and not os.path.lexists(whole) else (whole, None)


def identity_of(data: str | os.PathLike[str]) -> str:
    """Path of the file or folder that data is read from, without links and without the name of an array in it.

    Examples
    --------
    >>> identity_of("/data/trips.npz:a"), identity_of("/data/../data/trips.csv"), identity_of("/data/2024-*.csv")
    ('/data/trips.npz', '/data/trips.csv', '/data')
    """
    path, array = file_and_array(data)
    if array is None and is_pattern(path):
        folder = folder_of(path)
        if ".." in Path(path).parts[len(folder.parts) :]:
            raise InputError(f"{path!r} leaves its folder after a wildcard: write the pattern without '..'")
        return os.path.realpath(folder)
    return os.path.realpath(path)


def holds(folder: str, path: str) -> bool:
    """Tell whether a path lies below a folder, by their names.

    Examples
    --------
    >>> holds("/data", "/data/trips.csv"), holds("/data", "/data2/trips.csv"), holds("/data", "/data")
    (True, False, False)
    """
    return path != folder and path.startswith(os.path.join(folder, ""))


_NAMED = (
    "say which account it belongs to (--dataset NAME on the command line, ledger=Ledger(path).account(NAME) in Python)"
)


def account_among(known: tuple[str, ...], data: str | os.PathLike[str]) -> str:
    """Name of the account of data that was given no name, among the names that a ledger knows.

    It is the path of the file or folder, the account of another hard link to the file, or that of a folder that it
    lies in, itself or by a link: a part of a data set is no other data set. Where several accounts hold the data, or
    hold parts of it, no rule can add them up, and the caller must say which one counts.
    """
    path = identity_of(data)
    found = related(known, path)
    if not found and not path.isprintable():
        raise InputError(f"the data's path {path!a} has characters that no account's name may have: {_NAMED}")
    if not found:
        return path
    is_part = any(found[0] == form or holds(found[0], form) for form in _forms(path)) or os.path.isfile(path)
    if len(found) > 1 or not is_part:
        raise InputError(
            f"{str(data)!r} shares records with the data {'set' if len(found) == 1 else 'sets'} "
            f"{', '.join(map(repr, found[:5]))} of the ledger, and a second account would be a second budget for "
            f"them: {_NAMED}"
        )
    return found[0]


def related(known: Iterable[str], path: str) -> list[str]:
    """Return the accounts of paths that share records with a path: by their names, or by links.

    Examples
    --------
    >>> related(("survey", "/data", "/data/trips.csv", "/other"), "/data/trips.csv")
    ['/data', '/data/trips.csv']
    """
    known = tuple(known)
    files = cache(lambda: files_under(path))  # names may tell, and a folder may be large
    linked = path not in known  # links were looked for when it was given an account
    return [
        name
        for name in known
        if os.path.isabs(name)
        and (
            any(_share_a_name(name, form) for form in _forms(path))
            or (linked and not files().isdisjoint(files_under(name)))
        )
    ]


def _share_a_name(account: str, path: str) -> bool:
    """Tell whether one is the other, or lies in it; earlier versions kept an account for every array of a file."""
    array = path.lower().endswith(".npz") and account.startswith(f"{path}:")
    return account == path or array or holds(account, path) or holds(path, account)


def _forms(path: str) -> tuple[str, str]:
    """Return a path, and the form in which earlier versions named its account."""
    return path, visible_form(path)


def refuse_overlap(known: tuple[str, ...], path: str) -> None:
    """Refuse a first event of a path's account where another account has come to hold its records.

    Examples
    --------
    >>> refuse_overlap(("/data",), "/data"), refuse_overlap(("/other",), "/data")
    (None, None)
    >>> refuse_overlap(("/data",), "/data/trips.csv")
    Traceback (most recent call last):
    sfumato.errors.InputError: the data set '/data', which holds '/data/trips.csv', was given an account meanwhile, ...
    """
    if path not in known and (holder := account_among(known, path)) in known:
        raise InputError(
            f"the data set {holder!r}, which holds {path!r}, was given an account meanwhile, and a second one would be "
            "a second budget: nothing was spent; run again"
        )


def files_under(path: str) -> FileIds:
    """Identify the file, or the files in a folder, that may be read under a path, whatever links lead to them."""
    found: set[tuple[int, int]] = set()
    entered: set[tuple[int, int]] = set()  # folders, for links may lead back
    waiting, left = [path], _MOST_ENTRIES
    while waiting:
        place = waiting.pop()
        with suppress(OSError, ValueError):  # it went, or is another's
            status = os.stat(place)
            identity = status.st_dev, status.st_ino
            if not stat.S_ISDIR(status.st_mode):
                found.add(identity)
            elif identity not in entered:
                entered.add(identity)
                with os.scandir(place) as entries:
                    for entry in islice(entries, left):
                        left -= 1
                        if _is_data(entry):
                            waiting.append(entry.path)
    return frozenset(found)


def _is_data(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return not is_hidden(name) and (kind_of(name) is not None or name.lower().endswith(".npz") or entry.is_dir())
