"""The options that commands share, one definition each; and what people type, turned into what the library takes."""

from __future__ import annotations

import csv
import os
import re
import stat
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

import typer

from sfumato.errors import InputError
from sfumato.privacy.datasets import identity_of, same_file
from sfumato.public.canonical_json import parse

if TYPE_CHECKING:
    from sfumato.kernels import Circle, Overlap, Sphere
    from sfumato.sources import Source

BOUNDS_FORMS = (
    "--bounds 0,10 for all columns, --bounds '0,10;-5,5' for one pair per column, or --bounds NAME=0,10 repeated"
)
NEEDED, POINTS, PRIVACY, RUN = "Needed, and never read off the data", "Points", "Privacy", "Run and output"


def flag(text: str, metavar: str | None = None, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Describe an option: its help, what stands for its value, its names (the parameter's by default), its panel."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


def argument(text: str, metavar: str) -> Any:
    """Describe what is not an option."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


class Neighbours(StrEnum):
    """Neighbouring relations, as flags' values."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


class Outside(StrEnum):
    """What happens to values beyond the bounds, as flags' values."""

    CLIP = "clip"
    DROP = "drop"


class Unseen(StrEnum):
    """What happens to records with a value that is not in its category's list, as flags' values."""

    DROP = "drop"
    OTHER = "other"


# What is read.
DATA_HELP = (
    "Points, one row a record: .csv, .tsv (also .gz), .parquet, .npy, .npz (file.npz:NAME), .arrow, .feather; a folder "
    "of such files, or a quoted pattern of their names."
)
Data = Annotated[str, argument(DATA_HELP, "DATA")]
ManyData = Annotated[list[str], argument(f"{DATA_HELP} Several files of the same columns are read as one.", "DATA")]
ReleaseFile = Annotated[Path, argument("A release file (.sfm).", "RELEASE")]
ProtocolFile = Annotated[Path, argument("A protocol file (.json).", "PROTOCOL")]
Columns = Annotated[
    str | None,
    flag(
        "Columns that make up a point, in this order: names, or positions from 0 in .npy and .npz files; a column of "
        "lists with its length, as in 'embedding[384]'. All columns by default.",
        "A,B,...",
        "--columns",
        panel=POINTS,
    ),
]
Bounds = Annotated[
    list[str] | None,
    flag(
        "Public bounds, never read off the data: LO,HI for all columns, 'LO,HI;LO,HI' for one pair per column, "
        "or NAME=LO,HI repeated.",
        "LO,HI",
        "--bounds",
        panel=POINTS,
    ),
]

Separator = Annotated[
    str | None, flag("What stands between the fields of text, such as ';'; never guessed.", "CHAR", panel=POINTS)
]
Decimal = Annotated[str | None, flag("The decimal mark of text, such as ','.", "CHAR", panel=POINTS)]

Categories = Annotated[
    list[str] | None,
    flag(
        "A column of categories and a file of its public values, one a line, never read off the data. Repeatable. "
        "Bandwidths and bounds are then those of the other columns.",
        "NAME=FILE",
        "--category",
        panel=POINTS,
    ),
]
Mismatch = Annotated[
    list[str] | None,
    flag(
        "How similar different values are, from 0 to below 1: of all categories, or NAME=L repeated.", "L", panel=POINTS
    ),
]
UnseenOption = Annotated[
    Unseen, flag("Records with a value that is not in its file: drop them, or count them as 'other'.", panel=POINTS)
]

Circles = Annotated[
    list[str] | None,
    flag(
        "A column that comes back after a period: 24 for hours, 7 for weekdays, 360 for degrees. Repeatable.",
        "NAME=PERIOD",
        "--circle",
        panel=POINTS,
    ),
]
Spheres = Annotated[
    list[str] | None,
    flag(
        "Columns of latitude and longitude in degrees. Bandwidths are then in the radius's unit: kilometres on Earth, "
        "unless another radius is given.",
        "LAT,LON[=RADIUS]",
        "--sphere",
        panel=POINTS,
    ),
]

# What is bought, and whose account pays.
LEDGER_HELP = "The ledger file; 'sfumato ledger path' shows the default."
Delta = Annotated[float, flag("0 for a pure guarantee.", "D", panel=PRIVACY)]
Method = Annotated[str, flag("The mechanism.", "NAME", panel=PRIVACY)]
Dataset = Annotated[
    str | None,
    flag(
        "The data's account in the ledger; by default the file's absolute path. Releases of the same people belong "
        "under one name.",
        "NAME",
        panel=PRIVACY,
    ),
]
Ledger = Annotated[Path | None, flag(LEDGER_HELP, "PATH", "--ledger")]
CuratorsLedger = Annotated[Path | None, flag(LEDGER_HELP, "PATH", panel=PRIVACY, show_default=False)]
NoLedger = Annotated[bool, flag("Keep no record of the spending.", None, "--no-ledger", panel=PRIVACY)]
FeatureSeed = Annotated[
    int | None, flag("Public seed of the features; drawn at random by default.", "N", panel=PRIVACY)
]
Seed = Annotated[
    int | None,
    flag("Seed the noise, for tests: the release is marked NOT PRIVATE and not charged.", "N", panel=PRIVACY),
]
CoinsSeed = Annotated[int | None, flag("Seed the coins, for tests: the release is marked NOT PRIVATE.", "N")]
MaxDelta = Annotated[float, flag("Largest probability with which the promise may fail.", "P")]
Point = Annotated[str | None, flag("With your point; standard input by default.", "FILE")]
DrawingSeed = Annotated[int | None, flag("Seed of the drawing, which is no secret.", "N")]

# What is written, and how it is told.
Target = Annotated[Path | None, flag("The file to write.", "OUT.sfm", "-o", "--output", panel=NEEDED)]
Output = Annotated[Path, flag("The release to write.", "OUT.sfm", "-o", "--output")]
ProtocolOutput = Annotated[Path, flag("The protocol file to write.", "FILE", "-o", "--output")]
TableOutput = Annotated[
    Path | None, flag("Write .csv or .parquet instead of CSV on the screen.", "FILE", "-o", "--output")
]
Threads = Annotated[int | None, flag("Threads of the sum; all by default.", "N", panel=RUN, min=1)]
Look = Annotated[
    bool | None,
    flag(
        "Look at the first rows before the charge, for the curator's eyes only, and ask if something is odd; by "
        "default on a terminal. Where there is none and nobody answers, the answer is no.",
        None,
        "--look/--no-look",
        panel=RUN,
        show_default=False,
    ),
]
FORCE_HELP, JSON_HELP = "Replace an existing file.", "Print one JSON document instead of text."
Force = Annotated[bool, flag(FORCE_HELP, None, "--force")]
ForceRun = Annotated[bool, flag(FORCE_HELP, None, "--force", panel=RUN)]
Json = Annotated[bool, flag(JSON_HELP, None, "--json")]
JsonRun = Annotated[bool, flag(JSON_HELP, None, "--json", panel=RUN)]
Quiet = Annotated[bool, flag("Print nothing but errors and warnings.", None, "--quiet", "-q", panel=RUN)]


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


def parse_classes(text: str) -> list[str]:
    """Read a list of classes.

    Examples
    --------
    >>> parse_classes('world, "arts, letters"')
    ['world', 'arts, letters']
    """
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not names or "" in names:
        raise InputError(f"--classes must be names separated by commas, got {text!r}")
    return names


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


def parse_pairs(text: str, flag: str) -> list[float] | list[list[float]]:
    """Read pairs separated by semicolons; one alone is for all columns.

    Examples
    --------
    >>> parse_pairs("0,1", "--extent"), parse_pairs("0,1;2,3", "--extent")
    ([0.0, 1.0], [[0.0, 1.0], [2.0, 3.0]])
    """
    pairs = [parse_numbers(part, flag) for part in text.split(";")]
    return pairs[0] if len(pairs) == 1 else pairs


def parse_bandwidth(text: str) -> float | list[float]:
    """Read one bandwidth, or one per column.

    Examples
    --------
    >>> parse_bandwidth("0.5"), parse_bandwidth("0.5,2")
    (0.5, [0.5, 2.0])
    """
    lengths = parse_numbers(text, "--bandwidth")
    return lengths[0] if len(lengths) == 1 else lengths


def parse_kinds(circles: Sequence[str] | None, spheres: Sequence[str] | None, data: str) -> dict[Any, Circle | Sphere]:
    """Read the columns that close on themselves."""
    from sfumato.kernels import Circle, Sphere

    found: dict[Any, Circle | Sphere] = {}
    for text in circles or ():
        name, equals, period = text.rpartition("=")
        if not name or not equals:
            raise InputError(f"--circle must be NAME=PERIOD, such as hour=24; got {text!r}")
        found[one_column(name, data)] = Circle(parse_numbers(period, "--circle")[0])
    for text in spheres or ():
        names, _, radius = text.partition("=")
        columns = tuple(one_column(name.strip(), data) for name in names.split(","))
        if len(columns) != Sphere.given:
            raise InputError(f"--sphere must be LAT,LON, two columns, or LAT,LON=RADIUS; got {text!r}")
        found[columns] = Sphere(parse_numbers(radius, "--sphere")[0]) if radius else Sphere()
    return found


def parse_categories(
    texts: Sequence[str] | None, mismatch: Sequence[str] | None, unseen: Unseen, data: str
) -> dict[str | int, Overlap]:
    """Read the categories: their columns, and the files of their values."""
    from sfumato.kernels import Overlap

    similar, found = _mismatches(mismatch), {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not name or not equals or not path:
            raise InputError(f"--category must be NAME=FILE, a column and a file of its values; got {text!r}")
        if name in found:
            raise InputError(f"--category names the column {name!r} twice; pass it once")
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: the values of {name!r} cannot be read ({error})") from None
        values = [line.strip() for line in lines if line.strip()]
        found[name] = Overlap(values, similar.get(name, similar.get("", 0.0)), unseen.value)
    if unknown := [name for name in similar if name and name not in found]:
        raise InputError(f"--mismatch names {unknown[0]!r}, which is no category; pass --category {unknown[0]}=FILE")
    if similar and not found:
        raise InputError("--mismatch is for categories: pass --category NAME=FILE too")
    return {one_column(name, data): category for name, category in found.items()}


def category_files(texts: Sequence[str] | None) -> list[str]:
    """Files that `parse_categories` reads.

    Examples
    --------
    >>> category_files(["kind=kinds.txt"])
    ['kinds.txt']
    """
    return [path for text in texts or () if (path := text.partition("=")[2])]


def _mismatches(texts: Sequence[str] | None) -> dict[str, float]:
    """Similarities by the categories' names; the empty name stands for all others."""
    found = {}
    for text in texts or ():
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise InputError(f"--mismatch must be a number, or NAME=number; got {text!r}") from None
    return found


def parse_bounds(texts: Sequence[str] | None, source: Source) -> list[list[float]] | list[float] | None:
    """Read bounds in any of their three forms, named ones with the names of the source's columns of numbers."""
    every = source.column_names or map(str, range(source.dimension))
    return read_bounds(texts, (name for place, name in enumerate(every) if place not in source.categories))


def read_bounds(texts: Sequence[str] | None, names: Iterable[str]) -> list[list[float]] | list[float] | None:
    """Read the same where there are no points yet, named ones with these names.

    Examples
    --------
    >>> read_bounds(["y=0,1", "x=-5,5"], ["x", "y"])
    [[-5.0, 5.0], [0.0, 1.0]]
    """
    if not texts:
        return None
    if all("=" in text for text in texts):
        return _named_bounds(texts, list(names))
    if len(texts) > 1:
        raise InputError(f"--bounds is given {len(texts)} times without names; pass {BOUNDS_FORMS}")
    pairs = [_pair(part) for part in texts[0].split(";")]
    return pairs[0] if len(pairs) == 1 else pairs


def _named_bounds(texts: Sequence[str], names: list[str]) -> list[list[float]]:
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


def refuse_unkept(output: Path) -> None:
    """Refuse to write what is paid for to a place that does not keep it: a pipe, a device, the screen."""
    if str(output) == "-":
        raise InputError("-o - would print what is paid for and keep nothing: pass the path of a file")
    try:
        mode = os.stat(output).st_mode
    except (OSError, ValueError):
        return  # there is nothing yet, or it is refused when it is opened
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{str(output)!r} is no file and keeps nothing of what is paid for: pass the path of a file")


def refuse_existing(output: Path, force: bool) -> None:
    """Refuse a name that is taken before anything else is written."""
    if not force and output.is_file():
        raise InputError(f"{str(output)!r} exists already; pass another path, or --force to replace it")


def refuse_inputs(output: str | Path | None, *inputs: str | Path | None) -> None:
    """Refuse to write over what is read, which --force does not ask for."""
    if output is None:
        return
    written = os.path.realpath(output)
    for given in inputs:
        if given is None or str(given) == "-":
            continue
        read = identity_of(given)
        within = os.path.isdir(read) and os.path.exists(written) and written.startswith(os.path.join(read, ""))
        if written == read or within or same_file(written, read):
            raise InputError(
                f"{str(output)!r} is read by this command and stays as it is, with --force too; pass another path to -o"
            )
