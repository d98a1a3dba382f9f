"""Spark as a cluster: copies of slow tasks, an executor that is killed in mid-job, a driver that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato import Ledger
from tests.engines.missing import needs_spark
from tests.engines.workers import GROUPS, ROWS, begun, environment, run_apart

pytestmark = needs_spark


def test_an_executor_that_is_killed_is_replaced_and_counts_once(tmp_path: Path) -> None:
    found = run_apart("on_cluster", tmp_path)
    assert found["executors"] == 2 and found["equal"] and found["killed"] == 1
    assert found["attempts"] == ["attempt-0", "attempt-1"]  # speculation ran a task twice, and it counted once
    assert found["kept"] == found["seen"] == found["groups"] == ROWS and found["count"] == ROWS - 2
    assert found["values"] == [ROWS // GROUPS] * GROUPS
    assert found["p"] > 1e-6  # chi-square of the coins: false alarms one in a million


def test_a_driver_that_is_killed_has_spent_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.engines.killed_driver", str(tmp_path)]
    driver = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert begun(tmp_path)
        assert any((tmp_path / "spark").iterdir())
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == -signal.SIGKILL
    assert not Ledger(tmp_path / "ledger").account("points").charges
    assert not (tmp_path / "out.sfm").exists()
    until = time.monotonic() + 120  # Spark sees that its driver is gone, ends its workers and cleans up
    while time.monotonic() < until and (_alive(tmp_path) or any((tmp_path / "spark").iterdir())):
        time.sleep(0.2)
    assert not _alive(tmp_path) and not list((tmp_path / "spark").iterdir())


def _alive(folder: Path) -> list[str]:
    """Processes that said they had begun, and are still there."""
    return [each.name for each in folder.glob("begun-*") if Path("/proc", each.name.partition("-")[2]).exists()]


if sys.platform != "linux":  # pragma: no cover
    pytestmark = [needs_spark, pytest.mark.skip(reason="looks for processes in /proc")]
