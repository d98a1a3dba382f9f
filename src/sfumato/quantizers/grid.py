"""The spline grid: records add tensor B-spline weights to the nodes of a grid over public bounds, in few dimensions.

A separable kernel is a product over the columns of k_j(x_j - y_j), and so are both maps: f(x) is the product of the
columns' B-spline values (`splines`), g(y) the product of their least-squares dual weights. A column whose public
range is below `narrow` bandwidths has one node: its factor is a constant for every record.

Bound of one record. Each wide axis' integers are non-negative and sum to u exactly, with u the largest integer such
that u^d <= 2^30 for d wide axes; multiplied out they sum to exactly s = u^d. So l1 = s whatever the degree.

Buckets. Where the nodes are too many to keep, node c goes to bucket h(c) of B = 2^b, h a public hash (`nodes`): any two
nodes' buckets are independent and exactly uniform. A record's integers are still non-negative with sum s. The answer
reads (sum_c g_c S_h(c) - sum_c g_c mean(S)) B / (B - 1): for a node c, E S_h(c) = T_c + (T - T_c) / B with T the sum
over all nodes, which is the sum of all buckets, so it is unbiased over the draw of h. Two nodes c and c' that share a
bucket change it by g_c T_c' + g_c' T_c, so its variance is (|g|^2 |T|^2 + (g.T)^2) / B up to terms 1/B smaller, for a
hash whose collisions are uncorrelated, plus |g|^2 times that of the noise. The variance of the buckets' values around
their mean estimates |T|^2 / B + noise without bias (`Reading.spread`); g.T / sqrt(B) is added to the bias.

Bias. f(x).g(y) misses k(x, y) by about the axes' relative residuals (`splines.Dual`) and rounding errors times the
kernel. Records that share few values may all miss by the same amount in every column, records that are spread smoothly
hardly miss at all. `weigh` and `bias_bound` state the most that any records can miss (`reach`). Error bars (`reading`)
state what typical records leave and, beside it, what the sums show: along each axis the sums are read with the other
axes' weights, which leaves a grid of one column, and the squared differences of its neighbouring nodes, the noise's
part taken off, say how rough the records are there (`splines`). Noise of variance s^2 on the sums hides roughness of s
per node, whose bias is the misfit times the noise of the answer: little beside it. Records beyond a query's window add
at most its `truncation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Many, Nested, Optional, Real, Schema, Whole, brief
from sfumato.public.portable import LARGEST_SEED
from sfumato.public.ranges import check_reader_cost
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.nodes import Nodes, scatter, scatter_each
from sfumato.quantizers.reach import most_missed, table_limit
from sfumato.quantizers.splines import (
    DEGREES,
    DIFFERENCES,
    MOST_NODES,
    POSITIONS,
    Axis,
    Dual,
    DualSolver,
    integer_table,
    table_error,
)

LARGEST_SUM = 1 << 30
MOST_AXES = 1 << 12  # narrow ones included: each has its own weights at every query
MOST_WIDE = 9  # beyond, a record's integers along one axis would be too coarse
MOST_BUCKETS = 1 << 26
NARROW = 0.6
# Squared bias in units of what the sums' differences show: on lattices neighbouring values miss alike.
COHERENCE = 4.0
SPACINGS = (0.05, 2.0)


def unit_of(wide: int) -> int:
    """Largest integer whose power `wide` is at most 2^30: what one axis' integers sum to; 1 without wide axes."""
    root: int = round(LARGEST_SUM ** (1 / wide)) if wide else 1
    return root - 1 if root**wide > LARGEST_SUM else root


@dataclass(frozen=True, eq=False)
class GridQuantizer(LinearQuantizer):
    """Tensor B-splines on a grid over a public box; see the module's text.

    Attributes
    ----------
    kernel : ShiftInvariantKernel
        A separable kernel.
    domain : Box
        The public bounds.
    spacing : float
        Length of a cell in bandwidths.
    degree : int
        Degree of the splines, 0 to 3.
    narrow : float
        Columns with a range below this many bandwidths have one node.
    buckets : int or None
        A power of two: hash the nodes into so many buckets.
    seed : int
        Public seed of the hash.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.kernels import Gaussian
    >>> grid = GridQuantizer(Gaussian(1.0), Box((0.0, 0.0), (6.0, 0.5)), spacing=0.5)
    >>> grid.shape, int(grid.encode(np.array([[2.0, 0.1]])).sum()) == grid.bound.l1
    ((15, 1), True)
    """

    kernel: ShiftInvariantKernel
    domain: Box
    spacing: float
    degree: int = 3
    narrow: float = NARROW
    buckets: int | None = None
    seed: int = 0

    name: ClassVar[str] = "grid"
    solver: ClassVar[type[DualSolver]] = DualSolver
    kernels = ShiftInvariantKernel
    schema = Schema(
        {"quantizer": name},
        box=Nested(Box.from_document),
        spacing=Real(*SPACINGS),
        degree=Whole(min(DEGREES), max(DEGREES)),
        narrow=Real(0.0, 1e6),
        buckets=Optional(Whole(2, MOST_BUCKETS)),
        seed=Whole(0, LARGEST_SEED),
        nodes=Many(Whole(1, MOST_NODES), MOST_AXES),
        unit=Whole(1, LARGEST_SUM),
    )

    def __post_init__(self) -> None:
        if not self.kernel.separable:
            raise InputError(f"a grid needs a kernel that is a product over the columns, not {self.kernel!r}")
        if self.degree not in DEGREES:
            raise InputError(f"degree must be 0, 1, 2 or 3, got {brief(self.degree)}")
        if not SPACINGS[0] <= self.spacing <= SPACINGS[1]:
            raise InputError(
                f"spacing must lie between {SPACINGS[0]} and {SPACINGS[1]} bandwidths, got {brief(self.spacing)}"
            )
        if self.buckets is not None and not (self.buckets.bit_count() == 1 and 1 < self.buckets <= MOST_BUCKETS):
            raise InputError(f"buckets must be a power of two from 2 to {MOST_BUCKETS}, got {brief(self.buckets)}")
        if self.domain.dimension > MOST_AXES:
            raise InputError(f"a grid takes {MOST_AXES} columns, got {self.domain.dimension}; pass fewer columns")
        if len(self.wide) > MOST_WIDE:
            raise InputError(
                f"{len(self.wide)} columns are {self.narrow:g} bandwidths wide or more, and a grid takes {MOST_WIDE}; "
                "pass tighter bounds or larger bandwidths"
            )

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.domain

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every column's cells."""
        bandwidths = self.kernel.column_scales(self.domain.dimension)
        edges = zip(self.domain.lower, self.domain.upper, bandwidths.tolist(), strict=True)
        return tuple(Axis.over(*edge, self.spacing, self.degree, self.narrow) for edge in edges)

    @cached_property
    def wide(self) -> tuple[int, ...]:
        """Columns with more than one node."""
        return tuple(column for column, axis in enumerate(self.axes) if not axis.single)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes of every column."""
        return tuple(axis.nodes for axis in self.axes)

    @property
    def size(self) -> int:
        """Nodes of the grid, or buckets."""
        return self.buckets if self.buckets is not None else math.prod(self.shape)

    @property
    def width(self) -> int:
        """All sums belong to the one draw."""
        return self.size

    @cached_property
    def unit(self) -> int:
        """u: what a record's integers along one wide axis sum to."""
        return unit_of(len(self.wide))

    @cached_property
    def scale(self) -> int:
        """s: what a record's integers sum to."""
        return math.prod([self.unit] * len(self.wide))

    @cached_property
    def _table(self) -> Integers:
        return integer_table(self.degree if self.wide else 0, self.unit)

    @property
    def bound(self) -> Bound:
        """Bounds of one record; in one bucket all of its integers may meet."""
        if self.buckets is not None:
            return Bound(l1=self.scale, l2_squared=self.scale**2, largest=self.scale)
        squares, wide = int(np.square(self._table).sum(axis=1).max()), len(self.wide)
        return Bound(l1=self.scale, l2_squared=squares**wide, largest=int(self._table.max()) ** wide)

    @cached_property
    def nodes(self) -> Nodes:
        """Places of the wide axes' nodes among the sums."""
        lengths = [self.axes[column].nodes for column in self.wide]
        return Nodes.kept(lengths) if self.buckets is None else Nodes.hashed(lengths, self.buckets, self.seed)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        encoded = np.zeros((len(rows), self.size), dtype=np.int64)
        return encoded[: scatter_each(rows, *self._parts, encoded)]

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return int(scatter(rows, *self._parts, sums))

    @property
    def _parts(self) -> tuple[Any, ...]:
        """What `nodes.scatter` needs: edges, cells, the integers at every position, and the nodes' places."""
        edges = np.array(self.domain.lower), np.array(self.domain.upper), self.domain.outside == "drop"
        return edges, self._cells, self._table, self.nodes.keys, self.nodes.starts, self.nodes.shift

    @cached_property
    def _cells(self) -> tuple[Integers, Floats, Floats, Integers]:
        """Columns, origins, positions per unit of length and last positions of the wide axes."""
        axes = [self.axes[column] for column in self.wide]
        return (
            np.array(self.wide, dtype=np.int64),
            np.array([axis.origin for axis in axes]),
            np.array([POSITIONS / (axis.spacing * axis.bandwidth) for axis in axes]),
            np.array([axis.cells * POSITIONS - 1 for axis in axes], dtype=np.int64),
        )

    def _duals(self, Y: Floats) -> list[Dual]:
        """Every column's weights; equal coordinates, as on a map, are solved once."""
        duals = []
        for column, solver in enumerate(self._solvers):
            places, back = np.unique(Y[:, column], return_inverse=True)
            duals.append(solver.at(places).at(back))
        return duals

    @cached_property
    def _solvers(self) -> tuple[DualSolver, ...]:
        alike = {axis: self.solver(self.kernel.column_profile, axis) for axis in self.axes}
        return tuple(alike[axis] for axis in self.axes)

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read the sums; the bias is the most that any records can miss."""
        duals = self._duals(Y)
        total, _ = self._read(duals, sums, len(Y))
        records = max(float(sums.sum()) / self.scale, 1.0)
        bias = self._most_missed(Y, duals, sums) / records + self._collisions * np.minimum(np.abs(total) / records, 1.0)
        return Reading(total, self._squares(duals), bias + self._truncation, self._spread(sums))

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read the sums; the bias is that of typical records, and what the sums show of it."""
        duals = self._duals(Y)
        total, profiles = self._read(duals, sums, len(Y))
        squares, spread = self._squares(duals), self._spread(sums)
        records = max(float(sums.sum()) / self.scale, known.records, 1.0)
        size = np.minimum(np.abs(total) / records, 1.0)
        shown, constant = np.zeros(len(Y)), self._constant(duals) / self.scale
        for column, profile in zip(self.wide, profiles, strict=True):
            others = squares / np.maximum(duals[column].squares, np.finfo(np.float64).tiny)
            shown += _shown(duals[column], profile * constant[:, None], max(known.noise_variance, spread) * others)
        bias = np.hypot(self._typical(duals) * size, np.sqrt(np.maximum(shown, 0.0)) / records)
        return Reading(total, squares, np.minimum(bias, self._misfit(duals) * size) + self._truncation, spread)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Return the most that any records can miss, for the sums as they are."""
        return self.weigh(Y, sums).bias

    def _read(self, duals: list[Dual], sums: Floats, queries: int) -> tuple[Floats, list[Floats]]:
        """Contract the sums with the columns' weights, each query over its own window of the grid."""
        wide = [duals[column] for column in self.wide]
        total, profiles = self.nodes.profiles(wide, sums, queries)
        if self.buckets is not None:
            weight = np.prod([dual.weights.sum(axis=1) for dual in wide], axis=0)
            total = (total - weight * sums.mean()) * (self.buckets / (self.buckets - 1))
        return total * (self._constant(duals) / self.scale), profiles

    def _squares(self, duals: list[Dual]) -> Floats:
        return np.asarray(np.prod([dual.squares for dual in duals], axis=0) / self.scale**2)

    def _spread(self, sums: Floats) -> float:
        return 0.0 if self.buckets is None else float(sums.var())

    @cached_property
    def _truncation(self) -> float:
        return sum(solver.truncation for solver in self._solvers)

    def _most_missed(self, Y: Floats, duals: list[Dual], sums: Floats) -> Floats:
        """Read the sums with the weights of `reach`: the sum over the records of the most that each can miss."""
        once: list[Dual] = []
        twice: list[Dual] = []
        for column, (solver, dual) in enumerate(zip(self._solvers, duals, strict=True)):
            rounding = table_limit(self.degree, self.unit) if column in self.wide else 0.0
            missed = most_missed(solver, Y[:, column], dual, rounding)
            once.append(replace(dual, weights=dual.weights + missed))
            twice.append(replace(dual, weights=dual.weights + 2 * missed))
        most, least = (self._read(weighed, sums, len(Y))[0] for weighed in (twice, once))
        return np.asarray(np.maximum(most - least, 0.0))

    def records_shown(self, sums: Floats, known: Known) -> tuple[float, float]:
        """Return the number of records: each adds the same to the sums."""
        return float(sums.sum()) / self.scale, math.sqrt(self.size * known.noise_variance) / self.scale

    def weights(self, Y: Floats) -> Floats:
        """Weights of all sums, shape (queries, size); `read` is the way to answer many queries."""
        duals = self._duals(Y)
        wide = [duals[column] for column in self.wide]
        result = np.stack([self.nodes.layout(wide, query) for query in range(len(Y))])
        if self.buckets is not None:
            result -= result.mean(axis=1, keepdims=True)
            result *= self.buckets / (self.buckets - 1)
        return np.asarray(result * (self._constant(duals) / self.scale)[:, None])

    def combine(self, Y: Floats, coefficients: Floats) -> Floats:
        """Weights of a weighted sum of answers, each query's spread over its own window of the grid."""
        duals = self._duals(Y)
        scaled = coefficients * self._constant(duals) / self.scale
        result = self.nodes.spread([duals[column] for column in self.wide], scaled)
        if self.buckets is not None:
            result = (result - result.mean()) * (self.buckets / (self.buckets - 1))
        return result

    @property
    def query_products(self) -> int:
        """Nodes in the window of one query."""
        return math.prod(self._solvers[column].window + self.degree for column in self.wide)

    @property
    def query_numbers(self) -> int:
        """The windows of all columns."""
        return sum(solver.window + self.degree for solver in self._solvers)

    def _constant(self, duals: list[Dual]) -> Floats:
        """Product of the single nodes' weights."""
        single = [dual.weights[:, 0] for column, dual in enumerate(duals) if column not in self.wide]
        return np.asarray(np.prod([np.ones(len(duals[0].first)), *single], axis=0))

    def _misfit(self, duals: list[Dual]) -> Floats:
        """Error of f(x).g(y) relative to the kernel where all records miss as they would at its largest value."""
        return np.asarray(self._collisions + sum(dual.residual + self._rounding * dual.steepness for dual in duals))

    def _typical(self, duals: list[Dual]) -> Floats:
        """Error for typical records: theirs differ from place to place and from column to column."""
        typical = np.sqrt(sum(np.square(dual.typical(self._rounding)) for dual in duals))
        return np.asarray(self._collisions + typical + sum(dual.certain for dual in duals))

    @property
    def _collisions(self) -> float:
        return 0.0 if self.buckets is None else 1 / math.sqrt(self.buckets)

    @cached_property
    def _rounding(self) -> float:
        return table_error(self.degree, self.unit) if self.wide else 0.0

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        document = {
            "quantizer": self.name,
            "box": self.domain.to_document(),
            "spacing": self.spacing,
            "degree": self.degree,
            "narrow": self.narrow,
            "buckets": self.buckets,
            "seed": self.seed,
            "nodes": list(self.shape),
            "unit": self.unit,
        }
        return document, {}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the grid, and compare it with what the header says of it."""
        nodes, unit = fields.pop("nodes"), fields.pop("unit")
        check_reader_cost(sum(nodes) if fields["buckets"] is not None else 0)
        grid = cls(kernel, fields.pop("box"), **fields)
        if grid.size != size or (grid.shape, grid.unit) != (nodes, unit):
            raise ReleaseFileError(f"the header describes a grid that its {size} sums do not fit")
        check_reader_cost(sum(grid.shape), grid.query_products)
        return grid


def _shown(dual: Dual, profile: Floats, noise: Floats) -> Floats:
    """Squared bias along one axis as the differences of its profile show it, the noise's part taken off."""
    if dual.blind:
        return np.zeros(len(profile))
    differences = np.square(np.diff(profile, DIFFERENCES, axis=1))
    expected = math.comb(2 * DIFFERENCES, DIFFERENCES) * noise[:, None]
    return np.asarray(COHERENCE * (dual.watch * (differences - expected)).sum(axis=1))
