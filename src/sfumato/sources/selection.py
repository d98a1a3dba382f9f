"""Which columns make up a point, which names its user and which holds its weight.

Names or positions are turned into positions, or into an error that lists what is there.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from sfumato.errors import InputError, OddDataWarning
from sfumato.kernels.product import Overlap
from sfumato.public.arguments import listed
from sfumato.public.codec import brief
from sfumato.public.ranges import MOST_COLUMNS

# Columns that have names, each of which costs text and tables a few kilobytes of memory, used or not.
MOST_NAMED_COLUMNS = 2**15

_WITH_LENGTH = re.compile(r"(.+)\[([1-9][0-9]{0,6})\]", re.DOTALL)

Column = str | int
Columns = Sequence[Column]


@dataclass(frozen=True)
class Selection:
    """What a caller asks of the columns, each by its name or its position from 0.

    Attributes
    ----------
    columns
        Coordinates of a point, in this order; None for all columns that are neither key nor weight.
    key
        The column that names the user a row belongs to.
    weight
        The column that holds a row's weight.
    categories
        Coordinates that are categories, with their public values.
    """

    columns: Columns | None = None
    key: Column | None = None
    weight: Column | None = None
    categories: Mapping[Column, Overlap] | None = None

    def choose(self, names: Sequence[str] | None, count: int, origin: str) -> Chosen:
        """Find the columns among those present.

        Parameters
        ----------
        names
            Names of the columns present, or None where they have only positions.
        count
            Number of columns present.
        origin
            What the data is called in error messages.
        """
        most = MOST_COLUMNS if names is None else MOST_NAMED_COLUMNS
        if count > most:
            raise InputError(
                f"{origin} has {count} columns, and {most} can be read. Leave some out, or save embeddings as an array "
                "or as one column of fixed-size lists."
            )
        if names is not None:
            check_unique(names, origin)
        if count == 0:
            raise InputError(f"{origin} has no columns. A point needs at least one coordinate.")
        key, weight = (
            None if column is None else _position(column, names, count, origin, argument)
            for argument, column in (("key", self.key), ("weight", self.weight))
        )
        if key is not None and key == weight:
            raise InputError(f"key={self.key!r} and weight={self.weight!r} are one column. Pass different ones.")
        beside = {position for position in (key, weight) if position is not None}
        columns, lengths = self._columns_and_lengths(names)
        if columns is None:
            coordinates = [position for position in range(count) if position not in beside]
        else:
            coordinates = _coordinates(columns, names, count, origin)
        if not coordinates:
            raise InputError(
                f"{origin} has no column beside its key and weight. A point needs at least one coordinate."
            )
        if beside.intersection(coordinates):
            raise InputError(
                "columns= holds the column of key= or weight=, which is no coordinate of a point. "
                "Leave it out of columns=."
            )
        coded = self._coded(coordinates, names, count, origin)
        declared = {coordinates[place]: length for place, length in lengths.items()}
        return Chosen(tuple(coordinates), key, weight, coded, declared)

    def lengths(self, names: Sequence[str] | None) -> dict[str | int, int]:
        """Return the declared lengths by the names, or positions, of the columns."""
        columns, lengths = self._columns_and_lengths(names)
        return {(columns or [])[place]: length for place, length in lengths.items()}

    def _columns_and_lengths(self, names: Sequence[str] | None) -> tuple[Columns | None, dict[int, int]]:
        """Take the lengths off columns that are named with one, as in "embedding[384]", unless that is their name."""
        if self.columns is None or isinstance(self.columns, str | int | np.integer):
            return self.columns, {}
        columns, lengths = listed("columns", self.columns), {}
        for place, column in enumerate(columns):
            found = None if not isinstance(column, str) or column in (names or ()) else _WITH_LENGTH.fullmatch(column)
            if found is not None:
                name, lengths[place] = found[1], int(found[2])
                columns[place] = name if names is not None else int(name) if name.isdecimal() else name
        return columns, lengths

    def _coded(
        self, coordinates: list[int], names: Sequence[str] | None, count: int, origin: str
    ) -> dict[int, Overlap]:
        coded: dict[int, Overlap] = {}
        for column, category in (self.categories or {}).items():
            position = _position(column, names, count, origin, "categories")
            if position not in coordinates:
                raise InputError(f"categories= holds {column!r}, which is no coordinate of a point. Leave it out.")
            if position in coded:
                raise InputError(f"categories= names the column {column!r} twice. Name it once.")
            coded[position] = category
        return coded


@dataclass(frozen=True)
class Chosen:
    """Positions of the selected columns.

    Attributes
    ----------
    coordinates
        Those that make up a point, in order.
    key, weight
        Those of user and weight, or None.
    coded
        Those among the coordinates that are categories.
    lengths
        Public lengths of those that are lists, where the caller declares one.
    """

    coordinates: tuple[int, ...]
    key: int | None = None
    weight: int | None = None
    coded: Mapping[int, Overlap] = field(default_factory=dict)
    lengths: Mapping[int, int] = field(default_factory=dict)

    def check_no_lists(self, origin: str) -> None:
        """Refuse a declared length where columns cannot hold lists."""
        if self.lengths:
            raise InputError(f"{origin} has no columns of lists. Leave the length, in brackets, out of columns=.")

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of all columns that must hold numbers: the coordinates but for categories, then the weight."""
        coordinates = tuple(position for position in self.coordinates if position not in self.coded)
        return coordinates if self.weight is None else (*coordinates, self.weight)

    @property
    def categories(self) -> dict[int, Overlap]:
        """The categories by their places among the coordinates."""
        return {self.coordinates.index(position): category for position, category in self.coded.items()}


def as_declared(names: Sequence[str]) -> list[str]:
    """Return names of points' columns as the columns of data are asked for: those of a list by its name and length.

    Examples
    --------
    >>> as_declared(["age", "embedding[0]", "embedding[1]"])
    ['age', 'embedding[2]']
    """
    declared: list[str] = []
    for name in names:
        before = _WITH_LENGTH.fullmatch(declared[-1]) if declared else None
        if before is not None and name == declared[-1]:  # "embedding[1]" after the list of one that it lengthens
            declared[-1] = f"{before[1]}[{int(before[2]) + 1}]"
        else:
            declared.append(f"{name[:-3]}[1]" if name.endswith("[0]") and len(name) > 3 else name)
    return declared


@contextmanager
def arguments_named(**names: str) -> Iterator[None]:
    """Let errors say the names that the caller's own interface has for the arguments of `open_source`.

    Examples
    --------
    >>> with arguments_named(key="users"):
    ...     raise InputError("Pass key= with these.")
    Traceback (most recent call last):
    sfumato.errors.InputError: Pass users= with these.
    """
    try:
        yield
    except InputError as error:
        text = str(error)
        for name, own in names.items():
            text = re.sub(rf"\b{name}=", own if own[0] == "-" else f"{own}=", text)
        raise type(error)(text) from error


def listing(items: Iterable[str], most: int = 30) -> str:
    """Join for an error message, cut where a wide table would fill the screen."""
    shown = list(items)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def check_unique(names: Sequence[str], origin: str) -> None:
    """Refuse data in which a name is used twice: a selection by name would be ambiguous."""
    twice = [repr(name) for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(
            f"{origin}: column name {listing(twice)} appears more than once among the columns "
            f"{listing(map(repr, names))}. Rename them."
        )


def _coordinates(columns: Columns, names: Sequence[str] | None, count: int, origin: str) -> list[int]:
    if isinstance(columns, str | int | np.integer):
        raise InputError(f"columns={brief(columns)} must be a list. Pass columns=[{brief(columns)}].")
    chosen = [_position(column, names, count, origin, "columns") for column in columns]
    if not chosen:
        raise InputError(f"columns= is empty. Pass at least one of the columns of {origin}: {_present(names, count)}.")
    if len(set(chosen)) < len(chosen):
        twice = [repr(columns[i]) for i, position in enumerate(chosen) if position in chosen[:i]]
        raise InputError(f"columns= selects {listing(twice)} more than once. Name each column once.")
    return chosen


def _present(names: Sequence[str] | None, count: int) -> str:
    return f"positions 0 to {count - 1}" if names is None else listing(map(repr, names))


def _position(column: object, names: Sequence[str] | None, count: int, origin: str, argument: str) -> int:
    present = _present(names, count)
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if not 0 <= column < count:
            raise InputError(f"{origin} has no column at position {brief(column)}; there are {count}: {present}.")
        return int(column)
    if not isinstance(column, str):
        wanted = "names or positions (integers from 0)" if argument == "columns" else "a name or a position"
        raise InputError(f"{argument}= holds {brief(column)}. Pass {wanted} among: {present}.")
    if names is None:
        raise InputError(f"{origin} has no column names, so {column!r} selects nothing. Pass {present}.")
    if column not in names:
        raise InputError(f"{origin} has no column {column!r}; its columns are {present}. Pass {argument}= with these.")
    return list(names).index(column)


def no_numbers(names: Sequence[str], without: Sequence[str], origin: str) -> InputError:
    """Build the error for untyped data of which some selected columns (`without`) hold no number at all."""
    return InputError(_no_numbers(names, without, origin))


def warn_of_no_numbers(names: Sequence[str], without: Sequence[str], origin: str) -> None:
    """Tell the curator the same without an error: one record with a number in it must not decide what happens."""
    text = f"{_no_numbers(names, without, origin)} Rows without a number in a selected column are dropped."
    warnings.warn(text, OddDataWarning, stacklevel=2)


def _no_numbers(names: Sequence[str], without: Sequence[str], origin: str) -> str:
    numeric = [name for name in names if name not in without]
    fix = f"for example columns=[{listing(map(repr, numeric))}]" if numeric else "or turn its text into numbers first"
    holds = "column {} holds" if len(without) == 1 else "columns {} hold"
    return (
        f"{origin}: {holds.format(listing(map(repr, without)))} no numbers. "
        f"Selected were {listing(map(repr, names))}. Pass columns= with numeric columns only, {fix}. "
        f"If it holds lists, name it with their length, such as '{without[0]}[384]'."
    )
