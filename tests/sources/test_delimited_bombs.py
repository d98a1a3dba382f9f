"""Small files of text that stand for much: broken lines among many columns, and a first line without end."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Overlap
from sfumato.sources import delimited, open_source
from sfumato.sources.delimited import LineParser, TextFormat


class Counting(io.FileIO):
    """A file that counts the bytes that are taken from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found


WIDTH, BROKEN = 4096, 4000


@pytest.mark.parametrize("line", [b"1", b'"'])
@pytest.mark.parametrize("chosen", [tuple(range(WIDTH)), (0,)])
def test_broken_lines_take_no_more_memory_than_a_piece(line: bytes, chosen: tuple[int, ...]) -> None:
    """All at once they would be 131 MB of numbers, or 65 MB of text in place of the lines with broken quotes."""
    proper = b",".join([b"1"] * WIDTH)
    lines = b"\n".join([proper, *[line] * BROKEN, proper])
    parser = LineParser(TextFormat(), WIDTH, chosen)
    assert len(parser._without_broken_quotes(lines)) <= len(lines)
    sums, largest = [], 0
    for piece in parser.pieces(lines):
        largest = max(largest, piece.block.nbytes)
        sums += np.nansum(piece.block, axis=1).tolist()
    assert sums == [len(chosen), *[0.0] * BROKEN, len(chosen)]
    assert largest <= 8 * delimited.PIECE_NUMBERS


@pytest.mark.parametrize("numbers", [1, 4, 6, 1000])
def test_pieces_put_broken_lines_in_their_places(monkeypatch: pytest.MonkeyPatch, numbers: int) -> None:
    lines = b'1,u,.5,2\n3\n"\n4,v,.25,x\n5,w,1,6\n7,8\n9,,1,1'
    parser = LineParser(TextFormat(), 4, (0, 3), key=1, weight=2)
    whole = parser.rows(lines)
    nan = float("nan")
    np.testing.assert_array_equal(whole.block, [[1, 2], [nan, nan], [nan, nan], [4, nan], [5, 6], [nan, nan], [9, 1]])
    np.testing.assert_array_equal(whole.weights, [0.5, nan, nan, 0.25, 1, nan, 1])
    assert whole.users.any(axis=1).tolist() == [True, False, False, True, True, False, False]
    monkeypatch.setattr(delimited, "PIECE_NUMBERS", numbers)
    pieces = list(parser.pieces(lines))
    height = max(1, numbers // 2)
    assert [len(piece) for piece in pieces] == [min(height, 7 - start) for start in range(0, 7, height)]
    for name in ("block", "keys", "weights"):
        found = np.concatenate([getattr(piece, name) for piece in pieces])
        np.testing.assert_array_equal(found, getattr(whole, name))


@pytest.mark.parametrize("width", [1, 2])
def test_a_line_with_broken_quotes_is_no_value_of_a_category(width: int) -> None:
    coded = {place: Overlap(["nan", "b"], unseen="other") for place in range(width)}
    parser = LineParser(TextFormat(), width, tuple(range(width)), coded=coded)
    lines = [",".join(["b"] * width), '"b' + ",b" * (width - 1), ",".join(["c"] * width)]
    np.testing.assert_array_equal(parser.parse("\n".join(lines).encode())[:, 0], [1, float("nan"), 2])


def test_a_first_line_is_refused_as_soon_as_it_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    monkeypatch.setattr(delimited, "LONGEST_LINE", 200)
    path = tmp_path / "rows.csv"
    path.write_bytes(b"x" * 100_000)
    streams: list[Counting] = []

    def counted(path: str, **_: object) -> Counting:
        streams.append(Counting(path, "rb"))
        return streams[-1]

    monkeypatch.setattr(pa, "input_stream", counted)
    with pytest.raises(InputError, match="the first line is longer than 200 bytes"):
        open_source(path)
    assert [stream.taken for stream in streams] == [256]
    path.write_bytes(b"x" * 199 + b"\n1\n")
    assert open_source(path).whole().tolist() == [[1.0]]
    path.write_bytes(b"x" * 201 + b"\n1\n")
    with pytest.raises(InputError, match="the first line is longer than 200 bytes"):
        open_source(path)


def test_no_memory_for_the_head_is_told_as_of_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(parser: LineParser, lines: bytes) -> list[int]:
        raise pa.ArrowMemoryError("realloc of size 4345298944 failed")

    monkeypatch.setattr(LineParser, "columns_of_text", too_much)
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match=r"rows\.csv cannot be read as rows \(realloc"):
        open_source(path)
