"""Which columns make up a point, which names its user and which holds its weight.

Names or positions are turned into positions, or into an error that lists what is there.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.errors import InputError, OddDataWarning
from sfumato.kernels.product import Overlap
from sfumato.public.ranges import MOST_COLUMNS

# Columns that have names, each of which costs text and tables a few kilobytes of memory, used or not.
MOST_NAMED_COLUMNS = 2**15

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
        if self.columns is None:
            coordinates = [position for position in range(count) if position not in beside]
        else:
            coordinates = _coordinates(self.columns, names, count, origin)
        if not coordinates:
            raise InputError(
                f"{origin} has no column beside its key and weight. A point needs at least one coordinate."
            )
        if beside.intersection(coordinates):
            raise InputError(
                "columns= holds the column of key= or weight=, which is no coordinate of a point. "
                "Leave it out of columns=."
            )
        return Chosen(tuple(coordinates), key, weight, self._coded(coordinates, names, count, origin))

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
    """

    coordinates: tuple[int, ...]
    key: int | None = None
    weight: int | None = None
    coded: Mapping[int, Overlap] = field(default_factory=dict)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of all columns that must hold numbers: the coordinates but for categories, then the weight."""
        coordinates = tuple(position for position in self.coordinates if position not in self.coded)
        return coordinates if self.weight is None else (*coordinates, self.weight)

    @property
    def categories(self) -> dict[int, Overlap]:
        """The categories by their places among the coordinates."""
        return {self.coordinates.index(position): category for position, category in self.coded.items()}


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
        raise InputError(f"columns={columns!r} must be a list. Pass columns=[{columns!r}].")
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
            raise InputError(f"{origin} has no column at position {column}; there are {count}: {present}.")
        return int(column)
    if not isinstance(column, str):
        wanted = "names or positions (integers from 0)" if argument == "columns" else "a name or a position"
        raise InputError(f"{argument}= holds {column!r}. Pass {wanted} among: {present}.")
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
        f"Selected were {listing(map(repr, names))}. Pass columns= with numeric columns only, {fix}."
    )
