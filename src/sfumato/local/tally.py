"""What reports are counted into: integers that add up, or records one after another; their order does not show."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Tally(ABC):
    """A multiset of reports, as far as the mechanism needs it."""

    @abstractmethod
    def integers(self) -> Integers:
        """Return the content as a flat array."""


class Sums(Tally):
    """`size` integers that every report adds to.

    Examples
    --------
    >>> sums = Sums(3)
    >>> sums.add(np.array([2, 2, 0]))
    >>> sums.integers()
    array([1, 0, 2])
    """

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size, dtype=np.int64)

    def add(self, places: NDArray[np.integer], values: Integers | None = None) -> None:
        """Add 1, or `values`, at each place."""
        if values is None:
            self.values += np.bincount(places, minlength=len(self.values))
        else:
            np.add.at(self.values, places, values)

    def integers(self) -> Integers:
        """Return a copy of the sums."""
        return self.values.copy()


class Records(Tally):
    """Rows of `width` integers, one for each report, for mechanisms whose release is the set of random points.

    Examples
    --------
    >>> records = Records(2)
    >>> records.append(np.array([[1, 2], [3, 4]]))
    >>> records.rows()
    array([[1, 2],
           [3, 4]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._blocks: list[Integers] = []

    def append(self, rows: Integers) -> None:
        """Keep more rows."""
        self._blocks.append(np.array(rows, dtype=np.int64).reshape(-1, self.width))

    def rows(self) -> Integers:
        """Return all rows, sorted, so that their order does not show."""
        rows = np.concatenate([np.zeros((0, self.width), dtype=np.int64), *self._blocks])
        return rows[np.lexsort(rows.T[::-1])]

    def integers(self) -> Integers:
        """Return the rows one after another."""
        return self.rows().ravel()
