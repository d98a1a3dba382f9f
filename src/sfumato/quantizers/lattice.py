r"""A Fourier series on the box: in few columns a kernel is a short sum of cosines, and nothing is left to chance.

Source: a finite and exact form of the Gaussian-process noise of Hall, Rinaldo and Wasserman (2013).

Differences of two points of a box of side B (in bandwidths) lie in [-B, B], where a column's factor phi of the kernel
equals a function of some period L up to a small error: the wrapped sum over whole z of phi(t + z L), for L beyond B; or
phi folded back at L / 2, for L = 2 B, which is exact and has a kink instead. Its Fourier coefficients c_j multiply over
the columns: k(x, y) ~ sum over modes j of c_j cos(2 pi (j / L) . (x - y)). Modes j and -j are one pair, with twice the
coefficient; the mode 0 is the number of records.

Integers. A record's pair is r_j (cos, sin) with cosine and sine from a table of integers (radius R, 2^16 phases, see
`fourier` and `phases`) and a whole amplitude r_j in proportion to sqrt |c_j|, which is best: with noise of one standard
deviation s on every integer an answer's variance is sum 4 c_j^2 s^2 / (r_j R)^2, where s grows with sqrt(sum r_j^2).
Hard bounds: each pair lies in the disc of radius r_j R, so |f(x)|^2 <= C^2 + R^2 sum r_j^2, C the integer that a record
adds to the count where the sums hold one.

A mode may be listed k times: it has k pairs, each with a k-th of the coefficient. That is of no use where amplitudes
can differ, and the way to spend more on a large coefficient where every integer has the same range (`shuffled`).

Bias, proven. The modes left out miss sum |c_j| at most; as a root mean square over queries that are spread evenly over
the period, for any records, sqrt(sum c_j^2) (Parseval). Wrapping misses at most the product of (1 + e_i) less 1, with
e_i the largest error of column i on [-B, B]. The table misses at most half a phase step and half an integer. Queries
beyond the box would see its other side, and are refused.

Bias, typical. Queries near the records miss more than others: an answer that comes from one place loses the part q of
it that the modes left out have in sum |c_j|, one that comes from all around nearly nothing. A part q^2 is typical, by
measurement, and error bars and predictions count it beside the above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Nested, Reals, Schema, Whole
from sfumato.quantizers.base import (
    Answer,
    Bound,
    Floats,
    Integers,
    Known,
    LinearQuantizer,
    Reading,
    stored_array,
    within,
)
from sfumato.quantizers.box import Box
from sfumato.quantizers.cosines import cosine_table, table_gain
from sfumato.quantizers.fourier import add_pairs
from sfumato.quantizers.phases import COLUMN_BLOCK, Phases
from sfumato.quantizers.series import MOST_MODE, Series, products, series

TABLE_BITS = 16
RADIUS = 2**12
MOST_AMPLITUDE = 2**24
MOST_COLUMNS = 16
ROW_BLOCK = 128
TINY = 1e-6
# Largest error of one table entry, of a cosine of amplitude 1: half a phase step, and half an integer.
TABLE_ERROR = math.pi / 2**TABLE_BITS + 0.5 / (RADIUS - 1)


@dataclass(frozen=True, eq=False)
class LatticeQuantizer(LinearQuantizer):
    """A Fourier series of a separable kernel on a box; see the module's text.

    Attributes
    ----------
    kernel : ShiftInvariantKernel
        The kernel.
    domain : Box
        Declared bounds.
    periods : tuple of float
        L of each column, in bandwidths.
    modes : ndarray of int64, shape (pairs, columns)
        One of each j and -j; a mode that is listed several times has several pairs.
    amplitudes : ndarray of int64, shape (pairs,)
        r_j.
    counted : int
        C; 0 where the number of records is known apart from the sums.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> quantizer = LatticeQuantizer(Gaussian(1.0), Box((0.0,), (6.0,)), (9.2,), np.array([[1], [2]]), np.array([9, 7]))
    >>> quantizer.encode(np.array([[3.0]])).tolist()
    [[36855, 0, 28665, 0]]
    """

    kernel: ShiftInvariantKernel
    domain: Box
    periods: tuple[float, ...]
    modes: Integers
    amplitudes: Integers
    counted: int = 0

    name: ClassVar[str] = "lattice"
    kernels = ShiftInvariantKernel
    schema = Schema(
        {"quantizer": name},
        box=Nested(Box.from_document),
        periods=Reals(0.0, 1e6, longest=MOST_COLUMNS),
        counted=Whole(0, RADIUS * MOST_AMPLITUDE),
    )

    def __post_init__(self) -> None:
        if not self.kernel.separable:
            raise InputError(
                f"a Fourier series on a box needs a kernel that is a product over the columns, not {self.kernel!r}"
            )
        if self.modes.shape != (len(self.amplitudes), self.domain.dimension) or not len(self.modes):
            raise InputError(
                "a Fourier series needs one amplitude for each mode, and one number of each column in a mode"
            )
        if not within(self.modes, MOST_MODE) or not self.modes.any(axis=1).all():
            raise InputError(f"modes must lie within {MOST_MODE} of 0, and 0 itself is the count")
        if not ((self.amplitudes >= 1) & (self.amplitudes <= MOST_AMPLITUDE)).all():
            raise InputError(f"amplitudes must lie between 1 and {MOST_AMPLITUDE}")
        if len(self.periods) != self.domain.dimension or not all(
            extent < period <= 1e6 for extent, period in zip(self._extents, self.periods, strict=True)
        ):
            raise InputError("the period of each column must be longer than its bounds")

    @property
    def _extents(self) -> list[float]:
        lengths = 2 * self.domain.half_widths / self.kernel.column_scales(self.domain.dimension)
        return [float(length) for length in lengths]

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.domain

    @property
    def width(self) -> int:
        """All integers are read together."""
        return 2 * len(self.modes) + (1 if self.counted else 0)

    @property
    def bound(self) -> Bound:
        """Bounds of one record, see the module's text."""
        radii = self.radii.tolist()
        squares = self.counted**2 + sum(radius**2 for radius in radii)
        largest = max(self.counted, *radii)
        return Bound(self.counted + sum(math.isqrt(2 * radius**2) for radius in radii), squares, largest)

    @cached_property
    def phases(self) -> Phases:
        """Integer phases of the modes."""
        scales = self.kernel.column_scales(self.domain.dimension)
        turns = (self.modes / (np.array(self.periods) * scales)).T
        return Phases.given(turns, self.domain, scales)

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return cosine_table(RADIUS, TABLE_BITS)

    @cached_property
    def parts(self) -> list[Series]:
        """The columns' series."""
        return [series(self.kernel, *sides) for sides in zip(self._extents, self.periods, strict=True)]

    @cached_property
    def _repeats(self) -> Integers:
        """How many pairs each pair's mode has."""
        _, which, counts = np.unique(self.modes, axis=0, return_inverse=True, return_counts=True)
        return np.asarray(counts[which.reshape(-1)], dtype=np.int64)

    @cached_property
    def _coefficients(self) -> Floats:
        """Each pair's share of its mode's coefficient."""
        return np.asarray(products(self.parts, self.modes) / self._repeats)

    @property
    def largest_weight(self) -> float:
        """Largest weight of an answer, for pairs of radius 1."""
        return 2 * float(np.abs(self._coefficients).max())

    @property
    def weight_squares(self) -> float:
        """Sum of the squares of an answer's weights, for pairs of radius 1: the same for all queries."""
        return float(np.square(2 * self._coefficients).sum())

    @property
    def constant(self) -> float:
        """c_0."""
        return math.prod(float(part.coefficients[0]) for part in self.parts)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows: the count's, then pairs (cos, sin, cos, sin, ...)."""
        cells = self.phases.integers(rows) >> (self.phases.bits - TABLE_BITS)
        quarter, mask = 1 << (TABLE_BITS - 2), (1 << TABLE_BITS) - 1
        pairs = np.stack([self._table[cells], self._table[(cells - quarter) & mask]], axis=2).astype(np.int64)
        flat = (pairs * self.amplitudes[:, None]).reshape(len(cells), 2 * len(self.modes))
        if not self.counted:
            return np.asarray(flat)
        return np.hstack([np.full((len(cells), 1), self.counted, dtype=np.int64), flat])

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers: cosines are summed first and multiplied by their amplitude once, to the same end."""
        block = self.phases.rows(min(ROW_BLOCK, len(rows)))
        products = np.empty(len(block) * min(COLUMN_BLOCK, len(self.modes)))
        cosines = np.zeros(2 * len(self.modes), dtype=np.int64)
        shift, total = self.phases.bits - TABLE_BITS, 0
        for start in range(0, len(rows), ROW_BLOCK):
            kept = self.phases.lattice.place(rows[start : start + ROW_BLOCK], block)
            for index, columns in enumerate(self.phases.blocks):
                count = columns.shape[1]
                product = products[: kept * count].reshape(kept, count)
                np.dot(block[:kept], columns, out=product)
                first = 2 * index * COLUMN_BLOCK
                add_pairs(product.view(np.int64), self._table, shift, cosines[first : first + 2 * count])
            total += kept
        if self.counted:
            sums[0] += self.counted * total
        sums[1 if self.counted else 0 :] += cosines * np.repeat(self.amplitudes, 2)
        return total

    @property
    def radii(self) -> Integers:
        """Hard bounds of the pairs' lengths."""
        return np.asarray(RADIUS * self.amplitudes)

    @property
    def lengths(self) -> Floats:
        """Lengths that decode the pairs without bias."""
        return np.asarray(table_gain(self._table) * self.amplitudes)

    def turns(self, Y: Floats) -> Floats:
        """Phases of queries in turns."""
        return self.phases.turns(Y)

    @property
    def table_errors(self) -> tuple[Floats | float, Floats | float]:
        """Largest error of a pair, in units of its length, and the typical one of its coordinates."""
        return math.sqrt(2) * TABLE_ERROR, TABLE_ERROR / math.sqrt(3)

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y) in the layout of `encode`."""
        if not self.domain.holds(Y).all():
            raise InputError(
                "a query lies outside the bounds, where a Fourier series repeats itself: pass queries within the "
                "bounds, or release with wider bounds or another method"
            )
        angles = 2 * np.pi * self.turns(Y)
        lengths = 2 * self._coefficients / self.lengths
        pairs = np.stack([np.cos(angles) * lengths, np.sin(angles) * lengths], axis=2)
        pairs = pairs.reshape(len(Y), 2 * len(self.modes))
        if not self.counted:
            return np.asarray(pairs)
        return np.hstack([np.full((len(Y), 1), self.constant / self.counted), pairs])

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read answers, without the mode 0 where the sums do not hold it."""
        weights = self.weights(Y)
        count = self.constant / self.counted**2 if self.counted else 0.0
        return Reading(
            total=weights @ sums,
            weight_squares=np.square(weights).sum(axis=1),
            bias=np.full(len(Y), self.typical_bias),
            count_product=count,
        )

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read answers, the mode 0 from the published count."""
        found = self.weigh(Y, sums)
        if not self.counted:
            found = replace(found, total=found.total + self.constant * known.count)
        lost = self.lost**2 / max(1 - self.lost**2, TINY) * np.abs(found.total) / known.count
        return replace(found, bias=np.hypot(found.bias, lost))

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Answer queries; a count that was bought apart moves answers and count together."""
        answer = super().read(Y, sums, known)
        if self.counted:
            return answer
        error = np.sqrt(answer.standard_error**2 + self.constant**2 * known.count_variance)
        return Answer(answer.total, error, answer.bias, self.constant * known.count_variance)

    @property
    def lost(self) -> float:
        """q, the part of the kernel's largest value that the modes left out have."""
        return self._missed[0] / math.prod(part.absolute for part in self.parts)

    @cached_property
    def _missed(self) -> tuple[float, float]:
        """Sums of |c_j| and of c_j^2 over the modes left out."""
        kept = np.abs(self._coefficients)
        absolute = math.prod(part.absolute for part in self.parts) - abs(self.constant) - 2 * kept.sum()
        squares = math.prod(part.squares for part in self.parts) - self.constant**2
        squares -= 2 * float((np.square(kept) * self._repeats).sum())
        return max(float(absolute), 0.0), max(float(squares), 0.0)

    @property
    def _wrapped(self) -> float:
        return math.prod(1 + part.error for part in self.parts) - 1

    @property
    def typical_bias(self) -> float:
        """Root mean square of the bias over queries, the wrapped part taken whole."""
        table = 2 * float(np.sqrt(np.square(self._coefficients * self.table_errors[1]).sum()))
        return math.sqrt(self._missed[1] + self._wrapped**2 + table**2)

    @property
    def largest_bias(self) -> float:
        """Most that the approximation can miss, whatever the records are."""
        table = 2 * float(np.abs(self._coefficients * self.table_errors[0]).sum())
        return float(self._missed[0] + self._wrapped + table)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """State the largest bias of every query."""
        return np.full(len(Y), self.largest_bias)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description, with modes and amplitudes as they are."""
        return self.schema.write(self), {"modes": self.modes, "amplitudes": self.amplitudes}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the series, whose modes and amplitudes a release holds."""
        pairs = (size - (1 if fields["counted"] else 0)) // 2
        modes = stored_array(arrays, "modes", "i", (pairs, fields["box"].dimension), MOST_MODE)
        amplitudes = stored_array(arrays, "amplitudes", "i", (pairs,), MOST_AMPLITUDE)
        return cls(kernel, fields["box"], fields["periods"], modes, amplitudes, fields["counted"])
