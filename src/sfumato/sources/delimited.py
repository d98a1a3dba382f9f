"""Comma- and tab-separated text, plain or gzipped, in which a line is a row and each line alone decides its row.

A block of whole lines is parsed by pyarrow with the selected columns declared as float64. Where that fails, somewhere
in the block stands a cell that is no number or a line with too few or too many fields, and the same block is parsed
again as text: such a cell becomes NaN, such a line a row of NaN. Both ways read every proper number alike, so a row's
values do not depend on its neighbours or on where blocks end. For the same reason a line break inside quotes ends the
row, and a line with unbalanced quotes is a row of NaN: it must not swallow the lines after it. Blank lines are skipped.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sfumato.errors import InputError
from sfumato.sources.arrow import Layout
from sfumato.sources.base import Block, Source, readable, reblock
from sfumato.sources.selection import Columns, choose, no_numbers

BLOCK_BYTES = 2 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# What pyarrow's CSV reader takes for a float, in syntax common to Python's and Arrow's regular expressions.
NUMBER = r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf(?:inity)?))"
NULLS = frozenset(pa.csv.ConvertOptions().null_values)


def open_delimited(path: Path, columns: Columns | None, delimiter: str) -> Source:
    """Source over delimited text.

    The first line is a header unless every cell of it is a number or a null, and not all are nulls; without a header
    the columns are named "0", "1" and so on.
    """
    origin = str(path)
    with readable(origin):
        head, body = _split_head(next(_line_blocks(path), b""))
    cells = _cells(head, delimiter, origin)
    headless = _is_data(cells)
    names = [str(position) for position in range(len(cells))] if headless else cells
    chosen = choose(columns, names, len(names), origin)
    parser = LineParser(delimiter, len(names), tuple(chosen))
    textual = parser.columns_of_text(head + body if headless else body)
    if textual:
        raise no_numbers([names[i] for i in chosen], [names[i] for i in textual], origin)

    def blocks() -> Iterator[Block]:
        with readable(origin):
            for number, lines in enumerate(_line_blocks(path)):
                if number == 0:
                    first, rest = _split_head(lines)
                    lines = first + rest if headless else rest
                yield parser.parse(lines)

    return Source(
        dimension=len(chosen),
        column_names=tuple(names[i] for i in chosen),
        read=lambda rows: reblock(blocks(), rows),
    )


@dataclass(frozen=True)
class LineParser:
    """Turns whole lines of delimited text into rows of float64.

    Attributes
    ----------
    delimiter
        Comma or tab.
    width
        Fields in a proper line.
    chosen
        Positions of the fields that make up a row.
    """

    delimiter: str
    width: int
    chosen: tuple[int, ...]

    def parse(self, lines: bytes) -> Block:
        """Rows of the lines; what is not a number is NaN."""
        lines = self._without_broken_quotes(lines)
        try:
            return self._stack(self._read(lines, pa.float64()))
        except pa.ArrowInvalid:
            return self._parse_leniently(lines)

    def columns_of_text(self, lines: bytes) -> list[int]:
        """Positions of the chosen fields in which there is text and not a single number."""
        cells, _ = self._read_cells(self._without_broken_quotes(lines))
        nulls = pa.array(sorted(NULLS))

        def is_text(column: pa.ChunkedArray) -> bool:
            present = column.filter(pc.invert(pc.is_in(column, nulls)))
            return len(present) > 0 and not pc.any(_is_number(present)).as_py()

        return [position for position in self.chosen if is_text(cells[str(position)])]

    def _parse_leniently(self, lines: bytes) -> Block:
        cells, broken = self._read_cells(lines)
        numbers = [pc.if_else(_is_number(column), column, None) for column in cells.columns]
        # Older Arrow versions do not read a plus sign.
        floats = [pc.ascii_ltrim(column, "+").cast(pa.float64()) for column in numbers]
        proper = self._stack(pa.table(floats, names=cells.column_names))
        rows = np.full((len(proper) + len(broken), len(self.chosen)), np.nan)
        is_proper = np.ones(len(rows), dtype=bool)
        is_proper[broken] = False
        rows[is_proper] = proper
        return rows

    def _read_cells(self, lines: bytes) -> tuple[pa.Table, list[int]]:
        """Chosen fields of the proper lines as trimmed text, and the row numbers of the other lines."""
        broken: list[int] = []

        def skip(row: pa.csv.InvalidRow) -> str:
            broken.append(row.number - 1)
            return "skip"

        # Arrow hands a broken line over as text, which fails on bytes that are no UTF-8; as Latin-1 all bytes are text.
        table = self._read(lines.decode("latin-1").encode(), pa.string(), skip)
        trimmed = [pc.ascii_trim(column, " \t") for column in table.columns]
        return pa.table(trimmed, names=table.column_names), broken

    def _read(self, lines: bytes, kind: pa.DataType, on_broken_line: object = None) -> pa.Table:
        names = [str(position) for position in range(self.width)]
        used = [str(position) for position in self.chosen]
        return pa.csv.read_csv(
            # The line break, skipped as a blank line, keeps pyarrow from refusing an empty block, and from dropping
            # a byte order mark that merely stands where a block begins.
            pa.BufferReader(b"\n" + lines),
            # Rows are numbered for the handler only when read by one thread.
            pa.csv.ReadOptions(column_names=names, block_size=len(lines) + 1, use_threads=on_broken_line is None),
            pa.csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char='"' if b'"' in lines else False,
                invalid_row_handler=on_broken_line,
            ),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(used, kind), include_columns=used),
        )

    def _stack(self, table: pa.Table) -> Block:
        layout = Layout(tuple(table.column_names), (1,) * len(self.chosen), np.dtype(np.float64))
        empty = np.empty((0, len(self.chosen)))
        return next(layout.blocks(table.to_batches(), max(1, table.num_rows)), empty)

    @cached_property
    def _proper_line(self) -> re.Pattern[bytes]:
        # A field is empty, or starts with another character than a quote, or is quoted from end to end.
        comma = re.escape(self.delimiter)
        field = f'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{comma}][^{comma}]*+|)'
        return re.compile(f"{field}(?:{comma}{field})*+".encode())

    def _without_broken_quotes(self, lines: bytes) -> bytes:
        if b'"' not in lines:
            return lines
        nothing = self.delimiter.join(["nan"] * self.width).encode()
        proper = self._proper_line.fullmatch
        return b"\n".join(line if b'"' not in line or proper(line) else nothing for line in lines.splitlines())


def _is_number(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.match_substring_regex(cells, f"^(?:{NUMBER})$")


def _line_blocks(path: Path) -> Iterator[bytes]:
    """Read about `BLOCK_BYTES` at a time, cut after the last line break."""
    with pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None) as stream:
        remainder = b""
        while chunk := stream.read(BLOCK_BYTES):
            cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if cut:
                yield remainder + chunk[:cut]
                remainder = b""
            remainder += chunk[cut:]
        if remainder:
            yield remainder


def _split_head(lines: bytes) -> tuple[bytes, bytes]:
    """First line that is not blank, and what follows it (its line break included)."""
    text = lines.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
    ends = [place for place in (text.find(b"\n"), text.find(b"\r")) if place >= 0]
    end = min(ends, default=len(text))
    return text[:end], text[end:]


def _cells(head: bytes, delimiter: str, origin: str) -> list[str]:
    if not head:
        raise InputError(f"{origin} is empty: it has not even a header. Write the column names in its first line.")
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{origin}: the first line is not UTF-8 text. Save the file as UTF-8.") from error
    return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter))]


def _is_data(cells: list[str]) -> bool:
    values = [cell for cell in cells if cell not in NULLS]
    return bool(values) and all(re.fullmatch(NUMBER, cell) for cell in values)
