"""CPU time of a release from a file, by the default method, against reading the file alone.

Settings: `rows`, `epsilon` (text), `repetitions`, and `defaults`: tables with `label`, `d`, `bandwidth`, `reach` (of
the bounds), and `delta` and `kernel` where they have them. All threads are counted.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.timing import least_cpu_seconds
from sfumato import PrivateKDE
from sfumato.sources import open_source

SEED = 1
COLUMNS = {"method": "method", "read": "reading CPU s", "cpu_seconds": "release CPU s", "over_reading": "/ reading"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"label": table["label"]} for table in settings["defaults"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = next(table for table in settings["defaults"] if table["label"] == unit["label"])
    rows, reach = settings["rows"], table["reach"]
    points = np.random.default_rng(SEED).normal(0, reach / 4, size=(rows, table["d"])).clip(-reach, reach)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the seed
        path = Path(folder) / "points.parquet"
        columns = {f"x{place}": column for place, column in enumerate(points.astype(np.float32).T)}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        model = PrivateKDE(
            table.get("kernel", "gaussian"),
            bandwidth=table["bandwidth"],
            epsilon=settings["epsilon"],
            delta=float(table.get("delta", 0.0)),
            bounds=(-reach, reach),
            n_hint=rows,
            feature_seed=SEED,
            random_state=SEED,
        ).fit(points[:1000])

        def read() -> float:
            # A number is read when it is looked at.
            return sum(float(batch.sum(dtype=np.float64)) for batch in open_source(path).batches())

        seconds = least_cpu_seconds({"read": read, "release": lambda: model.fit(path)}, settings["repetitions"])
    values = {"method": model.release_.method, "read": seconds["read"], "cpu_seconds": seconds["release"]}
    values["over_reading"] = seconds["release"] / seconds["read"]
    yield Measurement(unit["label"], values, {"set": "normal, parquet", "n": rows, "d": table["d"]}, [SEED])
