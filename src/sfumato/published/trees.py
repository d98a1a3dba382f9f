"""`tree-published` and `tree-consistent`: noisy binary trees, to measure the hats against.

Source: `tree-published` is appendix B of Backurs et al. (2024) with exact integer noise and a depth from public
facts (the paper's from n, which would leak it): one tree for each column (Algorithm 4), and for l2 on k independent
Gaussian projections (Corollary D.2). `tree-consistent` spends its budget unevenly over the levels and is read with
consistency.

Guarantee. f records differ between neighbours, and a column's tree moves by at most f times the sum of its levels'
scales. Laplace noise of rate e_1 / (f times that sum) is e_1-DP for one column. Pure (Theorem B.3): e_1 = epsilon / d.
With delta (Theorem B.4): the columns compose by Theorem A.1, d e_1^2 / 2 + e_1 sqrt(2 d log(1 / delta)) = epsilon,
where that is more; e_1 is rounded down.

Consistency: the best linear estimate of the leaves, then exact distances. Source: M. Hay, V. Rastogi, G. Miklau, D.
Suciu, "Boosting the Accuracy of Differentially Private Histograms Through Consistency", VLDB 2010, with levels of
different budgets.

Reading. With v_l the noise variance of a count on level l, a node's estimate from itself and what is below it has u_l
= 1 / (1 / v_l + 1 / (2 u_(l+1))), u_H = v_H. From the root down, what a node has more than its children's estimates
together is split evenly between them. The leaves then give f(y) = sum of |y - middle of leaf| times its count.

Variance. The estimate of the root and the differences of siblings' estimates are uncorrelated, so with q_v the mean of
|y - c| over the leaves c below a node v, Var f(y) = u_0 q_root^2 + sum_v u_(l+1) (q_left - q_right)^2 / 2. A node v of
width w that does not hold y has |q_left - q_right| = w / 2, so the sum over v has a closed form but for one node of
every level. Budgets of levels in proportion to a power r^l: the r with the least mean variance is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.columns import ColumnReading, count_reader, distance_method, forecast_by_reading
from sfumato.distances.projection import MOST_PROJECTIONS, ProjectedQuantizer, Projection
from sfumato.errors import InputError
from sfumato.kernels.unscaled import Distance
from sfumato.methods.method import Mechanism, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.guarantee import exact_epsilon
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.codec import Schema
from sfumato.published.tree import ALPHAS, BinaryTree, IntervalTree
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box


@dataclass(frozen=True, eq=False)
class ConsistentTree(BinaryTree):
    """Trees that are read with consistency, for l1; see the module's text.

    Examples
    --------
    >>> from sfumato.kernels.unscaled import Distance
    >>> from sfumato.quantizers.box import Box
    >>> tree = ConsistentTree(Distance("l1"), Box((0.0,), (1.0,)), scales=(1, 1, 1))
    >>> tree.weigh(np.array([[1.0]]), np.array([3.0, 1, 2, 0, 1, 1, 1])).total
    array([1.125])
    """

    name: ClassVar[str] = "consistent-tree"
    schema: ClassVar[Schema] = BinaryTree.schema.extended({"quantizer": name})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric.power != 1:
            raise InputError("a tree that is read with consistency is for l1")

    @cached_property
    def estimate_variances(self) -> Floats:
        """u_l of every level, for noise of variance 1 on the integers."""
        own = 1 / np.square(np.array(self.scales, dtype=np.float64))
        result = own.copy()
        for level in range(self.depth - 1, -1, -1):
            result[level] = 1 / (1 / own[level] + 1 / (2 * result[level + 1]))
        return result

    def counts_between(self, sums: Floats, noise: float, ends: list[Floats], column: int) -> tuple[Floats, Floats]:
        """Take counts from the consistent leaves; the error bars of the plain tilings are an upper limit."""
        first, last = (np.clip(np.rint(self.relative(end, column) * self.leaves), 0, self.leaves) for end in ends)
        below = np.concatenate([[0.0], np.cumsum(self.consistent_leaves(sums[self.part(column)]))])
        counts = below[last.astype(np.int64)] - below[first.astype(np.int64)]
        return counts, super().counts_between(sums, noise, ends, column)[1]

    def consistent_leaves(self, sums: Floats) -> Floats:
        """Estimate the leaves of one column from its noisy sums."""
        u = self.estimate_variances
        estimates = [sums[(1 << level) - 1 : (2 << level) - 1] / scale for level, scale in enumerate(self.scales)]
        for level in range(self.depth - 1, -1, -1):
            below = estimates[level + 1].reshape(-1, 2).sum(axis=1)
            estimates[level] = u[level] * (estimates[level] * self.scales[level] ** 2 + below / (2 * u[level + 1]))
        current = estimates[0]
        for level in range(1, self.depth + 1):
            pairs = estimates[level].reshape(-1, 2)
            current = (pairs + (current - pairs.sum(axis=1))[:, None] / 2).ravel()
        return np.asarray(current)

    def read_columns(self, Y: Floats, sums: Floats) -> ColumnReading:
        """Sum the distances to the estimated leaves."""
        totals, places = np.zeros(Y.shape), np.zeros(Y.shape)
        for column, unit in enumerate(self.lengths):
            y = places[:, column] = self.relative(Y[:, column], column)
            totals[:, column] = unit * _distances(self.consistent_leaves(sums[self.part(column)]), y)
        squares, products = self.lengths**2 * self.variance(places), np.zeros(Y.shape)
        if self.counted:
            products = self.lengths * mean_distance(places, 0.0, 1.0) * self.count_squares
        biases = np.broadcast_to(self.lengths / (6 * self.leaves**2), Y.shape)
        return ColumnReading(totals, squares, biases, products)

    def variance(self, y: Floats) -> Floats:
        """Variance of a column's answer, for noise of variance 1 on the integers and a column of width 1."""
        u = self.estimate_variances
        result = u[0] * mean_distance(y, 0.0, 1.0) ** 2
        holds = (y >= 0) & (y <= 1)
        for level in range(self.depth):
            width = 0.5**level
            left = np.clip(np.floor(y / width), 0, (1 << level) - 1) * width
            middle = left + width / 2
            own = mean_distance(y, left, middle) - mean_distance(y, middle, left + width)
            others = ((1 << level) - holds) * width**2 / 4
            result = result + u[level + 1] * (others + np.where(holds, own**2, 0.0)) / 2
        return np.asarray(result)

    def weights(self, Y: Floats) -> Floats:
        """Weights of all sums, shape (queries, size), one sum at a time; `read` is the way to answer queries."""
        units = np.eye(self.size)
        return np.stack([self.read_columns(Y, unit).totals.sum(axis=1) for unit in units], axis=1)

    def count(self, sums: NDArray[Any]) -> float:
        """Return the mean of the columns' estimates."""
        parts = [self.consistent_leaves(sums[self.part(column)].astype(np.float64)) for column in range(self.dimension)]
        return float(np.mean([part.sum() for part in parts]))

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights of that number."""
        return float(self.estimate_variances[0]) / self.dimension


def mean_distance(y: Floats, left: Floats | float, right: Floats | float) -> Floats:
    """Mean of |y - c| over c in an interval.

    Examples
    --------
    >>> mean_distance(np.array([0.5, 2.0]), 0.0, 1.0)
    array([0.25, 1.5 ])
    """
    inside = np.clip(y, left, right)
    squares = np.square(inside - left) + np.square(right - inside)
    return np.asarray(squares / (2 * (np.asarray(right) - left)) + np.abs(y - inside))


def _distances(leaves: Floats, y: Floats) -> Floats:
    """Sum of |y - c| over the middles c of equal cells, weighted."""
    middles = (np.arange(len(leaves)) + 0.5) / len(leaves)
    counts = np.concatenate([[0.0], np.cumsum(leaves)])
    moments = np.concatenate([[0.0], np.cumsum(leaves * middles)])
    below = np.searchsorted(middles, y)
    return np.asarray(y * (2 * counts[below] - counts[-1]) - (2 * moments[below] - moments[-1]))


PUBLISHED, CONSISTENT = "tree-published", "tree-consistent"
ALPHA = 0.1
LARGEST_DEPTH = 20
TOTAL = 1 << 30
RATIOS = tuple(Fraction(k, 20) for k in range(10, 21))


def _depth(request: Request) -> int:
    """Read the depth from the options, or take as many leaves as records."""
    best = max(2, math.ceil(math.log2(max(request.n, 2))))
    return request.size_option("depth", best, LARGEST_DEPTH)


def _alpha(request: Request) -> float:
    return ALPHAS.read(request.options.get("alpha", ALPHA), "option alpha")


def column_epsilon(request: Request, columns: int) -> Fraction:
    """e_1 of the module's text.

    Examples
    --------
    >>> request = Request(Distance("l1"), 100, Fraction(1), n=1000, feature_seed=0, delta=1e-6, bounds=(0, 1))
    >>> column_epsilon(request, 100)
    Fraction(46729, 2500000)
    """
    epsilon = request.feature_epsilon
    if not request.delta:
        return epsilon / columns
    slope = math.sqrt(2 * columns * math.log(1 / request.delta))
    # The positive root, without the difference of two nearly equal numbers that a small epsilon would make of it.
    composed = 2 * float(epsilon) / (math.sqrt(slope**2 + 2 * columns * float(epsilon)) + slope)
    return max(epsilon / columns, exact_epsilon(composed * (1 - 1e-9)))


def build_published(request: Request) -> Mechanism:
    """Build `tree-published`."""
    request.check_options("alpha", "depth", "projections")
    scales, alpha = (1,) * (_depth(request) + 1), _alpha(request)
    if request.metric.metric != "l2":
        tree = IntervalTree(request.metric, request.box, scales, request.reads_count, alpha)
        return _mechanism(PUBLISHED, request, tree)
    count = request.size_option("projections", math.ceil(1 / alpha**2), MOST_PROJECTIONS)
    projection = Projection(request.box, count, request.feature_seed, frames=False)
    inner = IntervalTree(Distance("l1"), projection.box, scales, request.reads_count, alpha)
    return _mechanism(PUBLISHED, request, ProjectedQuantizer(projection, inner))


def build_consistent(request: Request) -> Mechanism:
    """Build `tree-consistent`."""
    request.check_options("depth")
    scales = consistent_scales(_depth(request), TOTAL // request.dimension)
    return _mechanism(CONSISTENT, request, ConsistentTree(request.metric, request.box, scales, request.reads_count))


@lru_cache(maxsize=256)
def consistent_scales(depth: int, total: int) -> tuple[int, ...]:
    """Split `total` between the levels for the least mean variance, see the module's text."""
    box, y = Box((0.0,), (1.0,)), (np.arange(64) + 0.5) / 64

    def scales(ratio: Fraction) -> tuple[int, ...]:
        shares = [ratio**level for level in range(depth + 1)]
        return tuple(max(1, math.floor(total * share / sum(shares))) for share in shares)

    def variance(candidate: tuple[int, ...]) -> float:
        return float(ConsistentTree(Distance("l1"), box, candidate).variance(y).mean() * sum(candidate) ** 2)

    return min(map(scales, RATIOS), key=variance)


def _mechanism(name: str, request: Request, quantizer: BinaryTree | ProjectedQuantizer) -> Mechanism:
    tree = quantizer.inner if isinstance(quantizer, ProjectedQuantizer) else quantizer
    assert isinstance(tree, BinaryTree)
    noise = DiscreteLaplace(column_epsilon(request, tree.dimension) / (request.factor * sum(tree.scales)))
    parameters: dict[str, Any] = {"depth": tree.depth}
    if isinstance(tree, IntervalTree):
        parameters |= {"alpha": tree.alpha}
    if isinstance(quantizer, ProjectedQuantizer):
        parameters |= {"projections": quantizer.projection.count}
    return Mechanism.of(
        request,
        name,
        quantizer,
        noise,
        parameters=parameters,
        count_reader=count_reader(quantizer, noise) if request.reads_count else None,
    )


def _forecast_published(request: Request) -> Prediction:
    mechanism, power = build_published(request), 1.0 if request.metric.metric == "l2" else request.metric.power
    farthest = request.n * float((request.lengths**power).sum())
    return forecast_by_reading(request, mechanism, _alpha(request) * farthest)


def _forecast_consistent(request: Request) -> Prediction:
    leaf = request.n * float(request.lengths.sum()) / (2 << _depth(request))
    return forecast_by_reading(request, build_consistent(request), leaf)


PUBLISHED_METHOD = distance_method(
    PUBLISHED,
    "noisy binary trees, geometric intervals (as published)",
    build_published,
    _forecast_published,
    ("l1", "l2", "lpp"),
    ("alpha", "depth", "projections"),
    baseline=True,
)
CONSISTENT_METHOD = distance_method(
    CONSISTENT,
    "noisy binary trees, consistent leaves",
    build_consistent,
    _forecast_consistent,
    ("l1",),
    ("depth",),
    baseline=True,
)
