"""What mechanisms for distances share. A distance that is a sum over columns is read column by column.

The number of records, read off sums that hold it, is a linear function of them: it costs nothing and has an error.

Their error is predicted without data. A prediction takes records and queries that are spread evenly over the bounds
(public pseudo-random points), runs the mechanism's own exact sums and its own reading on them, and adds the noise that
the reading's weights carry. The noise does not depend on the records; what an approximation misses does, and is
predicted for evenly spread ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels.unscaled import Distance
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.public.portable import PublicStream
from sfumato.public.ranges import check_size
from sfumato.quantizers.answer import Known
from sfumato.quantizers.base import Encoder, Floats, Integers, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.described import Described
from sfumato.release import Count


@dataclass(frozen=True, eq=False)
class ColumnReading:
    """What the sums of every column say, each of shape (queries, columns).

    Attributes
    ----------
    totals, squares : ndarray
        The column's part of the sum of distances, and the squared length of the weights that it was read with.
    biases : ndarray
        Typical bias of the column's part, per record.
    count_products : ndarray
        Product of those weights and the ones of the published count, where it is read off the same sums.
    """

    totals: Floats
    squares: Floats
    biases: Floats
    count_products: Floats


@dataclass(frozen=True, eq=False)
class ColumnSums(Described, LinearQuantizer):
    """Sums of every column apart, one after the other, all of the same size.

    Attributes
    ----------
    metric : Distance
        A distance that is a sum over the columns.
    bounds : Box
        The public box.
    """

    metric: Distance
    bounds: Box

    @property
    @abstractmethod
    def column_size(self) -> int:
        """Integers of one column."""

    @property
    def width(self) -> int:
        """All sums belong to the one draw."""
        return self.dimension * self.column_size

    @property
    def query_numbers(self) -> int:
        """One column's sums, and a number of every column: they are read one after the other."""
        return max(self.column_size, self.dimension)

    @cached_property
    def lengths(self) -> Floats:
        """Widths of the columns, made once: every column asks for its own."""
        return 2 * self.bounds.half_widths

    def part(self, column: int) -> slice:
        """Where the sums of a column are."""
        return slice(column * self.column_size, (column + 1) * self.column_size)

    def relative(self, y: Floats, column: int | slice) -> Floats:
        """Return queries in units of the column's width, 0 at its lower edge; of several columns in their last axis."""
        return np.asarray((y - np.asarray(self.bounds.lower[column])) / self.lengths[column])

    @abstractmethod
    def read_columns(self, Y: Floats, sums: Floats) -> ColumnReading:
        """Read every column."""

    @abstractmethod
    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records that the sums show."""

    @property
    @abstractmethod
    def count_squares(self) -> float:
        """Sum of the squared weights that the number of records is read with."""

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Add up the columns."""
        columns = self.read_columns(Y, sums)
        parts = (columns.totals, columns.squares, columns.biases, columns.count_products)
        total, squares, bias, product = (part.sum(axis=1) for part in parts)
        return Reading(total, squares, bias, count_product=product)


class RowByRow(Encoder):
    """Encodes each kept row by adding it to a row of zeros, as `accumulate` adds it to the sums."""

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        encoded, kept = np.zeros((len(rows), self.size), dtype=np.int64), 0
        for start in range(len(rows)):
            kept += self.accumulate(rows[start : start + 1], encoded[kept])
        return encoded[:kept]


@njit(nogil=True, cache=True)
def kept_row(row, lower, upper, drop, values):  # type: ignore[no-untyped-def]
    """Write a row's values, clipped to the box, to `values`, and return whether the box keeps the row."""
    for j in range(len(values)):
        value = np.float64(row[j])
        if not np.isfinite(value) or (drop and (value < lower[j] or value > upper[j])):
            return False
        values[j] = min(max(value, lower[j]), upper[j])
    return True


class HoldsCounts(ABC):
    """A structure whose sums hold the numbers of records in intervals of one column."""

    @abstractmethod
    def counts_between(self, sums: Floats, noise: float, ends: list[Floats], column: int) -> tuple[Floats, Floats]:
        """Estimate the numbers of records between pairs of ends, with standard errors; `noise` is a sum's variance."""


def distance_method(
    name: str,
    summary: str,
    build: Callable[[Any], Mechanism],
    forecast: Callable[[Any], Prediction],
    metrics: tuple[str, ...],
    options: tuple[str, ...] = (),
    *,
    approximate: bool = False,
    pure: bool = False,
    baseline: bool = False,
) -> Method:
    """Describe a method for distances, which applies to every request, or to those with a delta (`approximate`).

    One that is `pure` needs none; see `Method`.
    """
    return Method(
        name,
        summary,
        options,
        refuse=lambda request: "it needs delta > 0" if approximate and not request.delta else None,
        build=build,
        predict=lambda request, _: forecast(request),
        baseline=baseline,
        metrics=metrics,
        pure=pure,
    )


class Counting(Protocol):
    """Sums that hold the number of records."""

    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records that the sums show."""
        ...

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights that it is read with."""
        ...


def count_reader(quantizer: Counting, noise: NoiseLaw) -> Callable[[Integers], Count]:
    """Return what reads the published count off noisy sums."""
    variance = noise.variance * quantizer.count_squares

    def read(values: Integers) -> Count:
        return Count(max(1, round(quantizer.count(values))), variance, public=False)

    return read


RECORDS, QUERIES = 1024, 256


def evenly(box: Box, count: int, label: str) -> Floats:
    """Public points spread evenly over a box, the same for every call."""
    uniforms = PublicStream(0, label).uniforms(count * box.dimension).reshape(count, box.dimension)
    return np.asarray(box.lower) + uniforms * 2 * box.half_widths


def forecast_by_reading(request: Request, mechanism: Mechanism, bias: float) -> Prediction:
    """Predict the error of a mechanism that adds noise to sums; `bias` is the most that a sum can miss."""
    quantizer = mechanism.encoder
    check_size(quantizer.size)
    records, queries = evenly(request.box, RECORDS, "records"), evenly(request.box, QUERIES, "queries")
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(records, sums)
    answer = mechanism.reader.read(queries, sums.astype(np.float64), Known(mechanism.noise.variance, RECORDS))
    missed = answer.total / RECORDS - request.metric.exact_density(records, queries)
    squares = answer.standard_error**2 + np.square(request.n * missed)
    return Prediction(
        rmse=math.sqrt(squares.mean()),
        worst=math.sqrt(squares.max()),
        bias=bias,
        integers=quantizer.size,
        parameters=mechanism.parameters,
    )
