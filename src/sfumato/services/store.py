"""What a server keeps: items by identity, tokens that were spent, and facts about the collection, each change durable.

One contract, `Store`, and its SQL once. `sqlite.SQLiteStore` is the embedded default, a file in the server's folder;
`postgres.PostgresStore` is for several servers that share a collection.

An item is what came in one frame. Its identity is known only once: the same digest again is a retry, another digest is
refused. Spending a token and keeping the item that it admits are one transaction, and so are the counts of what was
refused. Transactions that add are serial (SQLite's write lock, an advisory lock in PostgreSQL), so that a decision that
rests on what was read is still right when it is written; `commits` puts many requests into one.

The groups of a collection, one for each class, have items and facts of their own and one list of spent tokens, in one
storage: an issuer signs without seeing what, so that no token can be for one group alone, and what admits to one of
them must be gone for all. The list lasts as long as any group is open.

Stages: a group is ``open``, then ``closed`` and never open again, ``forgotten`` at last. A stage is left by one
transaction that names the stage it leaves: of two servers that try, one succeeds.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

from sfumato.errors import InputError, StorageError
from sfumato.services.wire import Fate, Problem

OPEN, CLOSED, FORGOTTEN = "open", "closed", "forgotten"
Rows = list[tuple[Any, ...]]
ITEMS = "SELECT identity, digest, content FROM items WHERE place = ? ORDER BY identity"
_DIGITS = 20
_CHUNK = 500  # of questions in one statement: SQLite of old allowed 999 parameters

# Without row numbers, which would tell the order of arrival. Each is run once, in order, and never changed once a
# version was published; `facts.schema` says how many were run.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE items (place INTEGER NOT NULL, identity BLOB NOT NULL, digest BLOB NOT NULL, "
        "content BLOB NOT NULL, PRIMARY KEY (place, identity)) WITHOUT ROWID",
        "CREATE TABLE spent (nonce BLOB PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE facts (place INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
        "PRIMARY KEY (place, name))",
        "INSERT INTO facts VALUES (0, 'stage', 'open')",
    ),
)


class Item(NamedTuple):
    """What came in one frame.

    Attributes
    ----------
    identity : bytes
        Stays the same when the item is sent again.
    digest : bytes
        Of the content, or a content that is as short as a digest.
    content : bytes
        What else is kept.
    nonce : bytes
        Of the token that admits it; empty in an open collection.
    """

    identity: bytes
    digest: bytes
    content: bytes = b""
    nonce: bytes = b""


class Transaction(ABC):
    """Statements that happen together or not at all."""

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run one statement, with ? for values, and return its rows."""

    @abstractmethod
    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run one statement for each row, and return how many rows were changed."""


class Store(ABC):
    """Items and facts of one group of a collection, and the spent tokens of all of them; of the first group at first.

    Parameters
    ----------
    collection : str
        What it holds.
    known : bool
        Whether it was there before, with all its groups, so that an empty one is damaged.
    """

    def __init__(self, collection: str, known: bool = False) -> None:
        self.collection = collection
        self._place, self._known = 0, known
        try:
            with self.transaction() as now:
                if known and not self._tables(now):
                    raise self.damaged("it is empty")
                self._migrate(now)
                self._claim(now)
        except BaseException:
            self.close()
            raise

    def group(self, place: int) -> Self:
        """Return the same storage for another group; closing one of them closes all."""
        other = copy.copy(self)
        other._place = place
        if not self._known:
            other.claim("stage", OPEN)  # is known from now on, so that tokens are kept until it is over
        with other.transaction() as now:
            other._stage(now)  # one that is lost is not begun anew: the group may have been closed
        return other

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that no other one runs beside, and commit it, durably, at the end of the block."""

    @abstractmethod
    def blocks(self, items: int) -> Iterator[Rows]:
        """Give identity, digest and content of all items, by identity, in one consistent view."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the storage."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Where it is kept, for messages to the operator."""

    def damaged(self, problem: str) -> StorageError:
        """Return the error that something is not as it was written."""
        return StorageError(
            f"what the server keeps in {self.where} is damaged ({problem}), and what was acknowledged may be lost with "
            "it. Restore the server's folder or database from a backup: what devices sent since then they can send "
            "again, at no cost. Without a backup, begin a new collection in a new folder"
        )

    @abstractmethod
    def _tables(self, now: Transaction) -> bool:
        """Whether there are tables yet."""

    def _migrate(self, now: Transaction) -> None:
        done = 0
        if self._tables(now) and not (done := self._number(now, "schema")):
            raise self.damaged("the number 'schema' is lost")
        if done > len(MIGRATIONS):
            raise InputError("the storage was written by a newer version of sfumato; go on with that one")
        for statements in MIGRATIONS[done:]:
            for statement in statements:
                now.run(statement)
        if done < len(MIGRATIONS):
            self._write(now, "schema", str(len(MIGRATIONS)))

    def _claim(self, now: Transaction) -> None:
        known = self._read(now, "collection")
        if known is None:
            self._write(now, "collection", self.collection)
        elif known != self.collection:
            raise InputError(
                f"{self.where} holds another collection, or the log of another server.key: restore that, or choose "
                "another folder or database"
            )

    def add(self, items: Sequence[Item], refused: Mapping[str, int] | None = None, over: bool = False) -> list[Fate]:
        """Keep items, durably when this returns; say what became of each.

        Parameters
        ----------
        items : sequence of Item
            In any order, retries among them.
        refused : mapping, optional
            How many frames were refused before they came here, by reason; they are counted.
        over : bool
            Whether the time of the collection is over: only what is there is acknowledged.
        """
        with self.transaction() as now:
            is_open, new = self._stage(now) == OPEN and not over, 0
            if not is_open:
                fates = self._of_closed(now, items)
            elif any(item.nonce for item in items):
                fates, new = self._admitted(now, items)
            else:
                fates, new = self._kept(now, items)
            if new:
                self._write(now, "items", str(self._number(now, "items") + new))
            counts = dict(refused or {})
            for fate in fates:
                if fate is not Fate.HELD:
                    counts[fate.name.lower()] = counts.get(fate.name.lower(), 0) + 1
            for name, count in counts.items() if is_open else ():  # what was published stays as it was
                self._write(now, f"refused.{name}", str(self._number(now, f"refused.{name}") + count))
        return fates

    def count(self) -> int:
        """Return how many items are kept: a fact that is written with them, for counting rows takes long."""
        with self.transaction() as now:
            return self._number(now, "items")

    def refused(self) -> dict[str, int]:
        """Return how many frames were refused, by reason."""
        statement = "SELECT name, value FROM facts WHERE place = ? AND name LIKE 'refused.%' ORDER BY name"
        with self.transaction() as now:
            rows = now.run(statement, (self._place,))
        return {str(name).removeprefix("refused."): self._whole(name, value) for name, value in rows}

    def fact(self, name: str) -> str | None:
        """Return what is written under a name."""
        with self.transaction() as now:
            return self._read(now, name)

    @property
    def stage(self) -> str:
        """Where the group stands."""
        with self.transaction() as now:
            return self._stage(now)

    def claim(self, name: str, value: str) -> bool:
        """Write a fact if there is none of this name; whether it says this now."""
        with self.transaction() as now:
            known = self._read(now, name)
            if known is None:
                self._write(now, name, value)
            return known in (None, value)

    def advance(self, before: str, after: str, facts: Mapping[str, str] | None = None) -> bool:
        """Go from one stage to another and write facts with it; False, and nothing written, if it stood elsewhere."""
        with self.transaction() as now:
            if self._stage(now) != before:
                return False
            self._write(now, "stage", after)
            for name, value in (facts or {}).items():
                self._write(now, name, value)
            return True

    def stages(self) -> set[str]:
        """Where the groups of the collection stand."""
        with self.transaction() as now:
            return {str(row[0]) for row in now.run("SELECT DISTINCT value FROM facts WHERE name = 'stage'")}

    def forget(self) -> bool:
        """Delete the group's items, and the spent tokens after the last group's; whether all are deleted."""
        with self.transaction() as now:
            if self._read(now, "emptied") is None:
                now.run("DELETE FROM items WHERE place = ?", (self._place,))
                self._write(now, "items", "0")
                self._write(now, "emptied", "yes")
            (groups,), (emptied,) = (
                now.run("SELECT COUNT(*) FROM facts WHERE name = ?", (name,))[0] for name in ("stage", "emptied")
            )
            if groups == emptied:
                now.run("DELETE FROM spent")
            return bool(groups == emptied)

    def _read(self, now: Transaction, name: str) -> str | None:
        rows = now.run("SELECT value FROM facts WHERE place = ? AND name = ?", (self._place, name))
        return str(rows[0][0]) if rows else None

    def _number(self, now: Transaction, name: str) -> int:
        return self._whole(name, self._read(now, name) or "0")

    def _whole(self, name: str, value: Any) -> int:
        said = str(value)  # which a flipped bit may make bytes
        if not (said.isascii() and said.isdecimal() and len(said) < _DIGITS):
            raise self.damaged(f"the number {name!r} is {value!r:.40}")
        return int(said)

    def blobs(self, rows: Rows) -> Rows:
        """Return rows of bytes; raise `StorageError` if there is a text or a number, which a flipped bit may make."""
        if not set(map(type, chain.from_iterable(rows))) <= {bytes}:
            raise self.damaged("an item is no bytes")
        return rows

    def _stage(self, now: Transaction) -> str:
        stage = self._read(now, "stage")
        if stage not in (OPEN, CLOSED, FORGOTTEN):
            raise self.damaged(f"the stage is {stage!r:.40}")
        return stage

    def _write(self, now: Transaction, name: str, value: str) -> None:
        now.run(
            "INSERT INTO facts VALUES (?, ?, ?) ON CONFLICT (place, name) DO UPDATE SET value = excluded.value",
            (self._place, name, value),
        )

    def _insert(self, now: Transaction, items: Sequence[Item]) -> int:
        """Keep items, by identity: neighbours lie on one page, and the order of arrival is not written down."""
        rows = sorted((item[:3] for item in items), key=itemgetter(0))  # of two under one the first stays first
        statement = f"INSERT INTO items VALUES ({self._place:d}, ?, ?, ?) ON CONFLICT (place, identity) DO NOTHING"
        return now.many(statement, rows)

    def _digests(self, now: Transaction, items: Sequence[Item]) -> dict[bytes, bytes]:
        """Return what is kept under the identities of items."""
        statement = "SELECT identity, digest FROM items WHERE place = ? AND identity IN"
        rows = _asked(now, statement, [item.identity for item in items], self._place)
        return dict(self.blobs(rows))

    def _kept(self, now: Transaction, items: Sequence[Item]) -> tuple[list[Fate], int]:
        """Keep items of an open group; say also how many were new."""
        new = self._insert(now, items)
        if new == len(items):
            return [Fate.HELD] * new, new
        known = self._digests(now, items)
        return [Fate.HELD if known[item.identity] == item.digest else Fate.CONFLICT for item in items], new

    def _of_closed(self, now: Transaction, items: Sequence[Item]) -> list[Fate]:
        known = self._digests(now, items)
        return [Fate.HELD if known.get(item.identity) == item.digest else Fate.CLOSED for item in items]

    def _admitted(self, now: Transaction, items: Sequence[Item]) -> tuple[list[Fate], int]:
        """Keep items that tokens admit, each token one item of one group; a retry needs no further token."""
        known = self._digests(now, items)
        rows = _asked(now, "SELECT nonce FROM spent WHERE nonce IN", [item.nonce for item in items])
        spent = {nonce for (nonce,) in self.blobs(rows)}
        fates, fresh = [], []
        for item in items:
            if item.identity in known:
                fates.append(Fate.HELD if known[item.identity] == item.digest else Fate.CONFLICT)
            elif item.nonce in spent:
                fates.append(Fate.SPENT)
            else:
                known[item.identity] = item.digest
                spent.add(item.nonce)
                fresh.append(item)
                fates.append(Fate.HELD)
        self._insert(now, fresh)
        now.many("INSERT INTO spent VALUES (?)", [(item.nonce,) for item in fresh])
        return fates, len(fresh)


def _asked(now: Transaction, statement: str, keys: Sequence[bytes], *before: int) -> Rows:
    """Ask about many keys, some at a time."""
    found: Rows = []
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        found += now.run(f"{statement} ({', '.join('?' * len(part))})", (*before, *part))
    return found


def open_store(folder: Path, database: str | None, collection: str, known: bool = False) -> Store:
    """Return the storage of a server: a file in its folder, or a database that several share.

    Parameters
    ----------
    folder : Path
        The server's.
    database : str, optional
        ``postgresql://...``.
    collection : str
        What it holds.
    known : bool
        Whether it was there before.
    """
    try:
        return _opened(folder, database, collection, known)
    except Problem as problem:  # whose title is for devices
        raise StorageError(f"cannot use what the server keeps: {problem.detail}") from problem


def _opened(folder: Path, database: str | None, collection: str, known: bool) -> Store:
    if database is None:
        from sfumato.services.sqlite import SQLiteStore

        return SQLiteStore(folder / "items.db", collection, known)
    if not database.startswith(("postgresql://", "postgres://")):
        raise InputError("a database is named by an address such as postgresql://user@host/name")
    from sfumato.services.postgres import PostgresStore

    return PostgresStore(database, collection, known)
