"""Peak memory of `sfumato release` on a parquet file, over that of the imported library, each in its own process.

Settings: `rows`, `columns`, `row_group`, `arguments` (of `sfumato release`, beyond the file, the output and the row
count).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato.cli  # noqa: F401 - what the child process runs is what is measured
from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from benchmarks.peak import STATUS
from sfumato.methods.request import COUNT_SHARE

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000
COLUMNS = {
    "file_mb": "file MB",
    "import_mb": "bare import MB",
    "peak_mb": "peak MB",
    "over_import_mb": "over the import MB",
    "wall": "seconds",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    if not STATUS.exists():
        raise Skipped(f"this system has no {STATUS}")
    with tempfile.TemporaryDirectory() as folder:
        data, release = Path(folder) / "points.parquet", Path(folder) / "points.sfm"
        write_parquet(data, settings["rows"], settings["columns"], settings["row_group"])
        imported, _ = peak_of()
        start = time.perf_counter()
        peak, complaints = peak_of(
            "release",
            str(data),
            "-o",
            str(release),
            "--n-hint",
            str(settings["rows"]),
            "--no-ledger",
            *settings["arguments"],
        )
        wall = time.perf_counter() - start
        if not release.exists():
            raise AssertionError(f"sfumato release wrote nothing: {complaints}")
        size = data.stat().st_size
    megabytes = {"file_mb": size, "import_mb": imported, "peak_mb": peak, "over_import_mb": peak - imported}
    yield Measurement(
        label=f"sfumato release {' '.join(settings['arguments'])}",
        values={name: value / MEGABYTE for name, value in megabytes.items()} | {"wall": wall},
        data={"set": "normal, float32 parquet", "n": settings["rows"], "d": settings["columns"]},
        neighbours="add-remove",
        count_share=str(COUNT_SHARE),
    )


def peak_of(*command: str) -> tuple[int, str]:
    """Peak bytes of a command in a fresh process, and what it wrote to standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"sfumato {' '.join(command)} failed: {done.stderr}")
    return int(done.stdout.split()[-1]), done.stderr


def write_parquet(path: Path, rows: int, columns: int, row_group: int) -> None:
    """Write normal points a row group at a time."""
    random = np.random.default_rng(1)
    schema = pa.schema([(f"x{column}", pa.float32()) for column in range(columns)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, row_group):
            block = random.standard_normal((columns, min(row_group, rows - start)), dtype=np.float32)
            writer.write_table(pa.table(list(block), schema=schema), row_group_size=row_group)
