"""What people type, turned into what the library takes."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sfumato.cli.flags import BOUNDS_FORMS, Unseen
from sfumato.errors import InputError
from sfumato.public.canonical_json import parse

if TYPE_CHECKING:
    from sfumato.kernels import Circle, Overlap, Sphere
    from sfumato.sources import Source


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
