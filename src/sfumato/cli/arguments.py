"""What people type, turned into what the library takes; and the options that several commands share."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

import typer

from sfumato.errors import InputError
from sfumato.public.canonical_json import parse

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Ledger
    from sfumato.sources import Source

BOUNDS_FORMS = (
    "--bounds 0,10 for all columns, --bounds '0,10;-5,5' for one pair per column, or --bounds NAME=0,10 repeated"
)
POINTS = "Points"
JSON_HELP = "Print one JSON document instead of text."
LEDGER_HELP = "The ledger file; 'sfumato ledger path' shows the default."

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Points, one row a record: .csv, .tsv (also .gz), .parquet (file or folder), .npy, .npz (file.npz:NAME), "
        ".arrow, .feather.",
        show_default=False,
    ),
]
ReleaseArgument = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file (.sfm).", show_default=False)]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A,B,...",
        help="Columns that make up a point, in this order: names, or positions from 0 in .npy and .npz files. "
        "All columns by default.",
        rich_help_panel=POINTS,
    ),
]
BoundsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="LO,HI",
        help="Public bounds, never read off the data: LO,HI for all columns, 'LO,HI;LO,HI' for one pair per column, "
        "or NAME=LO,HI repeated.",
        rich_help_panel=POINTS,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", metavar="PATH", help=LEDGER_HELP)]


def parse_columns(text: str | None, data: str) -> list[str | int] | None:
    """Read a list of columns; arrays without names are selected by position.

    Examples
    --------
    >>> parse_columns('lon,"height, m"', "trips.csv"), parse_columns("2,0", "trips.npy")
    (['lon', 'height, m'], [2, 0])
    """
    if text is None:
        return None
    try:
        columns = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:  # a line break or a field without end
        columns = []
    if not columns or "" in columns:
        raise InputError(f"--columns must be names separated by commas, got {text!r}")
    return [one_column(name, data) for name in columns]


@overload
def one_column(name: str, data: str) -> str | int: ...
@overload
def one_column(name: None, data: str) -> None: ...
@overload
def one_column(name: str | None, data: str) -> str | int | None: ...
def one_column(name: str | None, data: str) -> str | int | None:
    """Read the name of one column; a position where the file is an array without names.

    Examples
    --------
    >>> one_column("person", "trips.csv"), one_column("3", "trips.npy")
    ('person', 3)
    """
    unnamed = ".npz:" in data or data.lower().endswith((".npy", ".npz"))
    return int(name) if name is not None and unnamed and re.fullmatch("[0-9]{1,9}", name) else name


def parse_numbers(text: str, flag: str) -> list[float]:
    """Read numbers separated by commas.

    Examples
    --------
    >>> parse_numbers("1, 2.5", "--at")
    [1.0, 2.5]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{flag} must be numbers separated by commas, such as 0.5 or 0.5,2; got {text!r}") from None


def parse_bandwidth(text: str) -> float | list[float]:
    """Read one bandwidth, or one per column.

    Examples
    --------
    >>> parse_bandwidth("0.5"), parse_bandwidth("0.5,2")
    (0.5, [0.5, 2.0])
    """
    lengths = parse_numbers(text, "--bandwidth")
    return lengths[0] if len(lengths) == 1 else lengths


def parse_bounds(texts: Sequence[str] | None, source: Source) -> list[list[float]] | list[float] | None:
    """Read bounds in any of their three forms, named ones with the names of the source's columns."""
    if not texts:
        return None
    if all("=" in text for text in texts):
        return _named_bounds(texts, source)
    if len(texts) > 1:
        raise InputError(f"--bounds is given {len(texts)} times without names; pass {BOUNDS_FORMS}")
    pairs = [_pair(part) for part in texts[0].split(";")]
    return pairs[0] if len(pairs) == 1 else pairs


def _named_bounds(texts: Sequence[str], source: Source) -> list[list[float]]:
    names = source.column_names or tuple(map(str, range(source.dimension)))
    pairs: dict[str, list[float]] = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        if name not in names:
            raise InputError(f"--bounds names the column {name!r}; the points' columns are {', '.join(names)}")
        if name in pairs:
            raise InputError(f"--bounds names the column {name!r} twice; pass one pair for each column")
        pairs[name] = _pair(pair)
    missing = [name for name in names if name not in pairs]
    if missing:
        raise InputError(
            f"--bounds leaves out the column {missing[0]!r}; pass NAME=LO,HI for each of {', '.join(names)}"
        )
    return [pairs[name] for name in names]


def _pair(text: str) -> list[float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise InputError(f"--bounds must be pairs of numbers, got {text!r}; pass {BOUNDS_FORMS}") from None
    return [low, high]


def parse_options(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read ``name=value`` options; a value that is not a number (or other JSON) is text.

    Examples
    --------
    >>> parse_options(["n_features=500", "layout=pair"])
    {'n_features': 500, 'layout': 'pair'}
    """
    options: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InputError(f"--option must be NAME=VALUE, such as n_features=500; got {text!r}")
        if name in options:
            raise InputError(f"--option {name} is given twice; pass it once")
        try:
            options[name] = parse(value)
        except InputError:
            options[name] = value
    return options


def open_ledger(path: Path | None) -> Ledger:
    """Open the ledger at `path`, or the default one."""
    from sfumato.privacy.ledger import Ledger, default_ledger_path

    return Ledger(default_ledger_path() if path is None else path)


def dataset_name(data: str) -> str:
    """Name of a data set that was given none: the absolute path of its file, whatever way it was reached."""
    return os.path.realpath(data)
