"""Squared Euclidean distances from moments: sums of centred values, of their squares, and the number of records.

With z = x - c, c the centre of the box, sum_x |x - y|^2 = Q - 2 Z . (y - c) + n |y - c|^2, Q = sum |z|^2 and Z = sum
z, exactly and for every y. A record adds the integers s_j z_j / r_j (r_j the half width of the column), s_q (|z|^2 -
m) / h and s_n; with M = sum_j r_j^2, m = M / 3 and h = M - m, all of them within their scales. Taking m off the
squares makes them smaller and is put back by n, whose error then counts for |y - c|^2 + m; m = M / 3 leaves the least
sum of both for queries spread evenly.

Centring is most of the gain over uncentred moments: values of half the size, squares of a quarter, and queries, by
which the errors are multiplied, that are as much nearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import held

LARGEST_SCALE = 1 << 30
OFFSET = 1 / 3  # m / M


@dataclass(frozen=True, eq=False)
class MomentQuantizer(LinearQuantizer):
    """Centred moments; see the module's text.

    Attributes
    ----------
    bounds : Box
        The public box.
    order : tuple of int
        The columns in the order of their sums.
    scales : tuple of int
        Scales of the columns' sums in that order, of the squares, and of the number of records.
    counted : bool
        Whether the published number of records is read off the sums.

    Examples
    --------
    >>> moments = MomentQuantizer(Box((0.0,), (1.0,)), (0,), (1000, 1000, 1000))
    >>> moments.encode(np.array([[1.0], [0.5]]))
    array([[1000, 1000, 1000],
           [   0, -500, 1000]])
    >>> moments.weigh(np.array([[2.0]]), np.array([1000.0, 1000.0, 1000.0])).total.round(6)
    array([1.])
    """

    bounds: Box
    order: tuple[int, ...]
    scales: tuple[int, ...]
    counted: bool = True

    name: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        columns = self.bounds.dimension
        if sorted(self.order) != list(range(columns)) or len(self.scales) != columns + 2:
            raise InputError(f"moments of {columns} columns need an order of them and {columns + 2} scales")
        if not all(1 <= scale <= LARGEST_SCALE for scale in self.scales):
            raise InputError(f"scales of moments must lie between 1 and {LARGEST_SCALE}")

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.bounds

    @property
    def width(self) -> int:
        """One sum a column, squares and number."""
        return len(self.scales)

    @property
    def bound(self) -> Bound:
        """Every integer is within its scale."""
        return Bound(sum(self.scales), sum(scale**2 for scale in self.scales), max(self.scales))

    @cached_property
    def largest_square(self) -> float:
        """M: the largest |z|^2."""
        return float(np.square(self.bounds.half_widths).sum())

    @property
    def _square_unit(self) -> float:
        """h: what the scale of the squares stands for."""
        return (1 - OFFSET) * self.largest_square

    @cached_property
    def _places(self) -> tuple[Any, ...]:
        box, scales = self.bounds, np.array(self.scales)
        with np.errstate(
            divide="ignore"
        ):  # a box too small to be declared has infinite inverses, which the clamps hold
            inverses = 1 / box.half_widths, float(1 / np.float64(self._square_unit))
        edges = np.array(box.lower), np.array(box.upper), box.outside == "drop", box.centre, inverses[0]
        return (*edges, np.array(self.order), OFFSET * self.largest_square, inverses[1], scales)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        encoded = np.zeros((len(rows), self.size), dtype=np.int64)
        return encoded[: _add_each(rows, *self._places, encoded)]

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return int(_add(rows, *self._places, sums))

    def weights(self, Y: Floats) -> Floats:
        """Weights of the sums."""
        order, scales = list(self.order), np.array(self.scales, dtype=np.float64)
        offsets = Y - self.bounds.centre
        own = -2 * (offsets * self.bounds.half_widths)[:, order]
        squares = np.full(len(Y), self._square_unit)
        number = np.square(offsets).sum(axis=1) + OFFSET * self.largest_square
        return np.column_stack([own, squares, number]) / scales

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Weigh the sums; there is no bias but the rounding of one integer a record."""
        weights = self.weights(Y)
        product = weights[:, -1] / self.scales[-1] if self.counted else 0.0
        return Reading(weights @ sums, np.square(weights).sum(axis=1), np.zeros(len(Y)), count_product=product)

    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records."""
        return float(sums[-1]) / self.scales[-1]

    @property
    def count_squares(self) -> float:
        """Squared weight of that number."""
        return 1 / self.scales[-1] ** 2

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        document = {
            "quantizer": self.name,
            "box": self.bounds.to_document(),
            "order": list(self.order),
            "scales": list(self.scales),
            "counted": self.counted,
        }
        return document, {}

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> MomentQuantizer:
        """Rebuild from a release."""
        order, scales = (tuple(map(int, document[name])) for name in ("order", "scales"))
        quantizer = cls(Box.from_document(document["box"]), order, scales, bool(document["counted"]))
        if quantizer.size != size:
            raise ReleaseFileError(f"the header describes moments that its {size} sums do not fit")
        return quantizer


@njit(nogil=True, cache=True)
def _add(rows, lower, upper, drop, centre, inverse, order, offset, square_inverse, scales, sums):  # type: ignore[no-untyped-def]
    """Add the moments of the rows that the box keeps to `sums`, and return how many those were."""
    columns = rows.shape[1]
    values = np.empty(columns)
    kept = 0
    for i in range(rows.shape[0]):
        good = True
        square = 0.0
        for j in range(columns):
            value = np.float64(rows[i, j])
            if not np.isfinite(value) or (drop and (value < lower[j] or value > upper[j])):
                good = False
                break
            values[j] = min(max(value, lower[j]), upper[j]) - centre[j]
            square += values[j] * values[j]
        if not good:
            continue
        kept += 1
        for place in range(columns):
            j = order[place]
            sums[place] += held(np.rint(scales[place] * (values[j] * inverse[j])), -scales[place], scales[place])
        part = np.rint(scales[columns] * ((square - offset) * square_inverse))
        sums[columns] += held(part, -(scales[columns] // 2) - 1, scales[columns])  # offset / h is a half
        sums[columns + 1] += scales[columns + 1]
    return kept


@njit(nogil=True, cache=True)
def _add_each(rows, lower, upper, drop, centre, inverse, order, offset, square_inverse, scales, encoded):  # type: ignore[no-untyped-def]
    """Write the integers of each kept row to a row of its own of `encoded`, and return how many those were."""
    kept = 0
    for i in range(rows.shape[0]):
        kept += _add(
            rows[i : i + 1], lower, upper, drop, centre, inverse, order, offset, square_inverse, scales, encoded[kept]
        )
    return kept
