"""A collection in PostgreSQL, which several servers share.

Transactions that add take an advisory lock of the collection first, so that they are serial as in a file; group commit
makes them few. Each collection has a schema of its own in the database. A connection that was lost is made again at the
next transaction; a transaction whose commit was not answered may have happened, and what is sent again then is a retry.

PostgreSQL keeps rows in the order of their arrival on its disk. Whoever can read its files, or its backups, sees that
order, and the statements' times in its logs if it is told to log them: the database is trusted as the server is.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from sfumato.errors import InputError
from sfumato.services.store import ITEMS, Rows, Store, Transaction
from sfumato.services.wire import Problem

_SECONDS = 10
_OWNER = "SELECT pg_get_userbyid(nspowner) = current_user FROM pg_namespace WHERE nspname = %s"
_SETTINGS = "SELECT set_config('search_path', %s, true), set_config('synchronous_commit', 'on', true)"


class _PostgresTransaction(Transaction):
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        cursor = self._connection.execute(_dialect(statement), values)
        return cursor.fetchall() if cursor.description else []

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        if not rows:
            return 0
        with self._connection.cursor() as cursor:
            cursor.executemany(_dialect(statement), rows)
            return max(cursor.rowcount, 0)


def _dialect(statement: str) -> bytes:
    """Return a statement of `store` as PostgreSQL takes it."""
    text = statement.replace("%", "%%").replace("?", "%s").replace("BLOB", "BYTEA").replace(" WITHOUT ROWID", "")
    return text.encode()


class PostgresStore(Store):
    """A collection in a schema of a database.

    Parameters
    ----------
    address : str
        ``postgresql://user@host/database``.
    collection : str
        What it holds, such as a protocol's fingerprint; names the schema.
    known : bool
        Whether it was there before, so that an empty one is damaged.
    """

    def __init__(self, address: str, collection: str, known: bool = False) -> None:
        self._address = address
        self._schema = f"sfumato_{hashlib.sha256(collection.encode()).hexdigest()[:40]}"
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []  # one or none, the same list for all groups
        super().__init__(collection, known)

    def _connect(self) -> psycopg.Connection[Any]:
        made = psycopg.connect(self._address, connect_timeout=_SECONDS, autocommit=True)
        made.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # what is read after the lock is what there is
        with made.transaction():
            made.execute("SELECT pg_advisory_xact_lock(hashtext('sfumato'))")  # two servers may start at once
            made.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"'.encode())
            own = made.execute(_OWNER, (self._schema,)).fetchone()
        if own is None or not own[0]:
            made.close()
            raise InputError("the collection's schema in the database belongs to another user: choose another database")
        return made

    def _settle(self, connection: psycopg.Connection[Any], lock: bool) -> None:
        """Look at our schema alone, and wait for the disk, whatever the session or a pooler left behind."""
        connection.execute(_SETTINGS, (f'"{self._schema}", pg_temp',))
        if lock:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._schema,))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin after the collection's lock, and commit at the end."""
        with self._lock, self._problems():
            connection = self._connected()
            with connection.transaction():
                self._settle(connection, lock=True)
                yield _PostgresTransaction(connection)

    def _connected(self) -> psycopg.Connection[Any]:
        if not self._connections or self._connections[0].closed:
            self._connections[:] = [self._connect()]
        return self._connections[0]

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            while self._connections:
                with suppress(psycopg.Error):
                    self._connections.pop().close()
            code = "full" if isinstance(error, psycopg.errors.DiskFull) else "storage"
            raise Problem(code, type(error).__name__, retry_after=5) from error

    def blocks(self, items: int) -> Iterator[Rows]:
        """Give all items through a cursor of the server, in one transaction."""
        with self._problems(), self._connect() as connection, connection.transaction():
            self._settle(connection, lock=False)
            cursor = connection.cursor(name="items")
            cursor.itersize = items
            cursor.execute(_dialect(ITEMS), (self._place,))
            while rows := cursor.fetchmany(items):
                yield [tuple(map(bytes, row)) for row in rows]

    def _tables(self, now: Transaction) -> bool:
        found = now.run("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'facts'", (self._schema,))
        return bool(found)

    @property
    def where(self) -> str:
        """The database, whose address may hold a password."""
        return "the database"

    def close(self) -> None:
        """Close the connection."""
        for connection in self._connections:
            connection.close()
