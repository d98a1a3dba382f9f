"""Parquet and Arrow files: the selected columns, of one file or several, and files that were cut off."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from sfumato import InputError
from sfumato.sources.arrow import Layout
from sfumato.sources.selection import Selection
from sfumato.sources.table_files import open_ipc, open_parquet

TABLE = pa.table({"x": [1.0, 2.0, 3.0], "name": ["a", "b", "c"], "y": [4, None, 6]})
PICKED = Selection(columns=["y", "x"])


def test_several_parquet_files_are_one_whatever_the_order_of_their_columns(tmp_path: Path) -> None:
    pa.parquet.write_table(TABLE, tmp_path / "1.parquet")
    pa.parquet.write_table(TABLE.select(["y", "name", "x"]), tmp_path / "2.parquet", row_group_size=1)
    rows = open_parquet([tmp_path / "1.parquet", tmp_path / "2.parquet"], PICKED).whole()
    assert rows[:, 1].tolist() == [1, 2, 3, 1, 2, 3] and rows[[0, 2, 3], 0].tolist() == [4, 6, 4]


def test_a_file_and_a_stream_of_arrow_are_read_alike(tmp_path: Path) -> None:
    for name, writer in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with writer(str(tmp_path / name), TABLE.schema) as made:
            made.write_table(TABLE)
        assert open_ipc(tmp_path / name, PICKED).whole()[[0, 2]].tolist() == [[4, 1], [6, 3]]


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    with pa.ipc.new_file(str(tmp_path / "cut.arrow"), TABLE.schema) as made:
        made.write_table(TABLE)
    content = (tmp_path / "cut.arrow").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(content[:-20])
    with pytest.raises(InputError):
        open_ipc(tmp_path / "cut.arrow", PICKED)


def test_what_fails_as_rows_are_copied_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8 failed")

    pa.parquet.write_table(TABLE, tmp_path / "rows.parquet")
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), TABLE.schema) as made:
        made.write_table(TABLE)
    monkeypatch.setattr(Layout, "_fill", no_memory)
    for source, name in (
        (open_parquet([tmp_path / "rows.parquet"], PICKED), "rows.parquet"),
        (open_ipc(tmp_path / "rows.arrow", PICKED), "rows.arrow"),
    ):
        with pytest.raises(InputError, match=f"{name}.*malloc"):
            source.whole()
    [shard] = open_parquet([tmp_path / "rows.parquet"], PICKED).read.shards()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"rows\.parquet.*malloc"):
        list(shard.pieces(10))
