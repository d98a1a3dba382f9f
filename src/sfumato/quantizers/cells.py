"""Cells times features: every combination of the categories' values has sums of its own, of any feature map.

A record's categories name one of C cells, and its numbers become the integers of an inner quantizer, which are added to
that cell's sums and to no other. So a record adds to all C times D sums what the inner quantizer's bound says: cells
cost no privacy. Every cell, empty or not, gets the same noise; which cells are empty stays hidden.

Reading. k(x, y) = K(cell of x, cell of y) k_numbers(x, y), so the answer to y is the inner reading of the sums
sum_c K(c, cell of y) S_c, which it is linear in. The noise in these has Q(y) = sum_c K(c, cell of y)^2 times the
variance of that in one cell's sums: 1 where different values are not similar at all. All cells have the same
features, so the terms of a mean stay independent draws of one law, and their spread shows the error of their mean.
Landmarks and their check (`checked`) read sums of weighted records as they read any: what the check measures is what
the landmarks miss of the records that this query sees. The bias of an inner reader is per record of the sums that it
reads, of which there are sum_c K(c, .) n_c and not n.

Integers (law 1). A code is rounded and cut to the category's codes, so that a row with finite numbers has one cell,
whatever the others are. The coins of a row are drawn in the rows' order and go with it to its cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.product import Product
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.public.codec import Object, Schema
from sfumato.public.ranges import MOST_INTEGERS
from sfumato.quantizers.answer import Answer, Combined, Floats, Known, Reading
from sfumato.quantizers.base import (
    Bound,
    Integers,
    LinearQuantizer,
    LinearReader,
    Quantizer,
    TermReader,
    drawn_again,
)
from sfumato.quantizers.box import Box
from sfumato.quantizers.checked import CheckedLandmarks
from sfumato.quantizers.fourier import FourierQuantizer, ShardedFourier
from sfumato.quantizers.grid import GridQuantizer


@dataclass(frozen=True, eq=False)
class Tally(LinearQuantizer):
    """Counts records: the inner quantizer of tables without a column of numbers, whose cells are a noisy table."""

    name: ClassVar[str] = "tally"
    schema = Schema({"quantizer": name})

    @property
    def box(self) -> Box:
        """A box of no columns."""
        return Box((), ())

    @property
    def width(self) -> int:
        """One sum."""
        return 1

    @property
    def bound(self) -> Bound:
        """A record counts 1."""
        return Bound(1, 1, 1, 1)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Return a 1 for each row."""
        return np.ones((len(rows), 1), dtype=np.int64)

    def weights(self, Y: Floats) -> Floats:
        """Return a 1 for each query."""
        return np.ones((len(Y), 1))

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read the count."""
        return Reading(np.full(len(Y), sums[0]), np.ones(len(Y)), np.zeros(len(Y)))

    def records_shown(self, sums: Floats, known: Known) -> tuple[float, float]:
        """Return the count."""
        return float(sums[0]), math.sqrt(known.noise_variance)


# Quantizers whose sums cells may hold, in a file from anywhere.
INNER = tuple(family.name for family in (CheckedLandmarks, FourierQuantizer, GridQuantizer, ShardedFourier, Tally))


def table_box(kernel: Product, numbers: Box) -> Box:
    """Return the box of whole rows: that of the numbers, and the codes of every category."""
    columns = numbers.dimension + len(kernel.places)
    lower, upper, inner = np.zeros(columns), np.ones(columns), list(kernel.of_numbers(columns))
    lower[inner], upper[inner] = numbers.lower, numbers.upper
    for place, category in zip(kernel.places, kernel.categories, strict=True):
        upper[place] = max(category.size - 1, 1)
    return Box(tuple(lower.tolist()), tuple(upper.tolist()), numbers.outside, numbers.declared)


class DealtCoins:
    """Coins drawn in the rows' order, handed to the rows of one cell after another."""

    def __init__(self, coins: SecureBits | None, rows: int) -> None:
        self._coins, self._rows = coins, rows
        self._drawn: dict[int, Integers] = {}
        self._waiting = np.arange(0)

    def deal_to(self, rows: Integers) -> None:
        """Whose coins are asked for next."""
        self._waiting = rows

    def below(self, bound: int, count: int) -> Integers:
        """Return the coins of the next `count` rows."""
        if self._coins is None:
            raise InputError("sharded features need secret coins: pass coins=SecureBits()")
        if bound not in self._drawn:
            self._drawn[bound] = self._coins.below(bound, self._rows)
        rows, self._waiting = self._waiting[:count], self._waiting[count:]
        return self._drawn[bound][rows]


@dataclass(frozen=True, eq=False)
class Cells(Quantizer):
    """Sums of an inner quantizer for every combination of the categories' values; see the module's text.

    Attributes
    ----------
    kernel : Product
        The categories, where they stand among the columns, and the kernel of the numbers.
    inner : Quantizer
        The quantizer of the numbers.

    Examples
    --------
    >>> cells = Cells(Product(None, {0: ["a", "b"]}), Tally())
    >>> cells.encode(np.array([[1.0]])).tolist()
    [[0, 1]]
    """

    kernel: Product
    inner: Quantizer

    name: ClassVar[str] = "cells"
    kernels = Product
    schema = Schema({"quantizer": name}, inner=Object())

    def __post_init__(self) -> None:
        if not isinstance(self.inner, TermReader | LinearReader | CheckedLandmarks):
            raise InputError(f"cells take fixed weights, random terms or checked landmarks, not {self.inner.name}")
        self.kernel.of_numbers(self.dimension)
        if self.size > MOST_INTEGERS:
            raise InputError(
                f"{self.count} cells of {self.inner.size} sums are {self.size} integers, and {MOST_INTEGERS} fit"
            )

    @property
    def count(self) -> int:
        """C, the number of cells."""
        return self.kernel.cells

    @property
    def dimension(self) -> int:
        """Columns of numbers and of codes."""
        return len(self.kernel.places) + self.inner.dimension

    @cached_property
    def _numbers(self) -> list[int]:
        return list(self.kernel.of_numbers(self.dimension))

    @cached_property
    def box(self) -> Box:
        """The inner box, and the codes of every category."""
        return table_box(self.kernel, self.inner.box)

    @property
    def terms(self) -> int:
        """Draws of the inner quantizer."""
        return self.inner.terms

    @property
    def width(self) -> int:
        """Coordinates of one of them in all cells."""
        return self.count * self.inner.width

    @property
    def size(self) -> int:
        """Sums of all cells."""
        return self.count * self.inner.size

    @property
    def query_products(self) -> int:
        """Products of the cells' similarities, and of the inner weights."""
        return self.size + self.inner.query_products

    @property
    def query_numbers(self) -> int:
        """What the inner quantizer takes: cells are read one after the other."""
        return self.inner.query_numbers

    @property
    def bound(self) -> Bound:
        """The inner bound: a record touches one cell."""
        inner = self.inner.bound
        return replace(inner, touched=self.inner.size if inner.touched is None else inner.touched)

    def _places(self, rows: NDArray[Any]) -> Integers:
        """Cell of every row or query."""
        cells = np.zeros(len(rows), dtype=np.int64)
        for place, category in zip(self.kernel.places, self.kernel.categories, strict=True):
            codes = np.clip(np.rint(rows[:, place].astype(np.float64)), 0, category.size - 1)
            cells = cells * category.size + codes.astype(np.int64)
        return cells

    def _kept(self, rows: NDArray[Any]) -> tuple[Integers, NDArray[Any]]:
        """Cells and numbers of the rows that are kept, by the inner box's rule."""
        numbers = np.ascontiguousarray(rows[:, self._numbers])
        kept = np.isfinite(rows).all(axis=1)
        if self.inner.box.outside == "drop":
            kept &= self.inner.box.holds(numbers)
        return self._places(rows[kept]), numbers[kept]

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows, zero outside the row's cell."""
        cells, numbers = self._kept(rows)
        encoded = np.zeros((len(cells), self.count, self.inner.size), dtype=np.int64)
        encoded[np.arange(len(cells)), cells] = self.inner.encode(numbers, coins)
        return encoded.reshape(len(cells), self.size)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to the sums of their cells."""
        cells, numbers = self._kept(rows)
        order = np.argsort(cells, kind="stable")
        dealt, table = DealtCoins(coins, len(cells)), sums.reshape(self.count, self.inner.size)
        present, starts = np.unique(cells[order], return_index=True)
        for cell, own in zip(present, np.split(order, starts[1:]), strict=True) if len(order) else ():
            dealt.deal_to(own)
            self.inner.accumulate(numbers[own], table[cell], cast(SecureBits, dealt))
        return len(cells)

    def similarities(self, cell: int) -> Floats:
        """K(., cell) for all cells, shape (C,)."""
        codes = np.unravel_index(cell, [category.size for category in self.kernel.categories])
        row: Floats = np.ones(1)
        for category, code in zip(self.kernel.categories, codes, strict=True):
            row = np.asarray(np.kron(row, category.similarities(int(code))), dtype=np.float64)
        return row

    def _by_cell(self, Y: Floats) -> Iterator[tuple[NDArray[Any], Floats, Floats]]:
        """For every cell that is asked: which queries ask it, their numbers, and all cells' similarities to it."""
        cells, numbers = self._places(Y), np.ascontiguousarray(Y[:, self._numbers])
        for cell in np.unique(cells):
            asked = np.flatnonzero(cells == cell)
            yield asked, numbers[asked], self.similarities(int(cell))

    def _seen(self, sums: Floats, row: Floats) -> Floats:
        return np.asarray(row @ sums.reshape(self.count, self.inner.size))

    def _known(self, seen: Floats, row: Floats, known: Known) -> Known:
        """Return what is known of the sums that a query sees: their noise, and the records that biases are counted by.

        Noise on many sums of a small cell hides how many records it has. A bias that is relative to the answer must not
        be counted by fewer of them than those by which it is weighed again: the noise is added to what the sums show.
        """
        squares = float(row @ row)
        noise, parts = known.noise_variance * squares, tuple(part * squares for part in known.noise_parts)
        known = replace(known, noise_variance=noise, noise_parts=parts)
        shown, error = self.inner.records_shown(seen, known) or (known.count, 0.0)
        return replace(known, records=min(known.count, max(shown, 0.0) + error))

    def weights(self, Y: Floats) -> Floats:
        """Weights of all sums, cell by cell."""
        weights = np.empty((len(Y), self.count, self.inner.size))
        for asked, numbers, row in self._by_cell(Y):
            weights[asked] = row[:, None] * self.inner.weights(numbers)[:, None, :]
        return weights.reshape(len(Y), self.size)

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Read the sums that each query sees."""
        total, error, bias = np.empty(len(Y)), np.empty(len(Y)), np.empty(len(Y))
        for asked, numbers, row in self._by_cell(Y):
            seen = self._seen(sums, row)
            own = self._known(seen, row, known)
            answer = self.inner.read(numbers, seen, own)
            total[asked], error[asked] = answer.total, answer.standard_error
            bias[asked] = answer.bias * (own.records / known.count)
        return Answer(total, error, bias)

    def combined(self, Y: Floats, coefficients: Floats, sums: Floats, known: Known) -> Combined:
        """Combine answers; the errors of different cells' answers are added up as if they went together."""
        total, deviation, stated, answers = 0.0, 0.0, 0.0, np.empty(len(Y))
        for asked, numbers, row in self._by_cell(Y):
            seen = self._seen(sums, row)
            own = self._known(seen, row, known)
            part = self.inner.combined(numbers, coefficients[asked], seen, own)
            total, deviation = total + part.total, deviation + math.sqrt(part.variance)
            stated += part.stated * (own.records / known.count)
            answers[asked] = part.answers
        return Combined(total, deviation**2, answers, stated)

    def error_paths(
        self, Y: Floats, sums: Floats, noise: NoiseLaw, groups: int, draws: int, seed: int
    ) -> Floats | None:
        """Simulate the errors of terms by their spread, and those of fixed weights by drawing the noise again."""
        paths = np.empty((draws, len(Y)))
        if isinstance(self.inner, TermReader):
            for asked, numbers, row in self._by_cell(Y):  # one seed: the terms are those of one draw in every cell
                found = self.inner.error_paths(numbers, self._seen(sums, row), noise, groups, draws, seed)
                assert found is not None
                paths[:, asked] = found
            return paths
        drawn = None if isinstance(self.inner, CheckedLandmarks) else drawn_again(noise, self.size, draws, seed)
        if drawn is None:
            return None
        table = drawn.reshape(draws, self.count, self.inner.size)
        for asked, numbers, row in self._by_cell(Y):
            paths[:, asked] = np.einsum("c,dcs->ds", row, table) @ self.inner.weights(numbers).T
        return paths

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Return the inner limit, per record of all: a cell's similarity is at most 1."""
        limits = np.empty(len(Y))
        for asked, numbers, row in self._by_cell(Y):
            seen = self._seen(sums, row)
            limits[asked] = self.inner.bias_bound(numbers, seen, self._known(seen, row, known))
        return limits

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the inner quantizer's public description; the categories are the kernel's."""
        return self.schema.write(self), self.inner.to_document()[1]

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the quantizer of one cell."""
        from sfumato.quantizers import quantizer_from_document

        document = dict(fields["inner"])
        if document.get("quantizer") not in INNER:
            raise ReleaseFileError(f"cells hold the sums of one of {', '.join(INNER)}")
        if size % kernel.cells:
            raise ReleaseFileError(f"{size} sums are not those of {kernel.cells} cells")
        inner = quantizer_from_document(document, arrays, kernel.numbers, size // kernel.cells)
        if not isinstance(inner, Quantizer):
            raise ReleaseFileError(f"the records of cells are encoded, and {inner.name} only reads")
        return cls(kernel, inner)
