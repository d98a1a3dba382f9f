"""Sums on Spark: files as paths that its workers read, DataFrames where they are.

Files: a job of many tasks, each with so many shards that it pays; Spark moves no row, its Python workers read them.
DataFrames: the rows come to Python as Arrow batches (`mapInArrow`). The DataFrame API alone is used, so that Spark
Connect works too.

Every task gives one row: its number, how many rows it kept and saw, and its sums. The driver adds these up; no
accumulators, which count a repeated task twice, and no shuffle of anything that a coin has touched, which could mix two
attempts at a task. Users come together by the hash of their keys before the first coin is drawn. Spark repartitioned
retried stages wrongly until 4.1.0 (SPARK-51756), hence pyspark >= 4.1.

What the driver holds does not grow with the rows or with the tasks: a job has so many tasks that their results take
64 MB at most, two jobs run at a time, and a DataFrame's partitions are coalesced to as many.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.deferred import pyarrow as pa
from sfumato.deferred import require
from sfumato.engines.packing import packed, unpacked
from sfumato.engines.shipping import Partial, Shipping, Work, dealt, is_limited
from sfumato.errors import EngineError, InputError
from sfumato.sources.base import Rows
from sfumato.sources.keys import share_secret
from sfumato.sources.remote import Files, Frame, Remote, Shard
from sfumato.threads import spread

OLDEST = (4, 1)
RESULT = "task long, kept long, seen long, sums binary"
PACKED = "key long, other long, weight double, row binary"
MOST_TASKS = 256  # of one job
RESULT_BYTES = 1 << 26  # of one job, in the driver
JOBS = 2  # at a time, so that workers have something to do while one ends

Batches = Iterator[pa.RecordBatch]


class SparkEngine(Shipping):
    """Sums on a Spark cluster, or on Spark in this machine.

    Parameters
    ----------
    session : pyspark.sql.SparkSession, optional
        Classic or Connect. By default the one that the DataFrame belongs to, the one that is active, or a new one.

    Examples
    --------
    >>> SparkEngine()
    SparkEngine()
    """

    name, takes = "spark", "files that every worker can open, and Spark DataFrames"

    def __init__(self, session: Any = None) -> None:
        self._given = session

    def __repr__(self) -> str:
        return "SparkEngine()" if self._given is None else f"SparkEngine({self._given!r})"

    @classmethod
    def start(cls, master: str | None = None, **settings: str) -> SparkEngine:
        """Start Spark, or join the session that runs already.

        Parameters
        ----------
        master : str, optional
            Such as ``"local[4]"`` or ``"spark://host:7077"``; what Spark's configuration says by default.
        **settings
            More of Spark's configuration, by its names.
        """
        with _explained():
            from pyspark.sql import SparkSession

            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # in local mode nothing else chooses the workers'
            # Its pages and what it spills show points and their number.
            chosen = {"spark.ui.enabled": "false", "spark.io.encryption.enabled": "true", **settings}
            if master is not None:
                chosen["spark.master"] = master
            if master is not None and master.startswith("local"):
                chosen = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **chosen}
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = SparkSession.builder.appName("sfumato")
            for name, value in chosen.items():
                builder = builder.config(name, value)
            return cls(builder.getOrCreate())

    @cached_property
    def session(self) -> Any:
        """The session; the first use finds or starts one."""
        if self._given is not None:
            return self._given
        with _explained():
            from pyspark.sql import SparkSession

            return SparkSession.getActiveSession() or self.start().session

    def run(self, read: Remote, work: Work, take: Callable[[Partial], None]) -> None:
        """Run all tasks; see `Shipping.run`."""
        if isinstance(read, Frame):
            session, jobs = read.frame.sparkSession, [read.frame]
        else:
            assert isinstance(read, Files)
            session = self.session
            most = most_tasks(work.encoder.size)
            hands = work.hands(read.shards())
            jobs = [hands] if is_limited(read.steps) else dealt(hands, -(-len(hands) // most))
        _check_version(session)

        def take_all(results: list[Partial]) -> None:
            for partial in results:
                take(partial)

        spread(jobs, lambda job: _results(self._planned(session, read, work, job)), take_all, JOBS)

    def _planned(self, session: Any, read: Remote, work: Work, job: Any) -> Any:
        """Plan one job: a DataFrame of one row for each task."""
        most = most_tasks(work.encoder.size)
        if isinstance(read, Frame):
            layout = read.layout
            rows, rows_of = job, lambda batches: layout.pieces(batches, work.batch)
        else:
            rows, rows_of = session.range(0, len(job), 1, max(1, min(len(job), most))), _reader(job, work)
        if is_limited(read.steps):
            secret, tasks = os.urandom(32), int(session.conf.get("spark.sql.shuffle.partitions"))
            by_user = rows.mapInArrow(_packing(rows_of, secret), PACKED).repartition(min(tasks, most), "key")
            return by_user.mapInArrow(_summing(lambda batches: unpacked(batches, work.dimension), work), RESULT)
        return rows.coalesce(most).mapInArrow(_summing(rows_of, work), RESULT)


def most_tasks(size: int) -> int:
    """Tasks of one job whose results of `size` sums the driver can hold.

    Examples
    --------
    >>> most_tasks(4000), most_tasks(10**6)
    (256, 8)
    """
    return max(1, min(MOST_TASKS, RESULT_BYTES // (8 * size + 64)))


def _reader(hands: Sequence[Sequence[Shard]], work: Work) -> Callable[[Batches], Iterator[Rows]]:
    """Return what reads the shards of a task, which is told their place in the list."""

    def rows_of(batches: Batches) -> Iterator[Rows]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from work.read(hands[place])

    return rows_of


def _packing(rows_of: Callable[[Batches], Iterator[Rows]], secret: bytes) -> Callable[[Batches], Batches]:
    """Return the map before the shuffle: rows with the keys of their users, and no coin."""

    def pack(batches: Batches) -> Batches:
        share_secret(secret)
        return packed(rows_of(batches))

    return pack


def _summing(rows_of: Callable[[Batches], Iterator[Rows]], work: Work) -> Callable[[Batches], Batches]:
    """Return a task: all its rows become one."""

    def task(batches: Batches) -> Batches:
        from pyspark import TaskContext

        partial, context = work.sum(rows_of(batches)), TaskContext.get()
        if not gc.get_freeze_count():  # PySpark looks for garbage after every task: not in what is loaded for good
            gc.freeze()
        number = -1 if context is None else context.partitionId()
        row = {
            "task": pa.array([number], pa.int64()),
            "kept": pa.array([partial.kept], pa.int64()),
            "seen": pa.array([partial.seen], pa.int64()),
            "sums": pa.array([partial.sums.tobytes()], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(row)

    return task


def _results(planned: Any) -> list[Partial]:
    """Run a job, and check that every task answered once."""
    with _explained():
        rows = planned.toArrow().to_pylist()
    if len({row["task"] for row in rows}) < len(rows):
        raise EngineError("Spark gave the result of one task twice, so that records would count twice: nothing is used")
    return [Partial(np.frombuffer(row["sums"], dtype=np.int64), row["kept"], row["seen"]) for row in rows]


def _check_version(session: Any) -> None:
    numbers = re.findall(r"\d+", session.version)
    if tuple(map(int, numbers[:2])) < OLDEST:
        raise InputError(
            f"Spark {session.version} may repeat a stage with other rows than the first time (SPARK-51756): use "
            "Spark 4.1 or newer"
        )


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what Spark raises into an error of ours."""
    require("spark")
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        own = [line for line in lines if line.startswith("sfumato.errors.")]
        told = own[-1].partition(": ")[2] if own else lines[0] if lines else type(error).__name__
        raise EngineError(f"Spark could not finish the sum: {told[:500]}") from error
    except ConnectionError as error:  # the process that drives Spark is gone
        raise EngineError(f"Spark is gone ({error}); start another session") from error
