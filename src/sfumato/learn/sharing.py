"""Releases of a classifier's classes, read from one file in which they share what they can.

A file says of each class only in what it differs from the first, so a few bytes stand for a whole release. What that
may cost is bounded here. Classes that differ in their sums alone, or in entries that say nothing about how sums are
read, have one reader and one kernel among them. All others draw one of their own, and share what `max_memory` allows:
each has an equal part of it. Numbers that a class takes from the first without having them in the file, those of its
header too, are counted as drawn, and so are products by sums that are not in the file; the classes of an honest file
have their own sums, with their own noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import law_from_document
from sfumato.public.ranges import READER_MEMORY, check_reader_cost, reader_memory
from sfumato.quantizers.base import stored_array
from sfumato.release import Count, Release, from_content
from sfumato.release import format as container

Arrays = dict[str, NDArray[Any]]

VALUES = "values"
# Entries in which a class may differ and still be read as the first is.
_ENTRIES: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # entry of the header: attribute of the release, how it is read, how it is written
    "method": ("method", str, str),
    "guarantee": ("guarantee", Guarantee.from_document, Guarantee.to_document),
    "noise": ("noise", law_from_document, lambda law: law.to_document()),
    "count": ("count", lambda document: Count.from_document(document, "count"), Count.to_document),
    "groups": ("groups", int, int),
    "parameters": ("parameters", dict, dict),
    "sampled": ("sampled", bool, bool),
    "written_by": ("version", lambda text: str(text).removeprefix("sfumato "), "sfumato {}".format),
}
# What a release takes beside its reader and its sums, in numbers: its promise, its law, its checks, its answers.
RELEASE_NUMBERS = 4096
# What a number or name of a header takes while it is read, checked and compared, in numbers.
HEADER_NUMBERS = 12
# Products of weights and sums that one prediction may take, over all classes: about ten seconds.
MOST_PRODUCTS = 2**34


def releases_of(
    header: dict[str, Any],
    each: Sequence[dict[str, Any]],
    stored: Sequence[Arrays],
    labels: Sequence[Any],
    max_memory: int | None = None,
) -> tuple[Release, ...]:
    """Make the release of every class.

    Parameters
    ----------
    header : dict
        Of the first class's release.
    each : sequence of dict
        In which entries the header of every class differs from that.
    stored : sequence of dict
        The arrays that the file holds for every class.
    labels : sequence
        The classes.
    max_memory : int, optional
        Bytes that drawing public numbers may take for all classes together, as in `sfumato.load`.
    """
    alone = [place for place, part in enumerate(each) if not (place and _like_first(part, stored[place]))]
    with reader_memory(max_memory):
        check_reader_cost(_borrowed(stored, alone) + HEADER_NUMBERS * _read_again(header, each, alone))
    made: dict[int, Release] = {}
    with reader_memory((max_memory or READER_MEMORY) // len(alone)):
        for place in alone:
            with _naming(labels[place], len(alone)):
                made[place] = from_content({**header, **each[place]}, {**stored[0], **stored[place]})
    for place, part in enumerate(each):
        if place not in made:
            with _naming(labels[place]):
                made[place] = _alike(made[0], part, stored[place])
    releases = tuple(made[place] for place in range(len(each)))
    _check_products(releases, stored)
    return releases


def _like_first(part: dict[str, Any], arrays: Arrays) -> bool:
    return part.keys() <= _ENTRIES.keys() and arrays.keys() <= {VALUES}


def _borrowed(stored: Sequence[Arrays], alone: Sequence[int]) -> int:
    """Count the numbers that classes take from the first class's arrays."""
    sizes = {name: array.size for name, array in stored[0].items()}
    total = sum(sizes.values())
    own = sum(RELEASE_NUMBERS + total - sum(sizes.get(name, 0) for name in stored[place]) for place in alone if place)
    read_alone = set(alone)
    repeated = sum(VALUES not in arrays for place, arrays in enumerate(stored) if place not in read_alone)
    return own + repeated * (RELEASE_NUMBERS + sizes.get(VALUES, 0))


def _read_again(header: dict[str, Any], each: Sequence[dict[str, Any]], alone: Sequence[int]) -> int:
    """Count the numbers of the first class's header, columns and matrices, that others have built for themselves."""
    sizes = {name: _leaves(part) for name, part in header.items()}
    return sum(size for place in alone if place for name, size in sizes.items() if name not in each[place])


def _leaves(document: Any) -> int:
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else None
    return 1 if parts is None else sum(map(_leaves, parts))


@contextmanager
def _naming(label: Any, sharing: int = 1) -> Iterator[None]:
    """Say of a refused release which class it is of, and how many share the memory that is allowed."""
    try:
        with container.read_as("a release"):
            yield
    except ReleaseFileError as problem:
        others = f", one of {sharing} that share what max_memory allows" if sharing > 1 else ""
        raise ReleaseFileError(f"the release of class {label!r}{others}: {problem}") from None


def _alike(first: Release, part: dict[str, Any], arrays: Arrays) -> Release:
    """Make a release that is read as the first class's is."""
    values = stored_array(arrays, VALUES, "i", (first.values.size,)) if VALUES in arrays else first.values
    own = {_ENTRIES[name][0]: _ENTRIES[name][1](document) for name, document in part.items()}
    made = replace(first, values=values, **own)
    for name, document in part.items():
        attribute, _, written = _ENTRIES[name]
        if json.dumps(written(getattr(made, attribute)), sort_keys=True) != json.dumps(document, sort_keys=True):
            raise ReleaseFileError(f"the entry {name!r} of the header is not what a release would write")
    return made


def _check_products(releases: Sequence[Release], stored: Sequence[Arrays]) -> None:
    """Refuse classes that take too many products together."""
    first, repeated = releases[0], sum(VALUES not in arrays for arrays in stored)
    check_reader_cost(0, repeated * first.values.size * first.dimension)
    if (products := sum(release.reader.query_products for release in releases)) > MOST_PRODUCTS:
        raise InputError(
            f"one prediction of {len(releases)} classes takes {products:.3g} products, and {MOST_PRODUCTS} are the most"
        )
