"""`tree-published` and `tree-consistent`: noisy binary trees, to measure the hats against.

Source: `tree-published` is appendix B of Backurs et al. (2024) with exact integer noise and a depth from public
facts (the paper's from n, which would leak it): one tree for each column (Algorithm 4), and for l2 on k independent
Gaussian projections (Corollary D.2). `tree-consistent` spends its budget unevenly over the levels and is read with
consistency.

Guarantee. f records differ between neighbours, and a column's tree moves by at most f times the sum of its levels'
scales. Laplace noise of rate e_1 / (f times that sum) is e_1-DP for one column. Pure (Theorem B.3): e_1 = epsilon / d.
With delta (Theorem B.4): the columns compose by Theorem A.1, d e_1^2 / 2 + e_1 sqrt(2 d log(1 / delta)) = epsilon,
where that is more; e_1 is rounded down.

Error. `tree` and `consistent` state bias and variance.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.distances.counting import count_reader
from sfumato.distances.forecast import forecast_by_reading
from sfumato.distances.projected import ProjectedQuantizer
from sfumato.distances.projection import MOST_PROJECTIONS, Projection
from sfumato.errors import InputError
from sfumato.kernels.distance import Distance
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.privacy.rational import exact_epsilon
from sfumato.published.consistent import ConsistentTree
from sfumato.published.tree import BinaryTree, IntervalTree
from sfumato.quantizers.box import Box

PUBLISHED, CONSISTENT = "tree-published", "tree-consistent"
ALPHA, SMALLEST_ALPHA = 0.1, 1e-3  # a query looks at log(2^depth) / alpha intervals
LARGEST_DEPTH = 20
TOTAL = 1 << 30
RATIOS = tuple(Fraction(k, 20) for k in range(10, 21))


def _depth(request: Request) -> int:
    """Read the depth from the options, or take as many leaves as records."""
    best = max(2, math.ceil(math.log2(max(request.n, 2))))
    return request.size_option("depth", best, LARGEST_DEPTH)


def _alpha(request: Request) -> float:
    value = request.options.get("alpha", ALPHA)
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST_ALPHA <= value < 1:
        raise InputError(f"option alpha must be a number from {SMALLEST_ALPHA:g} to below 1, got {value!r}")
    return float(value)


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
    """Split `total` between the levels for the least mean variance, see `consistent`."""
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
    parameters: dict[str, Any] = {"depth": tree.depth, "n_hint": request.n}
    if isinstance(tree, IntervalTree):
        parameters |= {"alpha": tree.alpha}
    if isinstance(quantizer, ProjectedQuantizer):
        parameters |= {"projections": quantizer.projection.count}
    return Mechanism(
        method=name,
        kernel=request.metric,
        quantizer=quantizer,
        noise=noise,
        count_law=request.count_law,
        guarantee=request.guarantee(quantizer.box.condition()),
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


PUBLISHED_METHOD = Method(
    PUBLISHED,
    "noisy binary trees, geometric intervals (as published)",
    ("alpha", "depth", "projections"),
    refuse=lambda request: None,
    build=build_published,
    predict=lambda request, _: _forecast_published(request),
    baseline=True,
    metrics=("l1", "l2", "lpp"),
)
CONSISTENT_METHOD = Method(
    CONSISTENT,
    "noisy binary trees, consistent leaves",
    ("depth",),
    refuse=lambda request: None,
    build=build_consistent,
    predict=lambda request, _: _forecast_consistent(request),
    baseline=True,
    metrics=("l1",),
)
