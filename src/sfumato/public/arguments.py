"""What callers pass in Python, checked for its type: texts, lists, mappings, numbers and seeds.

Documents are read by `public.codec`; this is its counterpart for arguments, which may be objects of any type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from numbers import Integral
from typing import Any

from sfumato.errors import InputError
from sfumato.public.codec import brief
from sfumato.public.portable import LARGEST_SEED
from sfumato.public.ranges import MOST_COLUMNS as MOST_LISTED
from sfumato.public.ranges import plain_number


def says(value: object, word: str) -> bool:
    """Whether an argument of several types is this text; arrays compare item by item.

    Examples
    --------
    >>> says("auto", "auto"), says([], "auto")
    (True, False)
    """
    return isinstance(value, str) and value == word


def checked_mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """Return a mapping; None is an empty one.

    Examples
    --------
    >>> checked_mapping("options", None)
    {}
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping, such as a dict, got {brief(value)}")
    return value


def listed(name: str, value: Any, most: int = MOST_LISTED) -> list[Any]:
    """Return what a caller lists, read once and no further than allowed.

    Examples
    --------
    >>> listed("columns", ("lon", "lat"))
    ['lon', 'lat']
    """
    try:
        items = list(islice(value, most + 1))
    except TypeError:  # of no iterable, and of an array of no dimension
        raise InputError(f"{name} must be a list, got {brief(value)}") from None
    if len(items) > most:
        raise InputError(f"{name} must be a list of at most {most}")
    return items


def checked_progress(value: Any) -> Any:
    """Return who is told about rows done, which nobody need be.

    Examples
    --------
    >>> checked_progress(None)
    """
    if value is not None and not callable(value):
        raise InputError(f"progress must be a function, which is told how many rows were done; got {brief(value)}")
    return value


def checked_options(value: Any) -> dict[str, Any]:
    """Return the options of a method, by their names.

    Examples
    --------
    >>> checked_options({"n_features": 500})
    {'n_features': 500}
    """
    options = dict(checked_mapping("options", value))
    for name in options:
        if not isinstance(name, str):
            raise InputError(f"options have names, which are texts; got {brief(name)}")
    return options


def checked_seed(value: Any, name: str = "feature_seed") -> int:
    """Return a public seed that every document of a release can hold.

    Examples
    --------
    >>> checked_seed(7)
    7
    """
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) <= LARGEST_SEED:
        raise InputError(f"{name} must be a whole number from 0 to 2**256 - 1, got {brief(value)}")
    return int(value)


def checked_entropy(value: Any, name: str = "random_state") -> int | list[int] | None:
    """Return what a drawing that needs no secrecy starts from: nothing, a seed, or several.

    NumPy itself overflows the stack on lists within lists without end.

    Examples
    --------
    >>> checked_entropy(7), checked_entropy([1, 2])
    (7, [1, 2])
    """
    if value is None:
        return None
    if getattr(value, "shape", ()) or (isinstance(value, Sequence) and not isinstance(value, str | bytes)):
        return [checked_seed(each, name) for each in listed(name, value)]
    return checked_seed(value, name)
