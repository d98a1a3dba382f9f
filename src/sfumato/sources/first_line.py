"""The first line of delimited text: names of columns, or already a row.

Names are published with a release, so what may be somebody's record must not be taken for them. The functions here look
at that one line; `number` is the regular expression of a number in it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import pyarrow.csv

from sfumato.errors import InputError
from sfumato.sources.selection import MOST_NAMED_COLUMNS, Selection

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NULLS = frozenset(pyarrow.csv.ConvertOptions().null_values)


def split_head(lines: bytes) -> tuple[bytes, bytes]:
    """First line that is not blank, and what follows it (its line break included)."""
    text = lines.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
    ends = [place for place in (text.find(b"\n"), text.find(b"\r")) if place >= 0]
    end = min(ends, default=len(text))
    return text[:end], text[end:]


def cells_of(head: bytes, separator: str, origin: str) -> list[str]:
    """Cells of the line, without blanks around them."""
    if not head:
        raise InputError(f"{origin} is empty: it has not even a header. Write the column names in its first line.")
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{origin}: the first line is not UTF-8 text. Save the file as UTF-8.") from error
    if text.count(separator) > MOST_NAMED_COLUMNS:
        raise InputError(
            f"{origin}: the first line names more than {MOST_NAMED_COLUMNS} columns. "
            "Leave some out, or save the numbers as .npy or .parquet."
        )
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=separator))]
    except csv.Error as error:
        raise InputError(f"{origin}: the first line cannot be read as column names ({error}).") from error


def is_data(cells: Sequence[str], number: str) -> bool:
    """Tell whether the cells are a row: numbers and nulls, and not nulls alone."""
    values = [cell for cell in cells if cell not in NULLS]
    return bool(values) and all(re.fullmatch(number, cell) for cell in values)


def holds_values(cells: Sequence[str], number: str) -> bool:
    """Tell whether cells of a first line look like values: numbers, other than a count 0, 1, 2, ... or 1, 2, 3, ..."""
    numbers = [cell for cell in cells if re.fullmatch(number, cell)]
    counts = [[str(place) for place in range(start, start + len(numbers))] for start in (0, 1)]
    return bool(numbers) and (len(numbers) < 2 or numbers not in counts)


def check_separator(names: Sequence[str], selection: Selection, separator: str, origin: str) -> None:
    """Refuse a line of names that looks like several columns with another separator; no value is looked at."""
    if len(names) != 1 or selection.columns == names:
        return
    other = next((mark for mark in (";", "\t", "|", ",") if mark != separator and mark in names[0]), None)
    if other is None:
        return
    shown, columns = repr(other), len(names[0].split(other))
    raise InputError(
        f"{origin}: the line of names is one column, {names[0]!r}, and looks like {columns} separated by {shown}. "
        f"Pass separator={shown} (and often decimal=','), save it with {separator!r} and "
        f"decimal points, or pass columns= with that name if it is one column."
    )
