"""Core-seconds of sums on Spark, over files and over a DataFrame, in processes and on threads; and what a start costs.

Settings: `repetitions`, and `encoders`: `label`, `rows`, `d`, `row_group`, `bandwidth` and, for an encoder of which a
record touches every feature, `features`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
    "driver_mb": "driver grows by MB",
    "cold_seconds": "cold start, seconds",
}


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
        spark = SparkEngine.start("local[2]", **{"spark.ui.showConsoleProgress": "false", "spark.local.dir": folder})
        spark.sum(open_source(small), encoder, SecureBits())
        cold = time.perf_counter() - start
        frame = open_source(spark.session.read.parquet(str(path)))
        engines: dict[str, tuple[Engine, Source]] = {
            "threads": (Threads(), source),
            "processes": (Processes(), source),
            "files on Spark": (spark, source),
            "DataFrame": (spark, frame),
        }
        base = 0.0
        for name, (engine, rows) in engines.items():
            seconds, grown = _least(engine, rows, encoder, settings["repetitions"])
            base = base or seconds
            values = {
                "core_seconds": seconds,
                "ratio": seconds / base,
                "rows_per_core_second": asked["rows"] / seconds,
                "driver_mb": grown / MEGABYTE,
            }
            if name == "files on Spark":
                values["cold_seconds"] = cold
            data = {"set": "normal, float32 parquet", "n": asked["rows"], "d": asked["d"]}
            yield Measurement(label=f"{asked['label']}, {name}", values=values, data=data)
        spark.session.stop()


def _encoder(asked: Settings) -> Summand:
    if "features" in asked:
        kernel = Gaussian(asked["bandwidth"])
        return FourierQuantizer.draw(kernel, asked["d"], asked["features"], 1, layout="pair")
    model = PrivateKDE(bandwidth=asked["bandwidth"], epsilon=1, n_hint=asked["rows"], feature_seed=1)
    return METHODS.build("fourier", model.request(asked["d"])).encoder


def _least(engine: Engine, rows: Source, encoder: Summand, repetitions: int) -> tuple[float, int]:
    """Least core-seconds after a first run, and by how much the memory of this process grew in that."""
    before = psutil.Process().memory_info().rss
    _core_seconds(lambda: engine.sum(rows, encoder, SecureBits()))
    grown = psutil.Process().memory_info().rss - before
    found = [_core_seconds(lambda: engine.sum(rows, encoder, SecureBits())) for _ in range(repetitions)]
    return min(found), grown


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
