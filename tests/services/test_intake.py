"""Frames as they come in: each is read, foreign and short ones are told apart, and copies are kept once."""

from __future__ import annotations

from pathlib import Path

from sfumato.local import Protocol
from sfumato.services.intake import ReportIntake
from sfumato.services.limits import Limits
from sfumato.services.store import open_store
from sfumato.services.wire import Fate


def test_reports_are_told_apart_and_kept_once(tmp_path: Path, local_protocol: Protocol) -> None:
    store = open_store(tmp_path / "store", None, "reports")
    intake = ReportIntake(store, local_protocol, None, lambda: False, Limits())
    report = local_protocol.client().report([0.5, 0.5])
    foreign = bytes([report[0] ^ 1]) + report[1:]
    assert intake.settle([report, foreign, report[:-1]]) == [Fate.HELD, Fate.FOREIGN, Fate.LENGTH]
    assert intake.settle([report, report]) == [Fate.HELD, Fate.HELD]
