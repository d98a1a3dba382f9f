"""Core-seconds of sums on Spark, over files and over a DataFrame, and on threads; and what a start costs.

Settings: `encoders`: `label`, `repetitions`, `rows`, `d`, `row_group`, `bandwidth` and, for an encoder of which a
record touches every feature, `features`; `n_hint` where the default encoder is that of another number of rows.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

import psutil

from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from benchmarks.kinds.memory import MEGABYTE, write_parquet
from sfumato import PrivateKDE
from sfumato.engines import Threads
from sfumato.engines.base import Engine, Summand
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
    """Least core-seconds of a sum, those of the first, and how much memory this process took in that."""

    least: float
    first: float
    grown: int


class Meter:
    """Processor time of this process and all below it, looked at every second, for some end meanwhile; peak memory."""

    def __init__(self) -> None:
        self._spent: dict[tuple[int, float], float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.core_seconds, self._memory = 0.0, [psutil.Process().memory_info().rss]

    @property
    def grown(self) -> int:
        """By how much the memory of this process was above the beginning at most."""
        return max(self._memory) - self._memory[0]

    def __enter__(self) -> Self:
        self.core_seconds = -sum(self._look().values())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.core_seconds += sum(self._look().values())

    def _watch(self) -> None:
        for number in count(1):
            if self._done.wait(0.05):
                break
            self._memory.append(psutil.Process().memory_info().rss)
            if number % 20 == 0:  # to look through all processes takes milliseconds
                self._look()

    def _look(self) -> dict[tuple[int, float], float]:
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._spent[process.pid, process.create_time()] = times.user + times.system
        return self._spent


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
        start = time.perf_counter()
        with Meter() as starting:
            spark = SparkEngine.start(
                "local[2]", **{"spark.ui.showConsoleProgress": "false", "spark.local.dir": folder}
            )
            spark.sum(open_source(small), encoder, SecureBits())
        cold, started = time.perf_counter() - start, starting.core_seconds
        frame = open_source(spark.session.read.parquet(str(path)))
        engines: dict[str, tuple[Engine, Source]] = {
            "files on Spark": (spark, source),  # first: memory that others gave back would hide what it takes
            "DataFrame": (spark, frame),
            "threads": (Threads(), source),
        }
        costs = _costs(engines, encoder, asked["repetitions"])
        spark.session.stop()
    base = costs["threads"]
    for name, cost in costs.items():
        start_up = started if engines[name][0] is spark else 0.0
        values = {
            "core_seconds": cost.least,
            "ratio": cost.least / base.least,
            "rows_per_core_second": asked["rows"] / cost.least,
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


def _costs(engines: dict[str, tuple[Engine, Source]], encoder: Summand, repetitions: int) -> dict[str, Cost]:
    """Sum once and so often again, the engines in turn: what else the machine does then slows none of them alone."""
    meters: dict[str, list[Meter]] = {name: [] for name in engines}
    for _ in range(1 + repetitions):
        for name, (engine, rows) in engines.items():
            with Meter() as meter:
                engine.sum(rows, encoder, SecureBits())
            meters[name].append(meter)
    return {
        name: Cost(min(meter.core_seconds for meter in own), own[0].core_seconds, own[0].grown)
        for name, own in meters.items()
    }
