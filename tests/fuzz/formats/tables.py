"""Tables that a curator reads: csv, csv.gz, npy, npz, parquet, Arrow, and lists of rows as JSON."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tests.fuzz.case import Format, UnsoundError, check_numbers
from tests.fuzz.grammar import ODD_TEXTS, Array, Grammar, altered_arrays, altered_bytes, whole
from tests.fuzz.library import PrivateKDE, open_source

ROWS = np.arange(40.0).reshape(20, 2) / 40
MOST_ROWS = 2000  # that a case is read of: what follows is read like what came before
CELLS = [
    "",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e-999",
    "1_0",
    "0x10",
    "\u0663",
    "NULL",
    "text",
    '"',
    '""',
    "'",
    " 1 ",
    "1,5",
]
CELLS += ["1" * 400, "\x00", "\ufeff1", "-0", "+1", ".5", "1e5", "True", "é", "a\rb", '"a\nb"']


def released(data: Any, unit: str = "record", **fit: Any) -> None:
    """Release data, and ask."""
    options = {"n_features": 4, **({"max_records_per_user": 2} if unit == "user" else {})}
    public: dict[str, Any] = {"bounds": (0, 1), "n_hint": 20, "feature_seed": 7, "random_state": 1}
    model = PrivateKDE(bandwidth=0.5, epsilon=8, method="fourier", unit=unit, options=options, **public)
    release = model.fit(data, **fit).release_
    check_numbers("answer", release.query([[0.25] * release.dimension]))


def read_table(path: Path, random: Random, columns: Any = None) -> None:
    """Read a table as far as a few thousand rows, or release it."""
    if random.random() < 0.05:
        released(path)
        return
    rows = 0
    source = open_source(path, columns)
    for batch in source.batches():
        if batch.ndim != 2 or batch.shape[1] != source.dimension or batch.dtype.kind not in "fiub":
            raise UnsoundError(f"a batch of shape {batch.shape} from {source.dimension} columns")
        rows += len(batch)
        if rows > MOST_ROWS:
            break


class Tables(Format[Any]):
    """Tables in files of one kind."""

    suffixes: tuple[str, ...]

    def warm(self) -> None:
        """Release something, which few cases do."""
        released(ROWS)
        super().warm()

    def copy(self, seed: Any) -> Any:
        """Nothing is altered in place."""
        return seed

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Read it, all columns or one."""
        path = folder / f"table{random.choice(self.suffixes)}"
        path.write_bytes(content)
        read_table(path, random, random.choice([None, None, None, [0], ["a"]]) if seed != "numbers" else None)


class Delimited(Tables):
    """Text with commas, a third of it compressed."""

    name = "csv"
    share = 60.0
    suffixes = (".csv",)

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """With and without names, quoted, with other ends of lines."""
        lines = [[f"{value:.3f}" for value in row] for row in ROWS]
        yield "names", [["a", "b"], *lines]
        yield "quoted", [['"a"', '"b, c"'], *lines]
        yield "short", [["a", "user"], ["1", "2"]]
        yield "numbers", lines

    def alter(self, content: Any, random: Random) -> Any:
        """Change a cell, a line, or how many there are."""
        if isinstance(content, bytes):
            return altered_bytes(content, random)
        made = [list(line) for line in content]
        if not made:
            return b""
        line = random.choice(made)
        kind = random.randrange(9)
        if kind < 4 and line:
            line[random.randrange(len(line))] = random.choice([*CELLS, *ODD_TEXTS, repr(float(whole(random) % 2**60))])
        elif kind == 4:
            line.append(random.choice(CELLS))
        elif kind == 5 and line:
            line.pop()
        elif kind == 6:
            made.insert(random.randrange(len(made)), random.choice([[], [""], ["#"], ["x"] * 3]))
        elif kind == 7:
            made = made[:1] if random.random() < 0.5 else made[:0]
        else:
            times = random.choice([2, 30, 1000])
            made[0] = made[0] * times if sum(map(len, made[0])) < 1000 else ["9" * 10**5]
        return made

    def encode(self, content: Any, random: Random) -> bytes:
        """Join cells and lines."""
        if isinstance(content, bytes):
            return content
        end = random.choice(["\n", "\n", "\n", "\r\n", "\r"])
        text = end.join(",".join(line) for line in content) + random.choice(["", end])
        return text.encode(random.choice(["utf-8"] * 6 + ["utf-16", "utf-8-sig"]))


class Compressed(Delimited):
    """The same, compressed; also what unpacks to far more."""

    name = "csv.gz"
    share = 10.0
    suffixes = (".csv.gz",)

    def encode(self, content: Any, random: Random) -> bytes:
        """Compress it."""
        plain = super().encode(content, random)
        if random.random() < 0.01:
            endless = random.choice([b"1", b"1,", b'"', b"x"]) * random.choice([10**6, 3 * 10**7])
            plain += random.choice([endless, b"\n" * 10**6, b"1,2\n" * 10**5])
        return gzip.compress(plain, 1, mtime=0)


def npy(array: Array, header: dict[str, Any] | None = None) -> bytes:
    """Write an array under a header of anybody's choice."""
    stated = {"descr": array.dtype.str, "fortran_order": False, "shape": tuple(array.shape)} | (header or {})
    text = (repr(stated) + "\n").encode("latin-1", errors="replace")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) % 65536) + text + array.tobytes()


class Npy(Tables):
    """Single arrays."""

    name = "npy"
    share = 60.0
    suffixes = (".npy",)
    types = ("<f8", "<f4", "<i8", "|u1", "|b1", "<c16", "|O", "<U5", "<M8[D]", "|V8", "x", ">f8", "<f2", "|S3")

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Of a few types."""
        for kind in ("<f8", "<f4", "<i8", "|u1"):
            yield kind, ({"a": (ROWS * 40).astype(kind)}, {})

    def alter(self, content: Any, random: Random) -> Any:
        """Change the array, or what the header says of it."""
        arrays, header = content
        if random.random() < 0.4:
            return altered_arrays(arrays, random), header
        size = random.choice(
            [(2**33,), (1, 2**33), (2**31, 2**31), (0, 5), (5, 0), (-1, 2), (20,), (2, 20), (20, 2, 1)]
        )
        size = random.choice([size, (whole(random), 2), (20, whole(random)), (10**9, 0), (1,) * 40, "text", 7, None])
        field = random.choice(
            [{"shape": size}, {"descr": random.choice(self.types)}, {"fortran_order": random.choice([True, 3])}]
        )
        return arrays, {**header, **field, **({"more": 1} if random.random() < 0.05 else {})}

    def encode(self, content: Any, random: Random) -> bytes:
        """Write the first array."""
        arrays, header = content
        return npy(next(iter(arrays.values()), ROWS), header)


class Npz(Npy):
    """Archives of arrays."""

    name = "npz"
    share = 40.0
    suffixes = (".npz",)

    def encode(self, content: Any, random: Random) -> bytes:
        """Write an archive."""
        arrays, header = content
        kind = random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
        with io.BytesIO() as file:
            with zipfile.ZipFile(file, "w", kind) as archive:
                for name, array in arrays.items():
                    archive.writestr(f"{name}.npy", npy(array, header))
            return file.getvalue()


class Columnar(Tables):
    """Parquet and Arrow files: their own checksums are not ours, so that bytes are altered as they are."""

    name = "columnar"
    share = 50.0
    suffixes = (".parquet",)

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Of plain and odd types, in each kind of file."""
        plain = pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1]})
        odd = pa.table(
            {
                "a": pa.array([1, None, 3], pa.int64()),
                "b": pa.array(["x", "y", None]).dictionary_encode(),
                "c": pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float64(), 2)),
            }
        )
        named = pa.table({"a": [1.0, 2.0, 3.0, 4.0], "user": ["ada", "bob", None, "ada"]})
        listed = named.set_column(1, "user", named.column("user").dictionary_encode())
        kinds = {"plain": plain, "odd": odd.select(["a", "c"]), "user": named, "user-listed": listed}
        for (name, table), packed in itertools.product(kinds.items(), (False, True)):
            kind = f"{name}-packed" if packed else name
            file = io.BytesIO()
            pyarrow.parquet.write_table(table, file, compression="zstd" if packed else "none")
            yield f"{kind}.parquet", file.getvalue()
            file = io.BytesIO()
            options = pa.ipc.IpcWriteOptions(compression="lz4" if packed else None)
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)
            yield f"{kind}.arrow", file.getvalue()

    def alter(self, content: bytes, random: Random) -> bytes:
        """Change any bytes."""
        return altered_bytes(content, random)

    def encode(self, content: bytes, random: Random) -> bytes:
        """Leave it as it is."""
        return content

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Read it."""
        path = folder / seed
        path.write_bytes(content)
        if seed.startswith("user"):
            for _ in open_source(path, key="user").keyed_batches():
                pass
            return
        columns = None if random.random() < 0.7 else random.choice([["a"], [0], ["c"], ["a", "b"]])
        read_table(path, random, columns)


class Lists(Format[Any]):
    """Lists of rows, and of classes and users, as they come out of JSON."""

    name = "lists"
    share = 40.0

    def warm(self) -> None:
        """Release something, which few cases do."""
        released(ROWS, "user", users=list(range(len(ROWS))))
        super().warm()

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Rows with and without a user."""
        found = {
            "rows": ROWS[:6].tolist(),
            "mixed": [[1, 0.5], [None, 2], [True, "3"]],
            "users": [["u1", 1.0], ["u2", 2]],
        }
        self.grammar = Grammar(found.values())
        return [(name, json.dumps(rows)) for name, rows in found.items()]

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change the document."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Write JSON."""
        return json.dumps(content).encode()

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Read the rows, or release them with weights and users from the same list."""
        try:
            rows = json.loads(content)
        except (ValueError, RecursionError):
            return
        kind = random.random()
        if kind < 0.8:
            source = open_source(rows, key=0 if seed == "users" else None)
            for _ in source.batches():
                pass
            return
        data = ROWS[: len(rows)] if isinstance(rows, list) and rows else ROWS
        if kind < 0.9:
            released(data, sample_weight=rows)
        else:
            released(data, "user", users=rows)
