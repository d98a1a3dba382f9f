"""Memory follows the batch, not the number of rows."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from sfumato.sources import open_source

ROWS, DIMENSION = 200_000, 20


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = np.random.default_rng(4).standard_normal((DIMENSION, ROWS))
    return pa.table({f"x{j}": column for j, column in enumerate(rows)})


def write_npz(table: pa.Table, path: Path) -> None:
    np.savez_compressed(path, np.ascontiguousarray(table.to_pandas().to_numpy()))


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "small groups.parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=16384),
    "one group.parquet": lambda table, path: pa.parquet.write_table(table, path, use_dictionary=False),
    "rows.csv": pa.csv.write_csv,
    "rows.npy": lambda table, path: np.save(path, table.to_pandas().to_numpy()),
    "rows.npz": write_npz,
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_never_whole_in_memory(name: str, table: pa.Table, tmp_path: Path) -> None:
    WRITERS[name](table, tmp_path / name)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        rows, most = 0, 0
        for batch in open_source(tmp_path / name).batches(8192):
            rows += len(batch)
            most = max(most, pa.total_allocated_bytes() - before)
        most += tracemalloc.get_traced_memory()[1]
    finally:
        time.sleep(0.2)  # Arrow's threads give memory back, and the interpreter may crash if the trace ends meanwhile
        tracemalloc.stop()
    assert rows == ROWS
    assert most < (tmp_path / name).stat().st_size / 2


def test_a_frame_is_not_copied_whole(table: pa.Table) -> None:
    frame: pd.DataFrame = table.to_pandas()
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() - before for _ in open_source(frame).batches(8192))
    assert most < frame.memory_usage().sum() / 10
