"""Which data set a path names: one file, a folder of files, or a pattern of file names, whatever the spelling.

The ledger keeps an account for each. A pattern stands for the folder that it begins in, for what it matches changes
with every new file, and two patterns that match one file must not have two budgets.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sfumato.errors import InputError

_WILD = re.compile(r"[*?\[]")


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


def identity_of(data: str | os.PathLike[str]) -> str:
    """Path of the file or folder that data is read from, without links and without the name of an array in it.

    Examples
    --------
    >>> identity_of("/data/trips.npz:a"), identity_of("/data/../data/trips.csv"), identity_of("/data/2024-*.csv")
    ('/data/trips.npz', '/data/trips.csv', '/data')
    """
    if is_pattern(data):
        return os.path.realpath(folder_of(data))
    path, marker, _ = os.fspath(data).partition(".npz:")
    return os.path.realpath(f"{path}.npz" if marker else path)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Tell whether two paths are one file, be it by a symbolic or a hard link."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def holds(folder: str, path: str) -> bool:
    """Tell whether a path lies below a folder, by their names.

    Examples
    --------
    >>> holds("/data", "/data/trips.csv"), holds("/data", "/data2/trips.csv"), holds("/data", "/data")
    (True, False, False)
    """
    return path != folder and path.startswith(os.path.join(folder, ""))


def account_among(known: tuple[str, ...], data: str | os.PathLike[str]) -> str:
    """Name of the account of data that was given no name, among the names that a ledger knows.

    It is the path of the file or folder, the account of another hard link to the file, or that of a folder that it
    lies in: a part of a data set is no other data set. Where several accounts hold the data, or hold parts of it, no
    rule can add them up, and the caller must say which one counts.
    """
    path = identity_of(data)
    related = [name for name in known if os.path.isabs(name) and (name == path or _overlap(name, path))]
    if not related:
        return path
    if len(related) > 1 or holds(path, related[0]):
        raise InputError(
            f"{str(data)!r} shares records with the data {'set' if len(related) == 1 else 'sets'} "
            f"{', '.join(map(repr, related[:5]))} of the ledger, and a second account would be a second budget for "
            "them: say which account it belongs to (--dataset NAME on the command line, "
            "ledger=Ledger(path).account(NAME) in Python)"
        )
    return related[0]


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


def _overlap(name: str, path: str) -> bool:
    return holds(name, path) or holds(path, name) or (os.path.isfile(path) and same_file(name, path))
