"""Kernel values at a given list of queries: releases that answer these queries and no others.

`KernelQueries` sums f_i(x) = rint(s k(x, y_i)), integers from 0 to s. Two records' integers differ by at most s in
every coordinate, so replacing a record changes the sums by no more than adding one: l1 <= m s, l2 <= sqrt(m) s.

`WhitenedQueries` sums the same values in the coordinates in which the kernel is an inner product. With L the Cholesky
factor of the queries' own kernel matrix, K_YY = L L', a record becomes phi(x) = L^-1 k(x, Y), and the answer to query i
is sum_j L_ij phi_j. |phi(x)|^2 = k(x, Y)' K_YY^-1 k(x, Y) <= k(x, x) = 1, because it is the squared length of a
projection in the kernel's space, for any number of queries. Rounded to integers with a hard clamp, l2 <= s; independent
noise on the coordinates becomes noise of covariance proportional to K_YY on the answers. phi_j depends on the first j
queries only. A query that nearly repeats earlier ones (less than 1e-4 of it is new) gets no coordinate of its own and
is answered from theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.public.codec import Schema, Whole
from sfumato.public.ranges import LARGEST_LENGTH, check_reader_work
from sfumato.published.common import LARGEST_SCALE, Blocks
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, Reading, stored_array
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import whole_within
from sfumato.quantizers.described import Described, described
from sfumato.quantizers.portable_kernels import PortableKernel, refuse_kernel

# What of a query must be new for it to get a coordinate.
NEW_PART = 1e-4
TOGETHER = 32  # rows of a factor that are made at once
# How far from the queries, in bandwidths, records are kept where they are when no bounds are given.
DEFAULT_REACH = 2.0**10
# The curator's work grows with the square of the number of whitened queries.
MOST_QUERIES = 2**12


@dataclass(frozen=True, eq=False)
class QueryList(Blocks, Described, LinearQuantizer):
    """What both kinds share: the list, and the look-up of a query in it.

    Attributes
    ----------
    kernel : Kernel
        With portable values (`PortableKernel`).
    bounds : Box
        Where records may live; see `around`.
    queries : ndarray, shape (m, dimension)
        The public queries.
    scale : int
        s.
    """

    kernel: Any
    bounds: Box
    queries: Floats
    scale: int

    block_values: ClassVar[int] = 1 << 18

    def __post_init__(self) -> None:
        if self.queries.ndim != 2 or not len(self.queries) or self.queries.shape[1] != self.bounds.dimension:
            raise InputError(f"queries must have shape (m, {self.bounds.dimension}), got {self.queries.shape}")
        if not (np.abs(self.queries) <= LARGEST_LENGTH).all():
            raise InputError(f"queries must be finite numbers within {LARGEST_LENGTH:g} of 0")
        if (reason := refuse_kernel(self.kernel)) is not None:
            raise InputError(f"{self.name} does not apply: {reason}")
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise InputError(f"scale must be positive, and {LARGEST_SCALE} at most; got {self.scale}")

    @property
    def width(self) -> int:
        """One coordinate a query."""
        return len(self.queries)

    @property
    def portable(self) -> PortableKernel:
        """The kernel's values as features."""
        return PortableKernel(self.kernel)

    @cached_property
    def _index(self) -> dict[bytes, int]:
        return {_key(row): index for index, row in reversed(list(enumerate(self.queries)))}

    def places(self, Y: Floats) -> NDArray[np.int64]:
        """Position in the list of each query.

        Raises
        ------
        InputError
            If a query is not in the list.
        """
        found = [self._index.get(_key(row), -1) for row in Y]
        if -1 in found:
            missing = Y[found.index(-1)].tolist()
            raise InputError(
                f"this release answers the {len(self.queries)} queries that it was made for and no others; {missing} "
                "is not among them. Its queries are in release.reader.queries; for any other, make a release by a "
                "method that takes no list"
            )
        return np.array(found, dtype=np.int64)

    def _integers(self, rows: Floats) -> Integers:
        return whole_within(np.rint(self.portable.values(rows, self.queries) * self.scale), 0, self.scale)

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Look the answers up; they have no bias but rounding."""
        weights = self.weights(Y)
        return Reading(weights @ sums, np.square(weights).sum(axis=1), np.zeros(len(Y)))

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description; the queries are stored beside the sums."""
        return self.schema.write(self), {"queries": self.queries}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild with the stored queries."""
        queries = stored_array(arrays, "queries", "f", (None, fields["box"].dimension), LARGEST_LENGTH)
        return super().from_fields({**fields, "queries": queries}, arrays, kernel, size)


@dataclass(frozen=True, eq=False)
class KernelQueries(QueryList):
    """Kernel values at the queries; see `QueryList` for the attributes.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> listed = KernelQueries(Gaussian(1.0), Box((0.0,), (1.0,)), np.array([[0.0], [1.0]]), scale=100)
    >>> listed.encode(np.array([[0.0]]))
    array([[100,  37]])
    """

    name: ClassVar[str] = "queries"
    schema: ClassVar[Schema] = described(name, scale=Whole(1, LARGEST_SCALE))

    @property
    def bound(self) -> Bound:
        """Every coordinate is at most the scale."""
        return Bound(l1=self.scale * self.width, l2_squared=self.scale**2 * self.width, largest=self.scale)

    def weights(self, Y: Floats) -> Floats:
        """One coordinate answers one query."""
        weights = np.zeros((len(Y), self.size))
        weights[np.arange(len(Y)), self.places(Y)] = 1 / self.scale
        return weights


@dataclass(frozen=True, eq=False)
class WhitenedQueries(QueryList):
    """Kernel values at the queries in orthonormal coordinates; see `QueryList` for the other attributes.

    Attributes
    ----------
    most : int
        Most queries that the list may grow to; rounding is allowed for that many. 0 stands for the list as it is.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> listed = WhitenedQueries(Gaussian(1.0), Box((0.0,), (1.0,)), np.array([[0.0], [1.0]]), scale=1000)
    >>> listed.encode(np.array([[0.0], [1.0]]))
    array([[999,   0],
           [368, 929]])
    >>> listed.bound.l2_squared
    1000000
    """

    most: int = 0

    name: ClassVar[str] = "whitened-queries"
    schema: ClassVar[Schema] = described(name, scale=Whole(1, LARGEST_SCALE), most=Whole(0, MOST_QUERIES))

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.queries) > MOST_QUERIES:
            raise InputError(f"{len(self.queries)} queries are too many to whiten; {MOST_QUERIES} are allowed")
        check_whitened(len(self.queries))

    @property
    def bound(self) -> Bound:
        """The l2 norm is at most the scale, by the clamp."""
        return Bound(l1=math.isqrt(self.scale**2 * self.width), l2_squared=self.scale**2, largest=self.scale)

    @property
    def amplitude(self) -> float:
        """What stands for 1: less than the scale by as much as rounding m coordinates can add to the norm."""
        return float(max(1, self.scale - math.ceil(math.sqrt(max(self.most, self.width)) / 2)))

    @cached_property
    def factor(self) -> Floats:
        """L, with zeros in the column of a query that has no coordinate."""
        return np.asarray(cholesky(self.portable.values(self.queries, self.queries)))

    def _integers(self, rows: Floats) -> Integers:
        values = self.portable.values(rows, self.queries)
        return np.asarray(whiten(values, self.factor, self.amplitude, self.scale))

    def weights(self, Y: Floats) -> Floats:
        """Rows of L."""
        return np.asarray(self.factor[self.places(Y)] / self.amplitude)


def check_whitened(queries: int) -> None:
    """Refuse a list whose Cholesky factor takes a reader too long.

    Examples
    --------
    >>> check_whitened(2000)
    """
    check_reader_work(queries**3 / 6, "fewer queries")


def around(queries: Floats, lengths: Floats, outside: str) -> Box:
    """Box that keeps every record that matters to the queries where it is, for lists without bounds."""
    low, high = queries.min(axis=0) - DEFAULT_REACH * lengths, queries.max(axis=0) + DEFAULT_REACH * lengths
    return Box(tuple(low.tolist()), tuple(high.tolist()), outside)


def _key(row: Floats) -> bytes:
    return (np.asarray(row, dtype="<f8") + 0.0).tobytes()


@njit(reads=True, nogil=True, cache=True)
def cholesky(matrix):  # type: ignore[no-untyped-def]
    """Lower Cholesky factor; rows that add next to nothing new get no pivot.

    Rows are finished a block at a time, so that the finished columns are read once for all of them. Every sum is taken
    from the first term to the last.
    """
    size = len(matrix)
    factor = np.zeros((size, size))
    columns = np.zeros((size, size))  # of the factor side by side, so that the inner loops run over them
    for start in range(0, size, TOGETHER):
        stop = min(size, start + TOGETHER)
        for i in range(start, stop):
            factor[i, :i] = matrix[i, :i]
        for j in range(start):
            pivot = columns[j, j]
            for i in range(start, stop):
                if pivot == 0.0:
                    factor[i, j] = 0.0
                    continue
                part = factor[i, j] / pivot
                factor[i, j] = part
                row, column = factor[i, j + 1 : start], columns[j, j + 1 : start]
                for k in range(len(row)):
                    row[k] -= part * column[k]
        for i in range(start, stop):
            for j in range(start, i):
                pivot = factor[j, j]
                left = factor[i, j]
                for k in range(j):
                    left -= factor[i, k] * factor[j, k]
                factor[i, j] = left / pivot if pivot != 0.0 else 0.0
            new = matrix[i, i]
            for j in range(i):
                if factor[j, j] != 0.0:
                    new -= factor[i, j] * factor[i, j]
            factor[i, i] = np.sqrt(new) if new > NEW_PART * NEW_PART else 0.0
        columns[:, start:stop] = factor[start:stop].T
    return factor


@njit(nogil=True, cache=True)
def whiten(values, factor, amplitude, scale):  # type: ignore[no-untyped-def]
    """Integers of L^-1 k(x, Y): forward substitution, rounding, and a clamp on the norm, for each row alone."""
    rows, size = values.shape
    result = np.zeros((rows, size), dtype=np.int64)
    coordinates = np.empty(size)
    for i in range(rows):
        room = scale * scale
        for j in range(size):
            coordinates[j] = 0.0
            if factor[j, j] == 0.0:
                continue
            left = values[i, j]
            for k in range(j):
                left -= factor[j, k] * coordinates[k]
            coordinates[j] = left / factor[j, j]
            value = amplitude * coordinates[j]
            if not abs(value) <= scale:  # whatever rounding did, also to something that is no number
                value = scale if value > 0.0 else (-scale if value < 0.0 else 0.0)
            rounded = int(np.rint(value))
            if rounded * rounded > room:
                root = int(np.sqrt(float(room)))
                while root * root > room:
                    root -= 1
                rounded = root if rounded > 0 else -root
            room -= rounded * rounded
            result[i, j] = rounded
    return result
