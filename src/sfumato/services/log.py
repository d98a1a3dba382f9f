"""The public log of a server: what it opened, closed, published and deleted, for anyone to read and to compare.

Each entry is signed and holds the hash of the one before, so that an entry that was shown to somebody cannot be taken
back without a trace. The log lies in a storage like collections do: an entry is there whole or not at all, and servers
that share a database and a key have one log between them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfumato.errors import SfumatoError, StorageError
from sfumato.public.canonical_json import canonical, parse
from sfumato.public.codec import Schema, Text, Whole
from sfumato.services.signing import SigningKey, verified
from sfumato.services.store import Store, Transaction
from sfumato.shuffled.sealing import Hexadecimal

_LARGEST_ENTRY = 1000
_NO_ENTRY = "0" * 64
_ENTRY = Schema(
    number=Whole(0, 2**40),
    time=Text(longest=40),
    event=Text("opened", "closed", "published", "key-deleted", "messages-deleted"),
    fingerprint=Hexadecimal(64),
    previous=Hexadecimal(64),
    signature=Hexadecimal(128),
)


class Log:
    """What a server published; entries are only added.

    Parameters
    ----------
    store : Store
        Of its own.
    key : SigningKey
        Signs the entries.

    Examples
    --------
    >>> import tempfile
    >>> from sfumato.services.sqlite import SQLiteStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key = SigningKey.generate()
    ...     log = Log(SQLiteStore(f"{folder}/log.db", "log"), key)
    ...     log.add("opened", "a" * 64, "2027-01-31T00:00:00Z")
    ...     log.add("opened", "a" * 64, "2027-02-01T00:00:00Z")
    ...     [entry["time"] for entry in read_log(log.content(), key.public.hex())]
    ['2027-01-31T00:00:00Z']
    """

    def __init__(self, store: Store, key: SigningKey) -> None:
        self.store, self._key = store, key
        content = self.content()  # whose errors are the storage's own
        try:
            read_log(content, key.public.hex())
        except SfumatoError as error:
            raise store.damaged(str(error)) from error

    def content(self) -> bytes:
        """Return all entries, a line each."""
        with self.store.transaction() as now:
            return b"".join(line + b"\n" for line in self._lines(now))

    def knows(self, event: str, fingerprint: str) -> bool:
        """Whether an entry says so."""
        with self.store.transaction() as now:
            return _known(self._entries(now), event, fingerprint)

    def add(self, event: str, fingerprint: str, time: str) -> None:
        """Add an entry, on disk when this returns; one that is there already is not repeated."""
        with self.store.transaction() as now:
            entries = self._entries(now)
            if _known(entries, event, fingerprint):
                return
            entry = {
                "number": len(entries),
                "time": time,
                "event": event,
                "fingerprint": fingerprint,
                "previous": head(entries),
            }
            entry["signature"] = self._key.sign(canonical(entry)).hex()
            line = json.dumps(entry, sort_keys=True).encode()
            now.run("INSERT INTO items VALUES (0, ?, ?, ?)", (len(entries).to_bytes(8), b"", line))

    def _lines(self, now: Transaction) -> list[bytes]:
        rows = now.run("SELECT content FROM items ORDER BY identity")
        return [line for (line,) in self.store.blobs(rows)]

    def _entries(self, now: Transaction) -> list[dict[str, Any]]:
        lines = self._lines(now)
        try:
            return [_entry(line) for line in lines]
        except SfumatoError as error:
            raise self.store.damaged(str(error)) from error


def _entry(line: bytes) -> dict[str, Any]:
    """Read an entry, whose signature is not looked at."""
    return _ENTRY.read(parse(line, "an entry of the log", _LARGEST_ENTRY))


def _known(entries: Iterable[Mapping[str, Any]], event: str, fingerprint: str) -> bool:
    return any(entry["event"] == event and entry["fingerprint"] == fingerprint for entry in entries)


def read_log(content: bytes, key: str) -> list[dict[str, Any]]:
    """Read a log, and refuse it unless every entry is signed and holds the hash of the one before."""
    entries: list[dict[str, Any]] = []
    key = Hexadecimal(64).read(key, "the server's key")
    for line in content.splitlines():
        entry = _entry(line)
        unsigned = {name: value for name, value in entry.items() if name != "signature"}
        right = verified(bytes.fromhex(key), bytes.fromhex(entry["signature"]), canonical(unsigned))
        if not right or entry["number"] != len(entries):
            raise StorageError("the log was changed: an entry is missing, or not signed by the server's key")
        if entry["previous"] != head(entries):
            raise StorageError("the log was changed: an entry does not follow from the one before")
        entries.append(entry)
    return entries


def same_log(one: Sequence[Mapping[str, Any]], two: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of two logs goes on where the other ends; if not, people are shown different ones.

    Examples
    --------
    >>> first, second = {"number": 0}, {"number": 1}
    >>> same_log([first], [first, second]), same_log([first], [second])
    (True, False)
    """
    return all(entry == other for entry, other in zip(one, two, strict=False))


def head(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash of the last entry, which holds for all of them: whoever has the same has the same log."""
    return _hash(entries[-1]) if entries else _NO_ENTRY


def _hash(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(entry)).hexdigest()
