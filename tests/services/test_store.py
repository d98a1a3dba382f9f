"""Both storages, by the same tests: identities once, tokens once, stages once, and nothing half done."""

from __future__ import annotations

import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sfumato.errors import InputError, StorageError
from sfumato.services.sqlite import SQLiteStore
from sfumato.services.store import CLOSED, FORGOTTEN, OPEN, Item, Store
from sfumato.services.wire import Fate, Problem
from tests.services.postgres_for_tests import Postgres

HELD, CONFLICT, SPENT, OVER = Fate.HELD, Fate.CONFLICT, Fate.SPENT, Fate.CLOSED
Opening = Callable[[str], Store]


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path, database: Postgres | None) -> Iterator[Opening]:
    """Return what opens the storage of a name, as often as one likes."""
    if request.param == "postgres" and database is None:
        pytest.skip("PostgreSQL is not installed")
    salt, stores = os.urandom(4).hex(), []

    def opened(name: str) -> Store:
        if request.param == "sqlite":
            stores.append(SQLiteStore(tmp_path / f"{name}.db", name))
        else:
            from sfumato.services.postgres import PostgresStore

            assert database is not None
            stores.append(PostgresStore(database.address, salt + name))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def test_an_identity_is_kept_once(opening: Opening) -> None:
    store = opening("a")
    assert store.add([Item(b"1", b"x"), Item(b"2", b"y")]) == [HELD, HELD]
    assert store.add([Item(b"1", b"x"), Item(b"2", b"z"), Item(b"3", b"z")]) == [HELD, CONFLICT, HELD]
    assert store.add([Item(b"4", b"x"), Item(b"4", b"y"), Item(b"4", b"x")]) == [HELD, CONFLICT, HELD]
    assert store.count() == 4
    assert store.refused() == {"conflict": 2}
    assert [row[:2] for rows in store.blocks(2) for row in rows] == [
        (b"1", b"x"),
        (b"2", b"y"),
        (b"3", b"z"),
        (b"4", b"x"),
    ]


def test_a_token_admits_one(opening: Opening) -> None:
    store = opening("a")
    one, again = Item(b"1", b"x", b"", b"t"), Item(b"2", b"y", b"", b"t")
    assert store.add([one, again]) == [HELD, SPENT]
    assert store.add([again, one, one._replace(nonce=b"u")]) == [SPENT, HELD, HELD]  # a retry spends nothing more
    assert store.add([Item(b"3", b"z", b"", b"u")]) == [HELD]
    assert store.count() == 2


def test_a_token_admits_to_one_group(opening: Opening) -> None:
    """Groups count apart, and share the tokens; what is spent stays so until the last of them is forgotten."""
    store = opening("a")
    first, second = store.group(0), store.group(1)
    one, again = Item(b"1", b"x", b"", b"t"), Item(b"2", b"y", b"", b"t")
    assert first.add([one]) == [HELD]
    assert second.add([one, again, Item(b"1", b"z", b"", b"u")]) == [SPENT, SPENT, HELD]
    assert (first.count(), second.count()) == (1, 1)
    assert (first.refused(), second.refused()) == ({}, {"spent": 2})
    assert [row[:2] for rows in second.blocks(9) for row in rows] == [(b"1", b"z")]
    assert first.advance(OPEN, FORGOTTEN) and second.stage == OPEN and store.stages() == {OPEN, FORGOTTEN}
    assert not first.forget() and first.count() == 0 and second.count() == 1
    assert second.add([again]) == [SPENT]
    assert second.advance(OPEN, FORGOTTEN) and second.forget() and first.forget()
    with store.transaction() as now:
        assert now.run("SELECT * FROM spent") == [] == now.run("SELECT * FROM items")


def test_groups_on_several_servers_at_once(opening: Opening) -> None:
    """Every token comes to every group of every server at the same time: it admits one."""
    groups = [opening("a").group(place) for _ in range(2) for place in range(3)]
    fates: list[list[Fate]] = [[] for _ in groups]
    start = threading.Barrier(len(groups))

    def write(place: int) -> None:
        start.wait()
        for number in range(20):
            name = number.to_bytes(2)
            fates[place] += groups[place].add([Item(bytes([place]) + name, b"", b"", name)])

    threads = [threading.Thread(target=write, args=(place,)) for place in range(len(groups))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sum(found[number] is HELD for found in fates) for number in range(20)] == [1] * 20
    assert sum(group.count() for group in groups[:3]) == 20


def test_it_is_all_there_after_opening_again(opening: Opening) -> None:
    opening("a").add([Item(b"1", b"x", b"content", b"t")])
    store = opening("a")
    assert store.add([Item(b"2", b"y", b"", b"t")]) == [SPENT]
    assert [tuple(row) for rows in store.blocks(9) for row in rows] == [(b"1", b"x", b"content")]


def test_a_stage_is_left_once(opening: Opening) -> None:
    first, second = opening("a"), opening("a")
    first.add([Item(b"1", b"x")])
    left = []
    threads = [
        threading.Thread(target=lambda store=store: left.append(store.advance(OPEN, CLOSED)))
        for store in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(left) == [False, True]
    assert second.add([Item(b"1", b"x"), Item(b"2", b"y")]) == [HELD, OVER]
    assert second.count() == 1


def test_concurrent_writers_count_each_once(opening: Opening) -> None:
    """Several servers write the same items, and others under the same tokens, at once."""
    stores = [opening("a") for _ in range(3)]
    fates: list[list[Fate]] = [[] for _ in stores]

    def write(place: int) -> None:
        for number in range(30):
            name = number.to_bytes(2)
            items = [
                Item(b"r" + name, b"same", b"", b"r" + name),
                Item(bytes([place]) + name, b"", b"", b"shared" + name),
            ]
            fates[place] += stores[place].add(items)

    threads = [threading.Thread(target=write, args=(place,)) for place in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[::2] == [HELD] * 30 for found in fates)
    admitted = [sum(found[2 * number + 1] is HELD for found in fates) for number in range(30)]
    assert admitted == [1] * 30
    assert stores[0].count() == 60


def test_another_collection_is_refused(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "a.db", "one").close()
    with pytest.raises(InputError, match="another collection"):
        SQLiteStore(tmp_path / "a.db", "other")


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "a.db", "one").close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")
    with pytest.raises(InputError, match="newer version"):
        SQLiteStore(tmp_path / "a.db", "one")


def test_order_of_arrival_is_not_kept(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db", "one")
    store.add([Item(b"2", b""), Item(b"1", b"")])
    with pytest.raises(sqlite3.OperationalError, match="rowid"):
        sqlite3.connect(tmp_path / "a.db").execute("SELECT rowid FROM items")
    store.close()
    assert oct((tmp_path / "a.db").stat().st_mode & 0o777) == "0o600"


def test_a_full_disk_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """In a child whose files may not grow: refused, nothing half kept, and it goes on when there is room."""
    child = os.fork()
    if not child:
        code = 1
        try:
            store = SQLiteStore(tmp_path / "a.db", "one")
            store.add([Item(b"first", b"x")])
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
            import signal

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            try:
                store.add([Item(bytes([number]), b"", bytes(10_000)) for number in range(200)])
            except Problem as problem:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                kept = store.count() == 1 and store.add([Item(b"more", b"")]) == [HELD]
                code = 0 if kept and problem.code in ("full", "storage") else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_database_that_was_away(database: Postgres | None) -> None:
    """Acknowledged before a crash means there afterwards; while it is away nothing is acknowledged."""
    if database is None:
        pytest.skip("PostgreSQL is not installed")
    from sfumato.services.postgres import PostgresStore

    store = PostgresStore(database.address, os.urandom(8).hex())
    store.add([Item(b"1", b"x")])
    database.stop()
    with pytest.raises(Problem) as caught:
        store.add([Item(b"2", b"y")])
    assert caught.value.code == "storage" and caught.value.retry_after
    database.start()
    assert store.add([Item(b"1", b"x"), Item(b"2", b"y")]) == [HELD, HELD]
    assert store.count() == 2
    store.close()


def test_what_is_no_bytes_any_more_is_told_while_it_is_open(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db", "a")
    item = Item(b"1", b"x", b"", b"t")
    store.add([item])
    for column in ("items SET digest", "spent SET nonce"):
        with store.transaction() as now:
            now.run(f"UPDATE {column} = CAST(x'ff' AS TEXT)")
    for one in (item, item._replace(nonce=b"")):
        with pytest.raises(StorageError, match="is damaged .an item is no bytes"):
            store.add([one])
    store.close()


def test_a_storage_that_is_refused_is_let_go_of(tmp_path: Path) -> None:
    made: list[sqlite3.Connection] = []

    class Seen(SQLiteStore):
        def _connect(self) -> sqlite3.Connection:
            made.append(super()._connect())
            return made[-1]

    store = SQLiteStore(tmp_path / "damaged.db", "a")
    store.add([Item(number.to_bytes(8), b"x" * 500) for number in range(100)])
    store.close()
    content = (tmp_path / "damaged.db").read_bytes()
    (tmp_path / "damaged.db").write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))
    for name in ("damaged.db", "empty.db"):
        with pytest.raises(StorageError, match="is damaged"):
            Seen(tmp_path / name, "a", known=True)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            made.pop().execute("SELECT 1")


def test_a_file_that_is_damaged_before_or_after_it_is_opened_is_told(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db", "a")
    store.add([Item(number.to_bytes(8), b"x" * 500) for number in range(1000)])
    store.close()
    store = SQLiteStore(tmp_path / "a.db", "a")
    content = bytearray((tmp_path / "a.db").read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    (tmp_path / "a.db").write_bytes(content)
    for use in (lambda: list(store.blocks(100)), lambda: SQLiteStore(tmp_path / "a.db", "a")):
        with pytest.raises(StorageError, match="is damaged"):
            use()
    store.close()
