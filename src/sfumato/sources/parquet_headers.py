"""What the footer and the pages of a Parquet file claim, read before Arrow believes them.

The footer describes each column of each row group (a column chunk) and gets many times its size in Arrow's memory, so
that this is counted first. Chunks belong to the schema's columns by their places, as they do for Arrow: the name that a
chunk gives itself is not looked at.

Pages are decompressed one by one, so that of a chunk the largest page and the dictionary count. Three things grow after
that. Of a column of lists one row may hold all values of the chunk, in however few bytes, and a row is decoded whole:
their number is limited too. `DELTA_BYTE_ARRAY` writes a text as what it adds to the one before it, so that each may be
as long as its page; of such pages few rows are decoded at a time. A text that a dictionary holds once and many rows
name is left in its dictionary.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.sources.base import TooLargeError
from sfumato.sources.compressed import LARGEST_AT_ONCE, LARGEST_RATIO, check_at_once
from sfumato.sources.thrift import BINARY, I32, I64, Made, Thrift

LONGEST_PAGE_HEADER = 1 << 20
SHORT_PAGE_HEADER = 1 << 10  # most headers: those without long texts as their least and greatest values
# Values of lists in a row group, which take 8 bytes each; beyond, as many as numbers of two bits would be in the file.
MOST_LISTED = LARGEST_AT_ONCE // 8

DEEPEST_SCHEMA, LONGEST_PATHS, MOST_PARTS = 64, 1 << 24, 64

# Of Parquet's structures the numbers of the fields that are read. All lists that Arrow knows are among them, for it
# reads their entries as what they should be.
VALUES, STORED, DATA_OFFSET, DICTIONARY_OFFSET = 5, 7, 9, 11
SIZES: dict[int, Any] = {2: [I64], 3: [I64]}
DESCRIBED: dict[int, Any] = {
    **{2: [I32], 3: [BINARY], VALUES: I64, STORED: I64, 8: [{}], DATA_OFFSET: I64, DICTIONARY_OFFSET: I64, 13: [{}]},
    **{16: SIZES, 17: {2: [I32]}},
}
SCHEMA, NAME, CHILDREN, COLUMNS, DETAILS, ROW_GROUPS = 2, 4, 5, 1, 3, 4
CHUNK: dict[int, Any] = {DETAILS: DESCRIBED, 8: {2: {1: [BINARY]}}}
PAGE_KIND, PAGE_SIZE, PAGE_STORED, FIRST_FORM, SECOND_FORM = 1, 2, 3, 5, 8
PAGE = {PAGE_KIND: I32, PAGE_SIZE: I32, PAGE_STORED: I32, FIRST_FORM: {1: I32, 2: I32}, SECOND_FORM: {1: I32, 4: I32}}
DICTIONARY_PAGE = 2
# DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY, of which Arrow makes no dictionary.
DELTAS = {6, 7}

# A row for each column chunk: its number of values, its bytes, and where its pages and its dictionary start.
Chunks = npt.NDArray[np.int64]


class Leaf(NamedTuple):
    """A column as Parquet stores it: the path of its names, and whether it lies within lists."""

    path: str
    listed: bool


@dataclass
class Pages:
    """What the pages of a column chunk take.

    Attributes
    ----------
    largest : list of int
        Bytes of the largest dictionary and of the largest other page.
    values : int
        Values of all pages but dictionaries.
    growing : bool
        Whether there are pages whose texts may each be as long as the page.
    """

    largest: list[int] = field(default_factory=lambda: [0, 0])
    values: int = 0
    growing: bool = False


def _chunks(group: dict[int, Any]) -> Chunks:
    """Keep of a row group what is needed of its chunks, in little memory."""
    try:
        described = [chunk[DETAILS] for chunk in group[COLUMNS]]
        rows = [(of[VALUES], of[STORED], of[DATA_OFFSET], of.get(DICTIONARY_OFFSET, 0)) for of in described]
    except KeyError:
        raise ValueError("its footer is damaged") from None
    return np.array(rows, np.int64).reshape(-1, 4)


def _element(element: dict[int, Any]) -> tuple[int, int]:
    """Keep of an element of the schema how long its name is, and how many children it has."""
    return len(element.get(NAME, b"")), element.get(CHILDREN, 0)


FOOTER = {
    **{SCHEMA: [Made({NAME: BINARY, CHILDREN: I32}, _element)], 5: [{}], 7: [{}]},
    ROW_GROUPS: [Made({COLUMNS: [CHUNK], 4: [{}]}, _chunks)],
}


def read_footer(file: Path) -> list[Chunks]:
    """Read from the footer what it says of the column chunks of each row group.

    Not through Arrow, which ends the process (an exception of C++ that nobody catches) where statistics are odd.

    Raises
    ------
    ValueError
        If Arrow would take too much memory for the footer, or might read something else in it.
    """
    with file.open("rb") as stream:
        stream.seek(-8, os.SEEK_END)
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(-8 - length, os.SEEK_END)
        content = stream.read(length)
    try:
        footer = Thrift(content).structure(FOOTER)
    except IndexError:
        raise ValueError("its footer is damaged") from None
    _check_schema(footer.get(SCHEMA, []))
    groups: list[Chunks] = footer.get(ROW_GROUPS, [])
    return groups


def _check_schema(elements: Sequence[tuple[int, int]]) -> None:
    """Refuse columns nested too deeply, and names too long together: each column has a path of all names above it."""
    above: list[list[int]] = []  # the length of the path, and the children to come
    total = 0
    for length, children in elements:
        while above and above[-1][1] <= 0:
            above.pop()
        if above:
            above[-1][1] -= 1
            length += above[-1][0] + 1
        total += length
        above.append([length, children])
        if len(above) > DEEPEST_SCHEMA or total > LONGEST_PATHS:
            raise TooLargeError(
                f"its columns are nested more than {DEEPEST_SCHEMA} deep, or their names take more than "
                f"{LONGEST_PATHS} bytes. Write it with plain columns and short names"
            )


def check_pages(file: Path, groups: Sequence[Chunks], leaves: Sequence[Leaf], columns: Sequence[str]) -> int:
    """Check the pages of some columns of a Parquet file.

    Parameters
    ----------
    file
        The file.
    groups
        What its footer says.
    leaves
        The columns that its schema has, by Arrow's reading of it.
    columns
        Names of those that will be read.

    Returns
    -------
    int
        The longest that a text may grow, 0 if none does.

    Raises
    ------
    ValueError
        If too much would lie in memory at once.
    """
    wanted = _places(leaves, columns)
    growing, largest, size = False, 0, file.stat().st_size
    with file.open("rb") as stream:
        for chunks in groups:
            if len(chunks) != len(leaves):
                raise ValueError(f"a row group has {len(chunks)} columns, and the schema has {len(leaves)}")
            found = {place: _pages(stream, chunks[place].tolist()) for place in wanted}
            check_at_once(sum(sum(pages.largest) for pages in found.values()), size)
            _check_listed(sum(pages.values for place, pages in found.items() if leaves[place].listed), size)
            growing |= any(pages.growing for pages in found.values())
            largest = max([largest, *(max(pages.largest) for pages in found.values())])
    return largest if growing else 0


def _places(leaves: Sequence[Leaf], columns: Sequence[str]) -> list[int]:
    """Places of all leaves that Arrow reads for the names of columns: a name may be any first parts of a path.

    Names may have dots in them, too; a path of very many is looked at whatever it names.
    """
    wanted, places = set(columns), []
    for place, (path, _) in enumerate(leaves):
        ends = [end for end, letter in enumerate(path) if letter == "."] if "." in path else []
        if len(ends) > MOST_PARTS or path in wanted or any(path[:end] in wanted for end in ends):
            places.append(place)
    return places


def _check_listed(values: int, stored: int) -> None:
    """Refuse more values of lists in a row group than may lie in memory; `stored` is the size of the file."""
    most = max(MOST_LISTED, LARGEST_RATIO * stored)
    if values > most:
        raise TooLargeError(
            f"the lists of one row group hold {values} values, and {most} are allowed, because a single row may hold "
            "them all. Write it in smaller row groups (row_group_size)"
        )


def _pages(stream: BinaryIO, chunk: Sequence[int]) -> Pages:
    """Read the headers of all pages of a column chunk."""
    values, size, start, first = chunk
    start = first if 0 < first < start else start
    end = start + size if values > 0 else start
    found = Pages()
    while start < end:
        header, length = _page_header(stream, start)
        forms = header.get(FIRST_FORM, {}), header.get(SECOND_FORM, {})
        size, stored, counts = header[PAGE_SIZE], header[PAGE_STORED], [form.get(1, 0) for form in forms]
        if min(size, stored, *counts) < 0:
            raise ValueError("a page claims a negative size")
        other = int(header[PAGE_KIND] != DICTIONARY_PAGE)
        found.largest[other] = max(found.largest[other], size)
        found.values += max(counts)
        found.growing |= not DELTAS.isdisjoint((forms[0].get(2), forms[1].get(4)))
        start += length + stored
    return found


def _page_header(stream: BinaryIO, start: int) -> tuple[dict[int, Any], int]:
    """Return the header of the page that starts here, which has kind and sizes, and its length."""
    for most in (SHORT_PAGE_HEADER, LONGEST_PAGE_HEADER):
        stream.seek(start)
        header = Thrift(stream.read(most))
        try:
            fields = header.structure(PAGE)
        except IndexError:
            continue
        if all(number in fields for number in (PAGE_KIND, PAGE_SIZE, PAGE_STORED)):
            return fields, header.place
    raise ValueError("the header of a page is damaged")
