"""A collection in a file, SQLite in WAL mode: the embedded default."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.owner import private_folder, private_opener
from sfumato.services.store import ITEMS, Rows, Store, Transaction
from sfumato.services.wire import Problem
from sfumato.storage import storage_errors

_BUSY_SECONDS = 30.0


class _SQLiteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        return self._connection.execute(statement, values).fetchall()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        return max(self._connection.executemany(statement, rows).rowcount, 0)


class SQLiteStore(Store):
    """A collection in a file, in WAL mode; a commit is on disk before it returns.

    Parameters
    ----------
    path : str or Path
        The file; made, with its folder, if it does not exist. Only its owner can read it.
    collection : str
        What it holds, such as a protocol's fingerprint; a file of another collection is refused.
    known : bool
        Whether it was there before, so that an empty one is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from sfumato.services.store import Item
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SQLiteStore(f"{folder}/items.db", "a collection")
    ...     print(store.add([Item(b"1", b"a"), Item(b"1", b"a"), Item(b"1", b"b")]))
    ...     store.close()
    [<Fate.HELD: 0>, <Fate.HELD: 0>, <Fate.CONFLICT: 4>]
    """

    def __init__(self, path: str | Path, collection: str, known: bool = False) -> None:
        self.path = Path(path)
        with storage_errors("use", self.path):
            private_folder(self.path.parent)
            open(self.path, "ab", opener=private_opener).close()
        self._connection = self._connect()
        self._lock = threading.Lock()  # one connection, one transaction at a time
        try:
            with self._problems():
                ((found,),) = self._connection.execute("PRAGMA quick_check(1)").fetchall()
            if found != "ok":
                raise self.damaged(str(found))
        except BaseException:
            self.close()
            raise
        super().__init__(collection, known)

    def _connect(self) -> sqlite3.Connection:
        with self._problems():
            made = sqlite3.connect(self.path, _BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                # A text that a flipped bit made, of bytes or of a text, is read, so that it is told by its name.
                made.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
                made.execute("PRAGMA journal_mode = WAL")
                made.execute("PRAGMA synchronous = FULL")  # the log is on disk when a commit returns
                made.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten
            except BaseException:
                made.close()
                raise
            return made

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin, and commit at the end."""
        with self._lock, self._problems():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield _SQLiteTransaction(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def blocks(self, items: int) -> Iterator[Rows]:
        """Give all items from a connection of their own, which sees the moment at which it began."""
        connection = self._connect()
        try:
            with self._problems():
                cursor = connection.execute(ITEMS, (self._place,))
                while rows := cursor.fetchmany(items):
                    yield rows
        finally:
            connection.close()

    def _tables(self, now: Transaction) -> bool:
        return bool(now.run("SELECT 1 FROM sqlite_master WHERE name = 'facts'"))

    def forget(self) -> bool:
        """Delete, and let the file shrink after the last group."""
        before = self.fact("emptied")
        over = super().forget()
        with self._lock, self._problems():
            if over:
                self._connection.execute("VACUUM")
            if over or before is None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return over

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def where(self) -> str:
        """The file."""
        return repr(str(self.path))

    @contextmanager
    def _problems(self) -> Iterator[None]:
        """Tell a damaged file and a full disk from other failures of the storage."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                raise self.damaged(str(error)) from error
            code = "full" if name.startswith("SQLITE_FULL") else "storage"
            raise Problem(code, f"{error}: {self.where}", retry_after=5) from error
