"""What the tests of engines with workers send to them: in a module of its own, for workers import it by its name."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.base import Summand
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Integers

# Tests are short: what Java's second compiler takes to make code faster they never get back. Two threads collect
# no garbage faster than one.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
ROWS, PEOPLE, RECORDS, LIMIT = 8000, 2000, 4, 2
GROUPS = 10


def write_points(folder: Path) -> Path:
    """Points with users, weights and labels in eight row groups; some cells are no numbers, some users nobody."""
    random = np.random.default_rng(5)
    points = random.normal(size=(ROWS, 2))
    points[17, 0], points[18, 1] = np.nan, np.inf
    order = random.permutation(ROWS)
    user, record = order % PEOPLE, order // PEOPLE
    # One person's name is written in three ways, and blanks around it do not make another person of it.
    names = [f"{' ' * (place % 3)}u{person}" for place, person in enumerate(user.tolist())]
    table = pa.table(
        {
            "x": points[:, 0],
            "y": points[:, 1],
            "number": user.astype(float),
            "bit": 2.0**record,
            "person": names,
            "weight": np.full(ROWS, 0.25),
            "label": np.where(points[:, 0] > 0, "east", " west "),
        }
    )
    path = folder / "points.parquet"
    pq.write_table(table, path, row_group_size=ROWS // 8)
    return path


@dataclass(frozen=True)
class Subsets:
    """Of rows (user, 2^record): how many users kept which subset of their records."""

    size: int = 2**RECORDS

    def accumulate(self, rows: np.ndarray, sums: Integers, coins: SecureBits | None = None) -> int:
        people, place = np.unique(rows[:, 0], return_inverse=True)
        kept = np.bincount(place, rows[:, 1], len(people)).astype(int)
        sums += np.bincount(kept, minlength=self.size)
        return len(rows)


@dataclass(frozen=True)
class Groups:
    """How many rows fall into each group by coins, and how many there are by value."""

    size: int = 2 * GROUPS

    def accumulate(self, rows: np.ndarray, sums: Integers, coins: SecureBits | None = None) -> int:
        assert coins is not None
        sums[:GROUPS] += np.bincount(coins.below(GROUPS, len(rows)), minlength=GROUPS)
        sums[GROUPS:] += np.bincount(rows[:, 0].astype(int) % GROUPS, minlength=GROUPS)
        return len(rows)


@dataclass(frozen=True)
class Searched:
    """How many tasks ran in a process whose loaded modules are searched for garbage after each of them."""

    size: int = 1

    def accumulate(self, rows: np.ndarray, sums: Integers, coins: SecureBits | None = None) -> int:
        sums += gc.get_freeze_count() == 0
        return len(rows)


@dataclass(frozen=True)
class Failing:
    """Fails in the first attempt at some of Spark's tasks, after the work was done."""

    inner: Summand

    @property
    def size(self) -> int:
        return self.inner.size

    def accumulate(self, rows: np.ndarray, sums: Integers, coins: SecureBits | None = None) -> int:
        from pyspark import TaskContext

        kept = self.inner.accumulate(rows, sums, coins)
        context = TaskContext.get()
        if context.attemptNumber() == 0 and context.partitionId() % 3 == 0:
            raise OSError("a worker was lost after its work was done")
        return kept


@dataclass(frozen=True)
class Waiting:
    """Says in a folder that it has begun, and waits until it is let go."""

    inner: Summand
    folder: str
    seconds: float = 120.0

    @property
    def size(self) -> int:
        return self.inner.size

    def accumulate(self, rows: np.ndarray, sums: Integers, coins: SecureBits | None = None) -> int:
        folder = Path(self.folder)
        (folder / f"begun-{os.getpid()}").touch()
        until = time.monotonic() + self.seconds
        while not (folder / "go").exists() and time.monotonic() < until:
            time.sleep(0.05)
        return self.inner.accumulate(rows, sums, coins)


@dataclass(frozen=True)
class Outrun:
    """Holds up the first attempt at one of Spark's tasks until a copy of it has begun, and says which attempts ran."""

    inner: Summand
    folder: str

    @property
    def size(self) -> int:
        return self.inner.size

    def accumulate(self, rows: np.ndarray, sums: Integers, coins: SecureBits | None = None) -> int:
        from pyspark import TaskContext

        context, until = TaskContext.get(), time.monotonic() + 120
        kept = self.inner.accumulate(rows, sums, coins)
        if context.partitionId() == 0:
            (Path(self.folder) / f"attempt-{context.attemptNumber()}").touch()
            while context.attemptNumber() == 0 and time.monotonic() < until and len(attempts(self.folder)) < 2:
                time.sleep(0.05)
        return kept


def attempts(folder: str | Path) -> list[str]:
    """Attempts at the task that `Outrun` holds up."""
    return sorted(each.name for each in Path(folder).glob("attempt-*"))


def free_port() -> int:
    """Return a port of the loopback device that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def begun(folder: Path, seconds: float = 240.0) -> bool:
    """Wait for somebody to begin."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if any(folder.glob("begun-*")):
            return True
        time.sleep(0.05)
    return False


def run_apart(module: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run a module of these tests in a process of its own, and return what it found."""
    command = [sys.executable, "-W", "ignore", "-m", f"tests.engines.{module}", str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=800)
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert found, done.stdout[-2000:] + done.stderr[-6000:]
    return dict(json.loads(found[0].removeprefix("FOUND ")))


def environment() -> dict[str, str]:
    """Return the environment of a process that finds this module."""
    here = Path(__file__).parents[2]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here / "src")]), "SPARK_LOCAL_IP": "127.0.0.1"}


def start_local(folder: Path, master: str = "local[2,4]", **settings: str) -> Any:
    """Start Spark on the loopback device alone, with workers that find this module."""
    from sfumato.engines.spark import SparkEngine

    here = Path(__file__).parents[2]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here), str(here / "src"), os.environ.get("PYTHONPATH", "")])
    return SparkEngine.start(
        master,
        **{
            "spark.sql.shuffle.partitions": "3",
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
            "spark.executor.memory": "512m",
            **settings,
        },
    )
