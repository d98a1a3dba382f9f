"""Comma- and tab-separated text, plain or gzipped, in which a line is a row and each line alone decides its row.

A block of whole lines is parsed by pyarrow with the selected columns declared as float64. Where that fails, somewhere
in the block stands a cell that is no number or a line with too few or too many fields, and the same block is parsed
again as text: such a cell becomes NaN, such a line a row of NaN. Both ways read every proper number alike, so a row's
values do not depend on its neighbours or on where blocks end. For the same reason a line break inside quotes ends the
row, and a line with unbalanced quotes is a row of NaN: it must not swallow the lines after it. Blank lines are skipped.
A row of NaN belongs to nobody; so does a row whose cell for the user is a null.

A proper line is at least as long as its row has numbers, and so bounds it. A broken line may be two bytes and stands
for a whole row of NaN, so these rows are made in pieces of `PIECE_NUMBERS`: memory does not follow their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sfumato.errors import InputError
from sfumato.kernels.product import Overlap
from sfumato.public.codec import brief
from sfumato.sources.arrow import Layout
from sfumato.sources.base import Block, Rows, Source, readable, reblock
from sfumato.sources.cells import NUMBER, codes_of_distinct
from sfumato.sources.first_line import NULLS, cells_of, check_separator, holds_values, is_data, split_head
from sfumato.sources.keys import Keys, decoded, keys_of_codes
from sfumato.sources.selection import Selection, no_numbers, warn_of_no_numbers

BLOCK_BYTES = 2 << 20
# Bytes of a line. A longer one is read past without keeping it, and is a row of NaN, as every line that is broken;
# a first line is refused.
LONGEST_LINE = 1 << 24
TOO_LONG = b"\0"  # stands for it: a single field that is no number
# Numbers in a piece of a block, 32 MB: more than its bytes, so that proper lines alone are one piece.
PIECE_NUMBERS = 1 << 22


@dataclass(frozen=True)
class TextFormat:
    """How numbers are written: what stands between fields, and what in a number before its fraction."""

    separator: str = ","
    decimal: str = "."

    def __post_init__(self) -> None:
        for name, mark in (("separator", self.separator), ("decimal", self.decimal)):
            if not isinstance(mark, str) or len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n+-':
                raise InputError(f"{name} must be one character, such as ';' or ','; got {brief(mark)}")
        if self.separator == self.decimal:
            raise InputError(f"separator and decimal are both {self.decimal!r}: pass two characters")

    @cached_property
    def number(self) -> str:
        """Regular expression of a number."""
        return NUMBER.replace(r"\.", re.escape(self.decimal))


def open_delimited(path: Path, selection: Selection, text: TextFormat) -> Source:
    """Source over delimited text.

    The first line is a header unless every cell of it is a number or a null, and not all are nulls; without a header
    the columns are named "0", "1" and so on. Names are published with a release, so a first line that may be somebody's
    record (text beside numbers) is refused, unless its numbers count the columns, as written by some libraries.
    """
    origin = str(path)
    with readable(origin):
        head, body = split_head(next(_line_blocks(path), b""))
    cells = cells_of(head, text.separator, origin)
    headless = is_data(cells, text.number)
    names = [str(position) for position in range(len(cells))] if headless else cells
    check_separator(names, selection, text.separator, origin)
    chosen = selection.choose(names, len(names), origin)
    chosen.check_no_lists(origin)
    if not headless and (holds_values(cells, text.number) or any(cells[i] in NULLS - {""} for i in chosen.coordinates)):
        raise InputError(
            f"the first line of {origin} mixes numbers with text, so it may be a record instead of names. "
            "Put a line of column names in front of it, or rename columns whose names are numbers."
        )
    parser = LineParser(text, len(names), chosen.coordinates, chosen.key, chosen.weight, chosen.coded)
    with readable(origin):
        textual = parser.columns_of_text(head + body if headless else body)
    if textual:
        problem = [names[i] for i in chosen.numbers], [names[i] for i in textual], origin
        if selection.columns is None:
            raise no_numbers(*problem)
        warn_of_no_numbers(*problem)  # the caller declares these columns to be numbers, so values decide nothing

    def pieces() -> Iterator[Rows]:
        with readable(origin):
            for number, lines in enumerate(_line_blocks(path)):
                if number == 0:
                    first, rest = split_head(lines)
                    lines = first + rest if headless else rest
                yield from parser.pieces(lines)

    return Source(
        dimension=len(chosen.coordinates),
        column_names=tuple(names[i] for i in chosen.coordinates),
        read=lambda rows: reblock(pieces(), rows),
        keyed=chosen.key is not None,
        weighted=chosen.weight is not None,
        categories=chosen.categories,
    )


@dataclass(frozen=True)
class LineParser:
    """Turns whole lines of delimited text into rows of float64.

    Attributes
    ----------
    text
        How numbers are written.
    width
        Fields in a proper line.
    chosen
        Positions of the fields that make up a row.
    key, weight
        Positions of the fields of user and weight, or None.
    coded
        Positions of the fields among `chosen` that are categories.
    """

    text: TextFormat
    width: int
    chosen: tuple[int, ...]
    key: int | None = None
    weight: int | None = None
    coded: Mapping[int, Overlap] = field(default_factory=dict)

    def parse(self, lines: bytes) -> Block:
        """Rows of the lines; what is not a number is NaN."""
        return self.rows(lines).block

    def rows(self, lines: bytes) -> Rows:
        """Rows of the lines with their users and weights."""
        return Rows.joined(list(self.pieces(lines)))

    def pieces(self, lines: bytes) -> Iterator[Rows]:
        """Rows of the lines, at least one piece, of which those with broken lines have up to `PIECE_NUMBERS`."""
        lines = self._without_broken_quotes(lines)
        broken: list[int] = []
        try:
            proper = self._stack(self._read(lines, pa.float64()), decoded)
        except pa.ArrowInvalid:
            proper, broken = self._parse_leniently(lines)
        return self._with_broken(proper, np.array(broken)) if broken else iter([proper])

    @property
    def _numbers(self) -> tuple[int, ...]:
        chosen = tuple(place for place in self.chosen if place not in self.coded)
        return chosen if self.weight is None else (*chosen, self.weight)

    @property
    def _texts(self) -> tuple[int, ...]:
        """Positions of the fields that are read as text."""
        return (*self.coded, *(() if self.key is None or self.key in self.coded else (self.key,)))

    def columns_of_text(self, lines: bytes) -> list[int]:
        """Positions of the chosen fields in which there is text and not a single number."""
        cells, _ = self._read_cells(self._without_broken_quotes(lines))
        column, shape = _joined(cells.select(list(map(str, self._numbers))))
        present = pc.invert(pc.is_in(column, pa.array(sorted(NULLS)))).to_numpy(zero_copy_only=False)
        number = self._is_number(column).to_numpy(zero_copy_only=False)
        text = present.reshape(shape).any(axis=1) & ~number.reshape(shape).any(axis=1)
        return [position for position, is_text in zip(self._numbers, text, strict=True) if is_text]

    def _parse_leniently(self, lines: bytes) -> tuple[Rows, list[int]]:
        """Rows of the proper lines, and the row numbers of the others."""
        cells, broken = self._read_cells(lines)
        names = list(map(str, self._numbers))
        column, (_, rows_each) = _joined(cells.select(names))
        # Older Arrow versions do not read a plus sign.
        numbers = pc.ascii_ltrim(pc.if_else(self._is_number(column), column, None), "+")
        numbers = pc.replace_substring(numbers, self.text.decimal, ".").cast(pa.float64())
        floats = {name: numbers.slice(place * rows_each, rows_each) for place, name in enumerate(names)}
        ids = {name: cells[name].cast(pa.binary()) for name in map(str, self._texts)}
        proper = self._stack(pa.table(floats | ids), lambda cell: decoded(cell.decode().encode("latin-1")))
        return proper, broken

    def _with_broken(self, proper: Rows, broken: npt.NDArray[np.int64]) -> Iterator[Rows]:
        """Put rows of NaN between the proper ones, at the row numbers `broken`, which ascend."""
        total, height = len(proper) + len(broken), max(1, PIECE_NUMBERS // len(self.chosen))
        for start in range(0, total, height):
            stop = min(start + height, total)
            before, after = np.searchsorted(broken, [start, stop])
            places = np.delete(np.arange(stop - start), broken[before:after] - start)
            some, rows = proper[start - before : stop - after], self._blank(stop - start)
            rows.block[places] = some.block
            if rows.keys is not None:
                rows.keys[places] = some.users
            if rows.weights is not None:
                rows.weights[places] = some.weights
            yield rows

    def _is_number(self, cells: pa.Array) -> pa.Array:
        return pc.match_substring_regex(cells, f"^(?:{self.text.number})$")

    def _blank(self, rows: int) -> Rows:
        keyed, weighted = self.key is not None, self.weight is not None
        return Rows.blank(rows, len(self.chosen), np.float64, keyed=keyed, weighted=weighted)

    def _read_cells(self, lines: bytes) -> tuple[pa.Table, list[int]]:
        """Chosen fields of the proper lines as trimmed text, and the row numbers of the other lines."""
        broken: list[int] = []

        def skip(row: pa.csv.InvalidRow) -> str:
            broken.append(row.number - 1)
            return "skip"

        # Arrow hands a broken line over as text, which fails on bytes that are no UTF-8; as Latin-1 all bytes are text.
        table = self._read(lines.decode("latin-1").encode(), pa.string(), skip)
        column, (_, rows_each) = _joined(table)
        trimmed = pc.ascii_trim(column, " \t")
        columns = [trimmed.slice(place * rows_each, rows_each) for place in range(table.num_columns)]
        return pa.table(columns, names=table.column_names), broken

    def _read(self, lines: bytes, kind: pa.DataType, on_broken_line: object = None) -> pa.Table:
        names = [str(position) for position in range(self.width)]
        types = dict.fromkeys(map(str, self._numbers), kind)
        types |= dict.fromkeys(map(str, self._texts), pa.string() if pa.types.is_string(kind) else pa.binary())
        return pa.csv.read_csv(
            # The line break, skipped as a blank line, keeps pyarrow from refusing an empty block, and from dropping
            # a byte order mark that merely stands where a block begins.
            pa.BufferReader(b"\n" + lines),
            # Rows are numbered for the handler only when read by one thread.
            pa.csv.ReadOptions(column_names=names, block_size=len(lines) + 1, use_threads=on_broken_line is None),
            pa.csv.ParseOptions(
                delimiter=self.text.separator,
                quote_char='"' if b'"' in lines else False,
                invalid_row_handler=on_broken_line,
            ),
            pa.csv.ConvertOptions(column_types=types, include_columns=list(types), decimal_point=self.text.decimal),
        )

    def _stack(self, table: pa.Table, text_of: Callable[[bytes], str]) -> Rows:
        layout = Layout(
            columns=tuple(map(str, self.chosen)),
            widths=(1,) * len(self.chosen),
            dtype=np.dtype(np.float64),
            weight=None if self.weight is None else str(self.weight),
        )
        for place, category in self.coded.items():
            codes = pa.array(_codes(table[str(place)], text_of, category), pa.float64())
            table = table.set_column(table.column_names.index(str(place)), str(place), codes)
        rows = next(layout.pieces(table.to_batches(), max(1, table.num_rows)), self._blank(0))
        return rows if self.key is None else replace(rows, keys=_keys(table[str(self.key)], text_of))

    @cached_property
    def _proper_line(self) -> re.Pattern[bytes]:
        # A field is empty, or starts with another character than a quote, or is quoted from end to end.
        comma = re.escape(self.text.separator)
        field = f'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{comma}][^{comma}]*+|)'
        return re.compile(f"{field}(?:{comma}{field})*+".encode())

    def _without_broken_quotes(self, lines: bytes) -> bytes:
        if b'"' not in lines:
            return lines
        # Another number of fields breaks the line for Arrow too, and takes no more room than the line had.
        broken = self.text.separator.encode() if self.width == 1 else b"x"
        proper = self._proper_line.fullmatch
        return b"\n".join(line if b'"' not in line or proper(line) else broken for line in lines.splitlines())


def _keys(cells: pa.ChunkedArray, text_of: Callable[[bytes], str]) -> Keys:
    encoded = cells.combine_chunks().dictionary_encode()
    texts = [text_of(cell).strip(" \t") for cell in encoded.dictionary.to_pylist()]
    return keys_of_codes([None if text in NULLS else text for text in texts], encoded.indices.to_numpy())


def _codes(cells: pa.ChunkedArray, text_of: Callable[[bytes], str], category: Overlap) -> np.ndarray:
    encoded = cells.combine_chunks().dictionary_encode()
    texts = [text_of(cell).strip(" \t") for cell in encoded.dictionary.to_pylist()]
    return codes_of_distinct(texts, encoded.indices.to_numpy(), category)


def _joined(table: pa.Table) -> tuple[pa.Array, tuple[int, int]]:
    """Put columns of one type after one another, with their number and length: one call for all, not one for each."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    column = (
        pa.concat_arrays(chunks)
        if chunks
        else pa.array([], type=table.schema[0].type if table.num_columns else pa.string())
    )
    return column, (table.num_columns, table.num_rows)


def _line_blocks(path: Path) -> Iterator[bytes]:
    """Read about `BLOCK_BYTES` at a time, cut after the last line break; a line that is too long is `TOO_LONG`."""
    with pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None) as stream:
        begun: list[bytes] = []  # the line that has begun, in parts
        size, at_start = 0, True
        while chunk := stream.read(BLOCK_BYTES):
            breaks = [place for place in (chunk.find(b"\n"), chunk.find(b"\r")) if place >= 0]
            first = min(breaks, default=len(chunk))
            ends = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            too_long = size + first > LONGEST_LINE
            if too_long and at_start:
                raise InputError(
                    f"{path}: the first line is longer than {LONGEST_LINE} bytes. "
                    "Leave columns out, or save the numbers as .npy or .parquet."
                )
            if breaks:
                if too_long:
                    begun, chunk, ends = [TOO_LONG], chunk[first:], ends - first
                yield b"".join([*begun, chunk[:ends]])
                begun, size, at_start = [], 0, False
            rest = chunk[ends:]
            size += len(rest)
            begun = [*begun, rest] if size <= LONGEST_LINE else []
        if size:
            yield TOO_LONG if size > LONGEST_LINE else b"".join(begun)
