"""Core-seconds of sums on Spark, over files and over a DataFrame, in processes and on threads; and what a start costs.

Settings: `encoders`: `label`, `repetitions`, `rows`, `d`, `row_group`, `bandwidth` and, for an encoder of which a
record touches every feature, `features`; `n_hint` where the default encoder is that of another number of rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from benchmarks.kinds.memory import MEGABYTE, write_parquet
from sfumato import PrivateKDE
from sfumato.engines import Threads
from sfumato.engines.base import Engine, Summand
from sfumato.engines.processes import Processes
from sfumato.engines.spark import SparkEngine
from sfumato.kernels import Gaussian
from sfumato.methods.registry import METHODS
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import FourierQuantizer
from sfumato.sources import Source, open_source

COLUMNS = {
    "core_seconds": "core-seconds",
    "ratio": "over threads",
    "rows_per_core_second": "rows per core-second",
    "first_core_seconds": "first sum, core-seconds",
    "start_core_seconds": "start, core-seconds",
    "ratio_with_start": "start and first sum, over threads' first",
    "driver_mb": "driver's peak over before, MB",
    "cold_seconds": "cold start, seconds",
}


@dataclass(frozen=True)
class Cost:
    """Least core-seconds of later sums, those of the first, and how much memory this process took in that."""

    warm: float
    first: float
    grown: int


def units(settings: Settings) -> Sequence[Unit]:
    return [{"encoder": encoder["label"]} for encoder in settings["encoders"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    if shutil.which("java") is None:
        raise Skipped("this machine has no Java")
    asked = next(encoder for encoder in settings["encoders"] if encoder["label"] == unit["encoder"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.parquet"
        write_parquet(path, asked["rows"], asked["d"], asked["row_group"])
        small = Path(folder) / "small.parquet"
        write_parquet(small, 1000, asked["d"], 1000)
        encoder, source = _encoder(asked), open_source(path)
        start, cores = time.perf_counter(), _times()
        spark = SparkEngine.start("local[2]", **{"spark.ui.showConsoleProgress": "false", "spark.local.dir": folder})
        spark.sum(open_source(small), encoder, SecureBits())
        cold, started = time.perf_counter() - start, _times() - cores
        frame = open_source(spark.session.read.parquet(str(path)))
        engines: dict[str, tuple[Engine, Source]] = {
            "files on Spark": (spark, source),  # first: memory that others gave back would hide what it takes
            "DataFrame": (spark, frame),
            "threads": (Threads(), source),
            "processes": (Processes(), source),
        }
        costs = {name: _cost(engine, rows, encoder, asked["repetitions"]) for name, (engine, rows) in engines.items()}
        spark.session.stop()
    base = costs["threads"]
    for name, cost in costs.items():
        start_up = started if engines[name][0] is spark else 0.0
        values = {
            "core_seconds": cost.warm,
            "ratio": cost.warm / base.warm,
            "rows_per_core_second": asked["rows"] / cost.warm,
            "first_core_seconds": cost.first,
            "start_core_seconds": start_up,
            "ratio_with_start": (start_up + cost.first) / base.first,
            "driver_mb": cost.grown / MEGABYTE,
        }
        if name == "files on Spark":
            values["cold_seconds"] = cold
        data = {"set": "normal, float32 parquet", "n": asked["rows"], "d": asked["d"]}
        yield Measurement(label=f"{asked['label']}, {name}", values=values, data=data)


def _encoder(asked: Settings) -> Summand:
    if "features" in asked:
        kernel = Gaussian(asked["bandwidth"])
        return FourierQuantizer.draw(kernel, asked["d"], asked["features"], 1, layout="pair")
    model = PrivateKDE(
        bandwidth=asked["bandwidth"], epsilon=1, n_hint=asked.get("n_hint", asked["rows"]), feature_seed=1
    )
    return METHODS.build("fourier", model.request(asked["d"])).encoder


def _cost(engine: Engine, rows: Source, encoder: Summand, repetitions: int) -> Cost:
    def run() -> float:
        return _core_seconds(lambda: engine.sum(rows, encoder, SecureBits()))

    with _watched() as grown:
        first = run()
    return Cost(min(run() for _ in range(repetitions)), first, grown())


@contextmanager
def _watched() -> Iterator[Callable[[], int]]:
    """Look at the memory of this process twenty times a second, and tell its peak over the beginning."""
    process, done = psutil.Process(), threading.Event()
    seen = [process.memory_info().rss]

    def watch() -> None:
        while not done.wait(0.05):
            seen.append(process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: max(seen) - seen[0]
    finally:
        done.set()
        thread.join()
        seen.append(process.memory_info().rss)


def _core_seconds(action: Callable[[], Any]) -> float:
    """User and system time of this process and of all below it, those that ended meanwhile included."""
    before = _times()
    action()
    return _times() - before


def _times() -> float:
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
            total += spent.user + spent.system + spent.children_user + spent.children_system
        except psutil.Error:
            continue
    return total
