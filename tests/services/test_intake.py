"""Frames as they come in: each is read, foreign and short ones are told apart, and copies are kept once."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from sfumato.errors import StorageError
from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.intake import ReportIntake
from sfumato.services.limits import Limits
from sfumato.services.log import Log
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import CLOSED, FORGOTTEN, OPEN, Rows, open_store
from sfumato.services.wire import Fate, Problem
from sfumato.shuffled import Protocol as Shuffled
from tests.services.targets import NOWHERE, submissions


def test_reports_are_told_apart_and_kept_once(tmp_path: Path, local_protocol: Protocol) -> None:
    store = open_store(tmp_path / "store", None, "reports")
    intake = ReportIntake(store, local_protocol, None, lambda: False, Limits())
    report = local_protocol.client().report([0.5, 0.5])
    foreign = bytes([report[0] ^ 1]) + report[1:]
    assert intake.settle([report, foreign, report[:-1]]) == [Fate.HELD, Fate.FOREIGN, Fate.LENGTH]
    assert intake.settle([report, report]) == [Fate.HELD, Fate.HELD]


def altered(file: Path, statement: str) -> None:
    """Change what a storage holds, as a disk that loses or flips bits might."""
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE items SET digest = zeroblob(length(digest))", "not as it came"),
        ("UPDATE items SET digest = 'text'", "no bytes"),
        ("UPDATE items SET digest = CAST(x'ff' AS TEXT)", "no bytes"),
        ("UPDATE items SET identity = x'000000000000' WHERE identity = (SELECT min(identity) FROM items)", "not as it"),
        ("UPDATE items SET digest = zeroblob(99), content = x''", "not as it came"),
        ("DELETE FROM items WHERE identity = (SELECT max(identity) FROM items)", "4 items are there, and 5"),
        ("UPDATE facts SET value = '9' WHERE name = 'items'", "5 items are there, and 9"),
        ("UPDATE facts SET value = 'u' WHERE name = 'items'", "number 'items' is 'u'"),
        ("UPDATE facts SET name = 'rchema' WHERE name = 'schema'", "number 'schema' is lost"),
        ("UPDATE facts SET value = 'oqen' WHERE name = 'stage'", "stage is 'oqen'"),
        ("DELETE FROM facts WHERE name = 'stage'", "stage is None"),
    ],
)
def test_altered_reports_are_told(
    statement: str, said: str, tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol
) -> None:
    role = CollectorRole(tmp_path / "own", [local_signed])
    intake = role.intakes[local_signed.fingerprint, 0]
    report = local_protocol.client().report([0.5, 0.5])
    identities = [bytes([number + 1]) * 6 for number in range(5)]
    intake.settle([report[:4] + identity + b"\1" + report[11:] for identity in identities])
    assert intake.store.count() == 5
    asyncio.run(role.close())
    altered(tmp_path / "own" / f"{local_signed.fingerprint}-0" / "items.db", statement)
    with pytest.raises(StorageError, match=f"damaged .*{said}.*Restore the server's folder"):
        CollectorRole(tmp_path / "own", [local_signed])


@pytest.mark.parametrize("value", ["CAST(value AS BLOB)", "'u'", "'9' || value || printf('%05000d', 0)"])
def test_altered_counts_of_what_was_refused_are_told(
    value: str, tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol
) -> None:
    role = CollectorRole(tmp_path / "own", [local_signed])
    intake = role.intakes[local_signed.fingerprint, 0]
    intake.settle([local_protocol.client().report([0.5, 0.5]), b"short"])
    assert intake.store.refused() == {"length": 1}
    altered(
        tmp_path / "own" / f"{local_signed.fingerprint}-0" / "items.db",
        f"UPDATE facts SET value = {value} WHERE name = 'refused.length'",
    )
    with pytest.raises(StorageError, match=r"is damaged \(the number 'refused.length' is "):
        role.step(local_signed.fingerprint, 0)
    asyncio.run(role.close())


@pytest.mark.parametrize("column", ["content", "digest"])
def test_altered_submissions_are_told(
    column: str, tmp_path: Path, organiser: SigningKey, shuffled_protocol: Shuffled
) -> None:
    signed = SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler="00" * 32)
    role = ShufflerRole(tmp_path / "own", [signed], NOWHERE, Policy(10**6))
    intake = role.intakes[signed.fingerprint, 0]
    sent = submissions(shuffled_protocol, 3)
    assert intake.settle(sent) == [Fate.HELD] * 3
    assert sorted(one for block in intake.kept() for one in block) == sorted(one[32:] for one in sent)
    asyncio.run(role.close())
    file = tmp_path / "own" / f"{signed.fingerprint}-0" / "items.db"
    altered(file, f"UPDATE items SET {column} = zeroblob(length({column}))")
    with pytest.raises(StorageError, match="a submission is not as it came"):
        ShufflerRole(tmp_path / "own", [signed], NOWHERE, Policy(10**6))


def test_a_closed_group_whose_stage_is_lost_is_not_opened_again(
    tmp_path: Path, organiser: SigningKey, shuffled_protocol: Shuffled
) -> None:
    signed = SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler="00" * 32)
    role = ShufflerRole(tmp_path / "own", [signed], NOWHERE, Policy(10**6))
    assert role.intakes[signed.fingerprint, 0].store.advance(OPEN, CLOSED)
    asyncio.run(role.close())
    file = tmp_path / "own" / f"{signed.fingerprint}-0" / "items.db"
    altered(file, "UPDATE facts SET name = 'stagd' WHERE name = 'stage'")
    for _ in range(2):
        with pytest.raises(StorageError, match="the stage is None"):
            ShufflerRole(tmp_path / "own", [signed], NOWHERE, Policy(10**6))


@pytest.mark.parametrize("since", ["x1795034634.8", "nan", "1e999", ""])
def test_an_altered_time_of_a_group_is_told(
    since: str, tmp_path: Path, organiser: SigningKey, shuffled_protocol: Shuffled
) -> None:
    signed = SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler="00" * 32)
    role = ShufflerRole(tmp_path / "own", [signed], NOWHERE, Policy(seconds=1e9))
    role.intakes[signed.fingerprint, 0].store.claim("since", since)
    with pytest.raises(StorageError, match=f"is damaged .the time 'since' is '{since}'"):
        role.step(signed.fingerprint, 0)
    asyncio.run(role.close())


@pytest.mark.parametrize("use", ["everything", "nothing", "check"])
def test_what_another_server_forgets_in_time_is_no_damage(
    use: str,
    tmp_path: Path,
    organiser: SigningKey,
    shuffled_protocol: Shuffled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two shufflers on one database one is told that its batch is published while the other reads for one."""
    signed = SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler="00" * 32)
    role = ShufflerRole(tmp_path / "own", [signed], NOWHERE, Policy(10**6))
    intake = role.intakes[signed.fingerprint, 0]
    store, blocks = intake.store, intake.store.blocks
    intake.settle(submissions(shuffled_protocol, 3))

    def late(items: int) -> list[Rows]:
        rows = list(blocks(items))
        assert store.advance(OPEN, FORGOTTEN) and store.forget()
        return rows if use == "everything" else []

    monkeypatch.setattr(store, "blocks", late)
    if use == "everything":
        assert sum(map(len, intake.kept())) == 3
    elif use == "check":
        intake.check()
    else:
        with pytest.raises(Problem, match="deleted meanwhile"):
            list(intake.kept())
    asyncio.run(role.close())


@pytest.mark.parametrize("which", ["", "log"])
@pytest.mark.parametrize("left", [b"", b"garbage" * 1000, None])
def test_a_storage_that_is_gone_is_told(
    left: bytes | None, which: str, tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol
) -> None:
    """An empty one would be begun anew, and everybody's reports forgotten without a word; twice, as it is restarted."""
    role = CollectorRole(tmp_path / "own", [local_signed])
    role.intakes[local_signed.fingerprint, 0].settle([local_protocol.client().report([0.5, 0.5])])
    asyncio.run(role.close())
    file = tmp_path / "own" / (which or f"{local_signed.fingerprint}-0") / "items.db"
    file.write_bytes(left) if left is not None else file.unlink()
    for _ in range(2):
        with pytest.raises(StorageError, match="is damaged .*from a backup"):
            CollectorRole(tmp_path / "own", [local_signed])


def test_an_entry_of_the_log_that_was_damaged_is_told(tmp_path: Path) -> None:
    log = Log(open_store(tmp_path / "log", None, "log"), SigningKey.generate())
    log.add("opened", "a" * 64, "2027-01-31T00:00:00Z")
    for content in (b"{}", b"[" * 900, b"\xff", b"7"):
        with log.store.transaction() as now:
            now.run("UPDATE items SET content = ?", (content,))
        for use in (log.knows, lambda *what: log.add(*what, "2027-02-01T00:00:00Z")):
            with pytest.raises(StorageError, match="is damaged"):
                use("closed", "a" * 64)
    log.store.close()


def test_an_outage_while_the_log_is_read_is_no_damage_and_damage_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = open_store(tmp_path / "log", None, "log"), SigningKey.generate()
    Log(store, key).add("opened", "a" * 64, "2027-01-31T00:00:00Z")
    for content in ("'text'", "x'7b7d'"):
        with store.transaction() as now:
            now.run(f"UPDATE items SET content = {content}")
        with pytest.raises(StorageError, match="is damaged") as caught:
            Log(store, key)
        assert str(caught.value).count("is damaged") == 1

    def away() -> None:
        raise Problem("storage", "OperationalError", retry_after=5)

    monkeypatch.setattr(store, "transaction", away)
    with pytest.raises(Problem, match="does not answer"):
        Log(store, key)
    store.close()
