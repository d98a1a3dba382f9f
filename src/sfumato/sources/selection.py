"""Which columns make up a point: names or positions turned into positions, or an error that lists what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from sfumato.errors import InputError

Columns = Sequence[str | int]


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


def choose(columns: Columns | None, names: Sequence[str] | None, count: int, origin: str) -> list[int]:
    """Positions of the selected columns, in the order asked for; all of them where `columns` is None.

    Parameters
    ----------
    columns
        Names, positions counted from 0, or a mix of both.
    names
        Names of the columns present, or None where they have only positions.
    count
        Number of columns present.
    origin
        What the data is called in error messages.
    """
    if names is not None:
        check_unique(names, origin)
    present = f"positions 0 to {count - 1}" if names is None else listing(map(repr, names))
    if count == 0:
        raise InputError(f"{origin} has no columns. A point needs at least one coordinate.")
    if columns is None:
        return list(range(count))
    if isinstance(columns, str | int | np.integer):
        raise InputError(f"columns={columns!r} must be a list. Pass columns=[{columns!r}].")
    chosen = [_position(column, names, count, origin, present) for column in columns]
    if not chosen:
        raise InputError(f"columns= is empty. Pass at least one of the columns of {origin}: {present}.")
    if len(set(chosen)) < len(chosen):
        twice = [repr(columns[i]) for i, position in enumerate(chosen) if position in chosen[:i]]
        raise InputError(f"columns= selects {listing(twice)} more than once. Name each column once.")
    return chosen


def _position(column: object, names: Sequence[str] | None, count: int, origin: str, present: str) -> int:
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if not 0 <= column < count:
            raise InputError(f"{origin} has no column at position {column}; there are {count}: {present}.")
        return int(column)
    if not isinstance(column, str):
        raise InputError(f"columns= holds {column!r}. Pass names or positions (integers from 0) among: {present}.")
    if names is None:
        raise InputError(f"{origin} has no column names, so {column!r} selects nothing. Pass {present}.")
    if column not in names:
        raise InputError(f"{origin} has no column {column!r}; its columns are {present}. Pass columns= with these.")
    return list(names).index(column)


def no_numbers(names: Sequence[str], without: Sequence[str], origin: str) -> InputError:
    """Build the error for untyped data of which some selected columns (`without`) hold no number at all."""
    numeric = [name for name in names if name not in without]
    fix = f"for example columns=[{listing(map(repr, numeric))}]" if numeric else "or turn its text into numbers first"
    holds = "column {} holds" if len(without) == 1 else "columns {} hold"
    return InputError(
        f"{origin}: {holds.format(listing(map(repr, without)))} no numbers. "
        f"Selected were {listing(map(repr, names))}. Pass columns= with numeric columns only, {fix}."
    )
