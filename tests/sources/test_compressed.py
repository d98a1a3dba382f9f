"""Small files that claim or hold far too much are refused early, in little memory.

All are opened in one child process whose memory is limited, so that an allocation of what they claim would fail it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from sfumato.errors import InputError
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.sources import delimited, open_source
from sfumato.sources.compressed import LARGEST_AT_ONCE, check_at_once
from sfumato.sources.selection import MOST_NAMED_COLUMNS
from tests.work import counted_calls

MEGABYTES = 600
CHILD = """
import resource, sys
from pathlib import Path
import pyarrow.csv, pyarrow.parquet
from sfumato.errors import InputError
from sfumato.sources import open_source
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
for argument in sys.argv[2:]:
    path, _, key = argument.partition("|")
    try:
        print(sum(len(batch) for batch in open_source(path, key=key or None).batches()))
    except InputError as error:
        print("refused:", str(error).replace("\\n", " "))
"""


def npy_header(shape: tuple[int, ...], fortran: bool = False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": fortran, "shape": shape})
    return stream.getvalue()


def npz(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", content)
    return path


def claimed_column_order(path: Path) -> Path:
    """Write an archive that claims to hold a gigabyte in column order."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy_header((2**26, 2), fortran=True))
        archive.filelist[0].file_size = 2**31
    return path


def zeros() -> pa.Table:
    """Six columns that take 805 MB, of one piece of memory; of long lists, for pages have at most 20,000 rows."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**24)), 1024)
    return pa.table([column] * 6, names=list("abcdef"))


def wide_table() -> pa.Table:
    count = 3 * MOST_NAMED_COLUMNS
    return pa.table([pa.array([1.0])] * count, names=[str(place) for place in range(count)])


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("bombs"), {}
    found["columns of npz"] = npz(folder / "columns.npz", npy_header((1, 2**33)))
    found["rows of npz"] = npz(folder / "rows.npz", npy_header((2**50, 2)))
    found["column order"] = npz(folder / "order.npz", npy_header((2**40, 2), fortran=True))
    found["header of npz"] = npz(
        folder / "header.npz", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**30) + bytes(2**30 >> 3)
    )
    found["columns of npy"] = folder / "columns.npy"
    found["columns of npy"].write_bytes(npy_header((0, 2**40)))
    found["negative"] = folder / "negative.npy"
    found["negative"].write_bytes(npy_header((-1, 2)))
    found["endless line"] = folder / "line.csv.gz"
    with gzip.open(found["endless line"], "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(b"1" * 2**22)
    found["columns of csv"] = folder / "columns.csv"
    found["columns of csv"].write_text(",".join(["a"] * (MOST_NAMED_COLUMNS + 2)) + "\n")
    found["long name"] = folder / "name.csv"
    found["long name"].write_text("a" * 200_000 + ",b\n1,2\n")
    table = wide_table()
    found["columns of parquet"] = folder / "columns.parquet"
    pa.parquet.write_table(table, found["columns of parquet"], write_statistics=False, use_dictionary=False)
    found["columns of arrow"] = folder / "columns.arrow"
    with pa.ipc.new_file(found["columns of arrow"], table.schema) as writer:
        writer.write_table(table)
    found["footer"] = folder / "footer.parquet"
    found["footer"].write_bytes(b"PAR1" + bytes(100) + struct.pack("<I", 2**31 - 1) + b"PAR1")
    found["schema"] = folder / "schema.arrow"
    found["schema"].write_bytes(b"\xff" * 4 + struct.pack("<I", 2**31 - 1) + bytes(100))
    found["list"] = folder / "list.parquet"
    pa.parquet.write_table(pa.table({"e": pa.array([], pa.list_(pa.float32(), MOST_COLUMNS + 1))}), found["list"])
    found["column order that fits a disk"] = claimed_column_order(folder / "claimed.npz")
    found["pages"] = folder / "pages.parquet"
    one_page = {"use_dictionary": False, "data_page_size": 2**30, "row_group_size": 2**24}
    pa.parquet.write_table(zeros(), found["pages"], compression="zstd", write_statistics=False, **one_page)
    found["buffers"] = folder / "buffers.arrow"
    with pa.ipc.new_file(
        found["buffers"], zeros().schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(zeros())
    return found


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int]]:
    """Small files in which a long text names the user of every row, with their numbers of rows."""
    folder, rows = tmp_path_factory.mktemp("texts"), 8192
    text = pa.array(["x" * 2**20])
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), text)
    table = pa.table({"a": np.zeros(rows), "user": named})
    pa.parquet.write_table(table, folder / "dictionary.parquet")
    with pa.ipc.new_file(folder / "dictionary.arrow", table.schema) as writer:
        writer.write_table(table)
    part = pa.table({"a": np.zeros(64), "user": text.take(pa.array(np.zeros(64, np.int32)))})
    growing = {"use_dictionary": False, "column_encoding": {"user": "DELTA_BYTE_ARRAY"}, "data_page_size": 2**26}
    with pa.parquet.ParquetWriter(folder / "growing.parquet", part.schema, write_statistics=False, **growing) as writer:
        for _ in range(16):
            writer.write_batch(part.to_batches()[0])
    return {
        "dictionary": (folder / "dictionary.parquet", rows),
        "dictionary of arrow": (folder / "dictionary.arrow", rows),
        "growing": (folder / "growing.parquet", 1024),
    }


@pytest.mark.parametrize("kind", ["dictionary", "dictionary of arrow", "growing"])
def test_long_texts_take_little_memory(long_texts: dict[str, tuple[Path, int]], kind: str) -> None:
    path, rows = long_texts[kind]
    assert path.stat().st_size < 4 * 2**20
    command = [sys.executable, "-c", CHILD, str(MEGABYTES), f"{path}|user"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.split()) == (0, [str(rows)]), ended.stderr[-2000:]


def test_bombs_are_refused_in_little_memory(bombs: dict[str, Path]) -> None:
    command = [sys.executable, "-c", CHILD, str(MEGABYTES), *map(str, bombs.values())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    answers = dict(zip(bombs, ended.stdout.splitlines(), strict=True))
    assert {name for name, answer in answers.items() if not answer.startswith("refused:")} == set()
    assert all(Path(path).name in answers[name] for name, path in bombs.items())
    # Told by what the file claims, and not because memory ran out.
    assert all("bytes of memory at once" in answers[name] for name in ("pages", "buffers"))
    assert all(bombs[name].stat().st_size < 2**19 for name in ("pages", "buffers"))


def test_a_line_that_is_too_long_is_one_odd_row_and_moves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    monkeypatch.setattr(delimited, "LONGEST_LINE", 200)
    path = tmp_path / "rows.csv"
    for before in range(60):
        lines = ["a,b", *(f"{place},2" for place in range(before)), "7" * 1000 + ",2", "3,4", "5,6"]
        path.write_text("\n".join(lines) + "\n")
        found = open_source(path, ["a", "b"]).whole()
        assert len(found) == before + 3 and np.isnan(found[before]).all()
        assert found[before + 1 :].tolist() == [[3.0, 4.0], [5.0, 6.0]]
        assert (found[:before, 0] == np.arange(before)).all()
    path.write_text("a,b\n1,2\n" + "7" * 1000)
    assert len(open_source(path, ["a", "b"]).whole()) == 2


def test_the_largest_tables_are_read(tmp_path: Path) -> None:
    wide = np.zeros((2, MOST_COLUMNS), dtype=np.float32)
    np.save(tmp_path / "wide.npy", wide)
    source = open_source(tmp_path / "wide.npy")
    assert [batch.shape for batch in source.batches()] == [(2, MOST_COLUMNS)]
    with pytest.raises(InputError, match="can be read"):
        open_source(np.zeros((1, MOST_COLUMNS + 1), dtype=np.int8))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("line", ["9" * 300_000 + "x", "9." + "9" * 300_000 + "x", "1e" + "9" * 300_000 + "x"])
def test_almost_a_number_takes_no_quadratic_time(tmp_path: Path, line: str) -> None:
    """A pattern that goes back would go on for hours."""
    (tmp_path / "long.csv").write_text(f"{line}\n{line}\n")
    with contextlib.suppress(InputError):
        assert all(np.isnan(batch).all() for batch in open_source(tmp_path / "long.csv").batches())


def test_many_columns_with_an_odd_cell_take_few_calls(tmp_path: Path) -> None:
    """Arrow's functions are called for all columns at once: a call for each column took 20 seconds."""
    line = ",".join(["0.5"] * 30_000)
    (tmp_path / "wide.csv").write_text(f"{line}\n{line.replace('0.5', 'odd', 1)}\n{line},1\n{line}\n")
    source = open_source(tmp_path / "wide.csv")
    with counted_calls(pc.__file__) as calls:
        rows = np.concatenate(list(source.batches()))
    assert 0 < len(calls) < 100
    assert rows.shape == (4, 30_000) and np.isnan(rows[1, 0]) and np.isnan(rows[2]).all()
    assert (rows[[0, 3]] == 0.5).all() and (rows[1, 1:] == 0.5).all()


@pytest.mark.parametrize("text", ["{'descr': '<f8', 'shape': (1, 2),", "((((", "{'a': 1L", '"', "1 +"])
def test_a_header_that_does_not_parse_is_refused(tmp_path: Path, text: str) -> None:
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(16)
    (tmp_path / "odd.npy").write_bytes(content)
    for path in (tmp_path / "odd.npy", npz(tmp_path / "odd.npz", content)):
        with pytest.raises(InputError):
            open_source(path)


@pytest.mark.parametrize("seed", ["odd.arrow", "user.arrow", "user-listed.arrow", "user-packed.parquet", "odd.parquet"])
def test_damaged_columns_are_refused_and_no_process_ends(seed: str, tmp_path: Path) -> None:
    """Every byte in turn: lists shorter than they say, texts outside of their memory, names that are no text."""
    from tests.fuzz.formats.tables import Columnar

    content, path = dict(Columnar().seeds)[seed], tmp_path / seed
    key = "user" if seed.startswith("user") else None
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        with contextlib.suppress(InputError):
            for piece in open_source(path, key=key).pieces():
                assert len(piece)


def test_what_is_held_at_once_may_be_four_times_the_file() -> None:
    check_at_once(LARGEST_AT_ONCE, stored=1)
    check_at_once(4 * LARGEST_AT_ONCE, stored=LARGEST_AT_ONCE)
    with pytest.raises(Exception, match="memory"):
        check_at_once(4 * LARGEST_AT_ONCE + 1, stored=LARGEST_AT_ONCE)
