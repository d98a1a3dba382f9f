"""What a server keeps: items by identity, tokens that were spent, and facts about the collection, each change durable.

One contract, `Store`, and its SQL once. `sqlite.SQLiteStore` is the embedded default, a file in the server's folder;
`postgres.PostgresStore` is for several servers that share a collection.

An item is what came in one frame. Its identity is known only once: the same digest again is a retry, another digest is
refused. Spending a token and keeping the item that it admits are one transaction, and so are the counts of what was
refused. Transactions that add are serial (SQLite's write lock, an advisory lock in PostgreSQL), so that a decision that
rests on what was read is still right when it is written; `commits` puts many requests into one.

Stages: a collection is ``open``, then ``closed`` and never open again, ``forgotten`` at last. A stage is left by one
transaction that names the stage it leaves: of two servers that try, one succeeds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from sfumato.errors import InputError
from sfumato.services.wire import Fate

OPEN, CLOSED, FORGOTTEN = "open", "closed", "forgotten"
Rows = list[tuple[Any, ...]]
_CHUNK = 500  # of questions in one statement: SQLite of old allowed 999 parameters

# Without row numbers, which would tell the order of arrival. Each is run once, in order, and never changed once a
# version was published; `facts.schema` says how many were run.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE items (identity BLOB PRIMARY KEY, digest BLOB NOT NULL, content BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE spent (nonce BLOB PRIMARY KEY, identity BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "INSERT INTO facts VALUES ('stage', 'open'), ('items', '0')",
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
    """Items, spent tokens and facts of one collection."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        with self.transaction() as now:
            self._migrate(now)
            self._claim(now)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that no other one runs beside, and commit it, durably, at the end of the block."""

    @abstractmethod
    def blocks(self, items: int) -> Iterator[Rows]:
        """Give identity, digest and content of all items, by identity, in one consistent view."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the storage."""

    @abstractmethod
    def _tables(self, now: Transaction) -> bool:
        """Whether there are tables yet."""

    def _migrate(self, now: Transaction) -> None:
        done = int(_fact(now, "schema") or 0) if self._tables(now) else 0
        if done > len(MIGRATIONS):
            raise InputError("the storage was written by a newer version of sfumato; go on with that one")
        for statements in MIGRATIONS[done:]:
            for statement in statements:
                now.run(statement)
        if done < len(MIGRATIONS):
            _set_fact(now, "schema", str(len(MIGRATIONS)))

    def _claim(self, now: Transaction) -> None:
        known = _fact(now, "collection")
        if known is None:
            _set_fact(now, "collection", self.collection)
        elif known != self.collection:
            raise InputError("the storage holds another collection; choose another folder or database")

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
            is_open, new = _fact(now, "stage") == OPEN and not over, 0
            if not is_open:
                fates = _of_closed(now, items)
            elif any(item.nonce for item in items):
                fates, new = _admitted(now, items)
            else:
                fates, new = _kept(now, items)
            if new:
                _set_fact(now, "items", str(int(_fact(now, "items") or 0) + new))
            counts = dict(refused or {})
            for fate in fates:
                if fate is not Fate.HELD:
                    counts[fate.name.lower()] = counts.get(fate.name.lower(), 0) + 1
            for name, count in counts.items() if is_open else ():  # what was published stays as it was
                _set_fact(now, f"refused.{name}", str(int(_fact(now, f"refused.{name}") or 0) + count))
        return fates

    def count(self) -> int:
        """Return how many items are kept: a fact that is written with them, for counting rows takes long."""
        return int(self.fact("items") or 0)

    def refused(self) -> dict[str, int]:
        """Return how many frames were refused, by reason."""
        with self.transaction() as now:
            rows = now.run("SELECT name, value FROM facts WHERE name LIKE 'refused.%' ORDER BY name")
        return {name.removeprefix("refused."): int(value) for name, value in rows}

    def fact(self, name: str) -> str | None:
        """Return what is written under a name."""
        with self.transaction() as now:
            return _fact(now, name)

    @property
    def stage(self) -> str:
        """Where the collection stands."""
        return self.fact("stage") or OPEN

    def claim(self, name: str, value: str) -> bool:
        """Write a fact if there is none of this name; whether it says this now."""
        with self.transaction() as now:
            known = _fact(now, name)
            if known is None:
                _set_fact(now, name, value)
            return known in (None, value)

    def advance(self, before: str, after: str, facts: Mapping[str, str] | None = None) -> bool:
        """Go from one stage to another and write facts with it; False, and nothing written, if it stood elsewhere."""
        with self.transaction() as now:
            if _fact(now, "stage") != before:
                return False
            _set_fact(now, "stage", after)
            for name, value in (facts or {}).items():
                _set_fact(now, name, value)
            return True

    def forget(self) -> None:
        """Delete items and spent tokens."""
        with self.transaction() as now:
            now.run("DELETE FROM items")
            now.run("DELETE FROM spent")
            _set_fact(now, "items", "0")


def _fact(now: Transaction, name: str) -> str | None:
    rows = now.run("SELECT value FROM facts WHERE name = ?", (name,))
    return str(rows[0][0]) if rows else None


def _set_fact(now: Transaction, name: str, value: str) -> None:
    now.run(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def _insert(now: Transaction, items: Sequence[Item]) -> int:
    """Keep items, by identity: neighbours lie on one page, and the order of arrival is not written down."""
    ordered = sorted((item[:3] for item in items), key=itemgetter(0))  # of two under one identity the first stays first
    return now.many("INSERT INTO items VALUES (?, ?, ?) ON CONFLICT (identity) DO NOTHING", ordered)


def _known(now: Transaction, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return digests by identity, or identities by nonce."""
    key, value = ("identity", "digest") if table == "items" else ("nonce", "identity")
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        marks = ", ".join("?" * len(part))
        found |= {bytes(one): bytes(two) for one, two in _rows(now, table, key, value, marks, part)}
    return found


def _rows(now: Transaction, table: str, key: str, value: str, marks: str, part: Sequence[bytes]) -> Rows:
    return now.run(f"SELECT {key}, {value} FROM {table} WHERE {key} IN ({marks})", part)


def _kept(now: Transaction, items: Sequence[Item]) -> tuple[list[Fate], int]:
    """Keep items of an open collection; say also how many were new."""
    new = _insert(now, items)
    if new == len(items):
        return [Fate.HELD] * new, new
    known = _known(now, "items", [item.identity for item in items])
    return [Fate.HELD if known[item.identity] == item.digest else Fate.CONFLICT for item in items], new


def _of_closed(now: Transaction, items: Sequence[Item]) -> list[Fate]:
    known = _known(now, "items", [item.identity for item in items])
    return [Fate.HELD if known.get(item.identity) == item.digest else Fate.CLOSED for item in items]


def _admitted(now: Transaction, items: Sequence[Item]) -> tuple[list[Fate], int]:
    """Keep items that tokens admit, each token one item, and say how many were new; a retry needs no further token."""
    known = _known(now, "items", [item.identity for item in items])
    spent = _known(now, "spent", [item.nonce for item in items])
    fates, fresh = [], []
    for item in items:
        if item.identity in known:
            fates.append(Fate.HELD if known[item.identity] == item.digest else Fate.CONFLICT)
        elif item.nonce in spent:
            fates.append(Fate.SPENT)
        else:
            known[item.identity], spent[item.nonce] = item.digest, item.identity
            fresh.append(item)
            fates.append(Fate.HELD)
    _insert(now, fresh)
    now.many("INSERT INTO spent VALUES (?, ?)", [(item.nonce, item.identity) for item in fresh])
    return fates, len(fresh)


def open_store(folder: Path, database: str | None, collection: str) -> Store:
    """Return the storage of a server: a file in its folder, or a database that several share.

    Parameters
    ----------
    folder : Path
        The server's.
    database : str, optional
        ``postgresql://...``.
    collection : str
        What it holds.
    """
    if database is None:
        from sfumato.services.sqlite import SQLiteStore

        return SQLiteStore(folder / "items.db", collection)
    if not database.startswith(("postgresql://", "postgres://")):
        raise InputError("a database is named by an address such as postgresql://user@host/name")
    from sfumato.services.postgres import PostgresStore

    return PostgresStore(database, collection)
