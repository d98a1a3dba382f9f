"""Frames as they come in: each is read, foreign and short ones are told apart, and copies are kept once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sfumato.errors import SfumatoError, StorageError
from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.intake import ReportIntake, SubmissionIntake
from sfumato.services.limits import Limits
from sfumato.services.log import Log
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import Item, open_store
from sfumato.services.wire import Fate
from sfumato.shuffled import Protocol as Shuffled


def test_reports_are_told_apart_and_kept_once(tmp_path: Path, local_protocol: Protocol) -> None:
    store = open_store(tmp_path / "store", None, "reports")
    intake = ReportIntake(store, local_protocol, None, lambda: False, Limits())
    report = local_protocol.client().report([0.5, 0.5])
    foreign = bytes([report[0] ^ 1]) + report[1:]
    assert intake.settle([report, foreign, report[:-1]]) == [Fate.HELD, Fate.FOREIGN, Fate.LENGTH]
    assert intake.settle([report, report]) == [Fate.HELD, Fate.HELD]


def test_what_was_damaged_in_the_storage_is_told(
    tmp_path: Path, local_signed: SignedProtocol, shuffled_protocol: Shuffled
) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed])
    (intake,) = role.intakes.values()
    intake.settle([Protocol.from_document(local_signed.document).client().report([0.5, 0.5]) for _ in range(3)])
    with intake.store.transaction() as now:
        now.run("UPDATE items SET digest = ? WHERE identity = (SELECT MIN(identity) FROM items)", (b"",))
    with pytest.raises(StorageError, match="was damaged in the storage"):
        role.release(local_signed.fingerprint)
    asyncio.run(role.close())
    store = open_store(tmp_path / "store", None, "submissions")
    taking = SubmissionIntake(store, shuffled_protocol, 0, None, lambda: False, Limits(), tmp_path / "key")
    item = taking._read(shuffled_protocol.client(max_delta=0.1).messages([0.5]).to_bytes())
    assert isinstance(item, Item) and taking.opened(item.identity, item.content)
    for content in (item.content[:-1] + bytes([item.content[-1] ^ 1]), b"", item.content[:3]):
        with pytest.raises(StorageError, match="was damaged in the storage"):
            taking.opened(item.identity, content)
    store.close()


def test_an_entry_of_the_log_that_was_damaged_is_told(tmp_path: Path) -> None:
    log = Log(open_store(tmp_path / "log", None, "log"), SigningKey.generate())
    log.add("opened", "a" * 64, "2027-01-31T00:00:00Z")
    for content in (b"{}", b"[" * 900, b"\xff", b"7"):
        with log.store.transaction() as now:
            now.run("UPDATE items SET content = ?", (content,))
        for use in (log.knows, lambda *what: log.add(*what, "2027-02-01T00:00:00Z")):
            with pytest.raises(SfumatoError):
                use("closed", "a" * 64)
    log.store.close()
