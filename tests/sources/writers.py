"""The same rows in every form that can be opened."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import scipy.sparse

NAMES = ("x", "y", "z")


class FrameWithStream:
    """Stands for the frames of other libraries, of which only the Arrow protocol is known."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.table)


class ArrayLike:
    """Stands for the tensors of other libraries."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array


def table_of(rows: np.ndarray) -> pa.Table:
    return pa.table({name: rows[:, j] for j, name in enumerate(NAMES)})


def csv_text(rows: np.ndarray, delimiter: str = ",", header: bool = True) -> str:
    lines = [delimiter.join(NAMES)] if header else []
    return "\n".join(lines + [delimiter.join(map(repr, row)) for row in rows.tolist()]) + "\n"


def _path(folder: Path, name: str, write: Callable[[Path], object]) -> Path:
    write(folder / name)
    return folder / name


def _parquet_folder(folder: Path, rows: np.ndarray) -> Path:
    (folder / "parts" / "later").mkdir(parents=True)
    half = len(rows) // 2
    pa.parquet.write_table(table_of(rows[:half]), folder / "parts" / "a.parquet")
    # The second file has its columns in another order.
    pa.parquet.write_table(table_of(rows[half:]).select(["z", "x", "y"]), folder / "parts" / "later" / "b.parquet")
    (folder / "parts" / "_ignored.parquet").write_bytes(b"not a file of rows")
    return folder / "parts"


def _ipc_stream(path: Path, rows: np.ndarray) -> None:
    table = table_of(rows)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def _gzip(path: Path, text: str) -> None:
    with gzip.open(path, "wt") as stream:
        stream.write(text)


def _several(path: Path, rows: np.ndarray) -> str:
    np.savez(path, labels=np.zeros(3), points=rows)
    return f"{path}:points"


NAMED: dict[str, Callable[[Path, np.ndarray], Any]] = {
    "pandas": lambda folder, rows: pd.DataFrame(rows, columns=NAMES),
    "pandas backed by arrow": lambda folder, rows: pd.concat(
        [pd.DataFrame(half, columns=NAMES).convert_dtypes(dtype_backend="pyarrow") for half in np.array_split(rows, 2)]
    ),
    "frame with stream": lambda folder, rows: FrameWithStream(table_of(rows)),
    "table": lambda folder, rows: table_of(rows),
    "record batch": lambda folder, rows: table_of(rows).to_batches()[0],
    "reader": lambda folder, rows: table_of(rows).to_reader(max_chunksize=77),
    "data set": lambda folder, rows: pa.dataset.dataset(table_of(rows)),
    "csv": lambda folder, rows: _path(folder, "rows.csv", lambda path: path.write_text(csv_text(rows))),
    "csv with crlf": lambda folder, rows: _path(
        folder, "rows.CSV", lambda path: path.write_bytes(csv_text(rows).replace("\n", "\r\n").encode("utf-8-sig"))
    ),
    "csv quoted": lambda folder, rows: _path(
        folder,
        "rows.csv",
        lambda path: path.write_text(
            "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in csv_text(rows).splitlines())
        ),
    ),
    "csv gzipped": lambda folder, rows: _path(folder, "rows.csv.gz", lambda path: _gzip(path, csv_text(rows))),
    "tsv": lambda folder, rows: _path(folder, "rows.tsv", lambda path: path.write_text(csv_text(rows, "\t"))),
    "parquet": lambda folder, rows: _path(
        folder, "rows.parquet", lambda path: pa.parquet.write_table(table_of(rows), path, row_group_size=300)
    ),
    "parquet folder": _parquet_folder,
    "feather": lambda folder, rows: _path(
        folder, "rows.feather", lambda path: pa.feather.write_feather(table_of(rows), str(path), chunksize=300)
    ),
    "ipc stream": lambda folder, rows: _path(folder, "rows.arrow", lambda path: _ipc_stream(path, rows)),
    "iterator of frames": lambda folder, rows: (pd.DataFrame(part, columns=NAMES) for part in np.array_split(rows, 7)),
}

UNNAMED: dict[str, Callable[[Path, np.ndarray], Any]] = {
    "array": lambda folder, rows: rows,
    "array in column order": lambda folder, rows: np.asfortranarray(rows),
    "array of other byte order": lambda folder, rows: rows.astype(">f8"),
    "array-like": lambda folder, rows: ArrayLike(rows),
    "list": lambda folder, rows: rows.tolist(),
    "list of arrays": lambda folder, rows: list(rows),
    "sparse": lambda folder, rows: scipy.sparse.coo_array(rows),
    "npy": lambda folder, rows: _path(folder, "rows.npy", lambda path: np.save(path, rows)),
    "npy in column order": lambda folder, rows: str(
        _path(folder, "rows.npy", lambda path: np.save(path, np.asfortranarray(rows)))
    ),
    "npz": lambda folder, rows: _path(folder, "rows.npz", lambda path: np.savez(path, rows)),
    "npz compressed": lambda folder, rows: _path(folder, "rows.npz", lambda path: np.savez_compressed(path, rows)),
    "npz in column order": lambda folder, rows: _path(
        folder, "rows.npz", lambda path: np.savez(path, np.asfortranarray(rows))
    ),
    "npz of several": lambda folder, rows: _several(folder / "rows.npz", rows),
    "iterator of arrays": lambda folder, rows: iter(np.array_split(rows, 7)),
    "iterator of lists": lambda folder, rows: (part.tolist() for part in np.array_split(rows, 7)),
}
EVERY = NAMED | UNNAMED
ONE_PASS = {"reader", "iterator of frames", "iterator of arrays", "iterator of lists"}
