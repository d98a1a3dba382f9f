"""`moments` and `moments-gaussian`: squared Euclidean distances from centred moments with the best split.

Moments are sums of centred values, of their squares, and the number of records. With z = x - c, c the centre of the
box, sum_x |x - y|^2 = Q - 2 Z . (y - c) + n |y - c|^2, Q = sum |z|^2 and Z = sum z, exactly and for every y. A record
adds the integers s_j z_j / r_j (r_j the half width of the column), s_q (|z|^2 - m) / h and s_n; with M = sum_j r_j^2, m
= M / 3 and h = M - m, all of them within their scales. Taking m off the squares makes them smaller and is put back by
n, whose error then counts for |y - c|^2 + m; m = M / 3 leaves the least sum of both for queries spread evenly.

Centring is most of the gain over uncentred moments: values of half the size, squares of a quarter, and queries, by
which the errors are multiplied, that are as much nearer.

Source: section D.1 of Backurs et al. (2024) (`sqeuclidean-published`), with three changes: moments around the
centre of the public box, noise shaped like the cube that they lie in, and budgets by what each part adds to the error.

Guarantee of `moments`. The sums fall into blocks: groups of columns, and the squares with the number of records. In a
block of D sums every integer of one record is at most s; f records differ between neighbours (add/remove 1, replace 2,
times the records of a user). Cube noise of rate e_b / (f s) is e_b-DP for the block, and the e_b add up to epsilon
(`privacy.body`). A replaced record moves the squares by at most 3/2 s + 1 (from -s/2 to s) and the number by s (if
it is dropped), so that block's reach is that instead of 2 s.
`moments-gaussian`: Gaussian noise on all sums, calibrated to f times the l2 norm of the scales.

Split. The block's noise adds c_b / e_b^2 to an answer's variance, c_b = f^2 (D + 1)(D + 2) / 3 times the mean over
queries of the block's squared weights (in units of what one record can add). Budgets in proportion to the cube roots
of the c_b leave the sum (sum of cube roots)^3. One cube for all columns is best for columns of equal width: its noise
is a sixth of Laplace noise in variance for many columns. Columns of very different widths are better in blocks of
their own; the partition of the columns, ordered by width, with the least sum is found by dynamic programming. Under
Gaussian noise squared scales are proportional to the weights.

Error. Unbiased; for many columns of width R the noise of a sum is about R^2 d^1.5 / (6 epsilon).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.distances.columns import RowByRow, count_reader, distance_method, forecast_by_reading, kept_row
from sfumato.errors import InputError
from sfumato.methods.method import Mechanism
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import CubeNoise, StackedCubes
from sfumato.privacy.gaussian import gaussian_noise, largest_length
from sfumato.public.codec import Flag, Many, Schema, Whole
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import held
from sfumato.quantizers.described import GIVEN_BOX, Described, described

LARGEST_SCALE = 1 << 30
OFFSET = 1 / 3  # m / M


@dataclass(frozen=True, eq=False)
class MomentQuantizer(RowByRow, Described, LinearQuantizer):
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
    schema: ClassVar[Schema] = described(
        name,
        GIVEN_BOX,
        order=Many(Whole(0, MOST_COLUMNS), most=MOST_COLUMNS),
        scales=Many(Whole(1, LARGEST_SCALE), most=MOST_COLUMNS + 2),
        counted=Flag(),
    )

    def __post_init__(self) -> None:
        columns = self.bounds.dimension
        if sorted(self.order) != list(range(columns)) or len(self.scales) != columns + 2:
            raise InputError(f"moments of {columns} columns need an order of them and {columns + 2} scales")
        if not all(1 <= scale <= LARGEST_SCALE for scale in self.scales):
            raise InputError(f"scales of moments must lie between 1 and {LARGEST_SCALE}")

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


@njit(nogil=True, cache=True)
def _add(rows, lower, upper, drop, centre, inverse, order, offset, square_inverse, scales, sums):  # type: ignore[no-untyped-def]
    """Add the moments of the rows that the box keeps to `sums`, and return how many those were."""
    columns = rows.shape[1]
    values = np.empty(columns)
    kept = 0
    for i in range(rows.shape[0]):
        if not kept_row(rows[i], lower, upper, drop, values):
            continue
        kept += 1
        square = 0.0
        for j in range(columns):
            values[j] -= centre[j]
            square += values[j] * values[j]
        for place in range(columns):
            j = order[place]
            sums[place] += held(np.rint(scales[place] * (values[j] * inverse[j])), -scales[place], scales[place])
        part = np.rint(scales[columns] * ((square - offset) * square_inverse))
        sums[columns] += held(part, -(scales[columns] // 2) - 1, scales[columns])  # offset / h is a half
        sums[columns + 1] += scales[columns + 1]
    return kept


LAPLACE, GAUSSIAN = "moments", "moments-gaussian"
SCALE = 1 << 24  # of the widest block
PARTS = 10_000  # epsilon is split into so many


@dataclass(frozen=True)
class Weights:
    """Mean squared weights of queries spread evenly, in units of what one record can add: columns, squares, number."""

    columns: Floats
    square: float
    number: float

    @classmethod
    def of(cls, halves: Floats) -> Weights:
        """Weights for columns of these half widths: E (2 r_j y_j)^2, h^2 and E (|y|^2 + m)^2."""
        largest = float(np.square(halves).sum())
        mean, spread = largest / 3, float((halves**4).sum()) * 4 / 45
        columns = 4 / 3 * halves**4
        return cls(columns, ((1 - OFFSET) * largest) ** 2, (mean + OFFSET * largest) ** 2 + spread)


def cube_factor(size: int) -> float:
    """Variance of a coordinate of cube noise of rate 1."""
    return (size + 1) * (size + 2) / 3


def partition(weights: Floats) -> list[int]:
    """Sizes of blocks of columns, ordered by falling weight, with the least sum of cube roots.

    Examples
    --------
    >>> partition(np.ones(10)), partition(np.array([1e6, 1.0, 1.0]))
    ([10], [1, 2])
    """
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    count = len(weights)
    best, sizes = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        size = np.arange(1, end + 1)
        costs = best[end - size] + np.cbrt((size + 1) * (size + 2) / 3 * (sums[end] - sums[end - size]))
        sizes[end] = size[np.argmin(costs)]
        best[end] = costs.min()
    result: list[int] = []
    while count:
        result.insert(0, int(sizes[count]))
        count -= result[0]
    return result


def shares(costs: Sequence[float]) -> list[Fraction]:
    """Split 1 in proportion to the cube roots of costs, into whole parts of 1/10000, each at least one.

    Examples
    --------
    >>> shares([8.0, 1.0])
    [Fraction(6667, 10000), Fraction(3333, 10000)]
    """
    roots = np.cbrt(np.array(costs, dtype=np.float64))
    parts = [max(1, math.floor(PARTS * root)) for root in roots / roots.sum()]
    largest = int(np.argmax(roots))  # takes what rounding leaves, or pays for parts that were raised to one
    parts[largest] += PARTS - sum(parts)
    if parts[largest] < 1:
        raise InputError(f"{len(costs)} blocks of columns are too many to split a budget between; scale the columns")
    return [Fraction(part, PARTS) for part in parts]


def build_laplace(request: Request) -> Mechanism:
    """Build `moments`."""
    request.check_options()
    halves = request.box.half_widths
    order = np.argsort(-halves, kind="stable")
    weights = Weights.of(halves[order])
    sizes = partition(weights.columns)
    groups = np.split(weights.columns, np.cumsum(sizes)[:-1])
    factors = [float(request.factor)] * len(sizes) + [1.5 if request.neighbours == "replace" else float(request.factor)]
    widths = [factor * math.sqrt(cube_factor(size)) for factor, size in zip(factors, (*sizes, 2), strict=True)]
    squares = [*(float(group.sum()) for group in groups), weights.square + weights.number]
    split = shares([width**2 * square for width, square in zip(widths, squares, strict=True)])
    epsilons = [share * request.feature_epsilon for share in split]
    # Equal noise on all integers: a block's scale over its epsilon falls with the width of its noise.
    ratios = [float(epsilon) / width for epsilon, width in zip(epsilons, widths, strict=True)]
    scales = [max(1, round(SCALE * ratio / max(ratios))) for ratio in ratios]
    reaches = [request.factor * scale for scale in scales]
    if request.neighbours == "replace":
        reaches[-1] = scales[-1] + scales[-1] // 2 + 2
    parts = zip((*sizes, 2), epsilons, reaches, strict=True)
    noise = StackedCubes(tuple(CubeNoise(size, epsilon / reach) for size, epsilon, reach in parts))
    each = [scale for size, scale in zip((*sizes, 2), scales, strict=True) for _ in range(size)]
    quantizer = MomentQuantizer(request.box, tuple(map(int, order)), tuple(each), request.reads_count)
    return Mechanism.of(
        request,
        LAPLACE,
        quantizer,
        noise,
        parameters={"blocks": len(sizes) + 1},
        count_reader=count_reader(quantizer, noise) if request.reads_count else None,
    )


def build_gaussian(request: Request) -> Mechanism:
    """Build `moments-gaussian`."""
    request.check_options()
    weights = Weights.of(request.box.half_widths)
    roots = np.sqrt(np.array([*weights.columns, weights.square, weights.number]))
    epsilon = float(request.feature_epsilon)
    length = min(float(LARGEST_SCALE), largest_length(request.factor, epsilon, request.delta))
    scales = tuple(max(1, math.floor(length * math.sqrt(share))) for share in roots / roots.sum())
    order = tuple(range(request.dimension))
    quantizer = MomentQuantizer(request.box, order, scales, request.reads_count)
    l2_squared = request.factor**2 * quantizer.bound.l2_squared
    noise, loss = gaussian_noise(l2_squared, quantizer.size, epsilon, request.delta)
    return Mechanism.of(
        request,
        GAUSSIAN,
        quantizer,
        noise,
        parameters={
            "noise_multiplier": noise.sigma / math.nextafter(math.sqrt(l2_squared), math.inf),
        },
        feature_loss=loss,
        count_reader=count_reader(quantizer, noise) if request.reads_count else None,
    )


LAPLACE_METHOD = distance_method(
    LAPLACE,
    "centred moments, noise shaped like cubes",
    build_laplace,
    lambda request: forecast_by_reading(request, build_laplace(request), 0.0),
    ("sqeuclidean",),
    pure=True,
)
GAUSSIAN_METHOD = distance_method(
    GAUSSIAN,
    "centred moments, Gaussian noise",
    build_gaussian,
    lambda request: forecast_by_reading(request, build_gaussian(request), 0.0),
    ("sqeuclidean",),
    approximate=True,
)
