"""`smalldb`: the best of all small sets of points on a discretised box, by the exponential mechanism.

Source: A. Blum, K. Ligett and A. Roth, "A Learning Theory Approach to Noninteractive Database Privacy", JACM 2013;
appendix C.1 of Wagner et al. (2023) for densities as a function release: the query class is the kernel at every
node of the grid. Corrected: the number of records is paid for, and the choice is exact.

Algorithm. All C(N + m - 1, m) sets of m of the N nodes are listed. A set Z stands for n/m records at each of its
points, n the published count, and its score is the largest error over the class, max_y |m q_y(X) - n q_y(Z)|, in
integers. One set is chosen, and its score is measured: it becomes the error bar. The cost is exponential in m and in
the number of columns, and beyond a few hundred thousand sets it is refused.

Guarantee. A record changes m q_y(X), and so every score, by at most D = m s (k D for k records of a user), also when it
is replaced; the set and n are public. Choosing at rate 9/10 e_f / (2 D) is 9/10 e_f-DP (`gridded`), measuring with
discrete Laplace noise of rate 1/10 e_f / D is 1/10 e_f-DP; the count at e_c composes to epsilon. There is no variant
with delta.

Error: a set of m points misses a density by about sqrt(P / m), as a random sample would, and the choice adds at most
2 log(sets) / (9/10 e_f n), typically; moving records to nodes comes on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations_with_replacement

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace, comparing_rate
from sfumato.published.common import dense_prediction, refuse_delta
from sfumato.published.gridded import (
    NodeQueries,
    SecretSteps,
    Steps,
    extents_of,
    grid_of,
    nodes_of,
    published,
    refuse_grid,
    spacing_option,
)
from sfumato.quantizers.base import Floats, Integers
from sfumato.release import Count

NAME = "smalldb"
OPTIONS = ("points", "spacing")
POINTS, MOST_POINTS = 4, 64
MOST_SETS = 2**18
# By default the grid is made coarser until there are no more sets than this.
DEFAULT_SETS = 2**16
MEASURING = Fraction(1, 10)
BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class SmallDatabase:
    """The choice among all sets, ready to run on a histogram.

    Attributes
    ----------
    queries : NodeQueries
        The query class.
    points : int
        m.
    rate : Fraction
        Rate of the choice.
    law : DiscreteLaplace
        Law of the measurement.
    """

    queries: NodeQueries
    points: int
    rate: Fraction
    law: DiscreteLaplace

    def __call__(self, sums: Integers, count: Count, bits: SecureBits) -> Integers:
        """Choose the synthetic records of a histogram."""
        answers = self.queries.answers(self.queries.histogram(sums))
        records, error = self.choose(answers, count.value, SecretSteps(bits))
        return published(self.queries.grid, records, error)

    def choose(self, answers: Integers, count: int, steps: Steps) -> tuple[Floats, float]:
        """Choose a set by exact answers; return its records at each node and its measured error."""
        errors = self.errors(answers, count)
        chosen = steps.choose(-errors, self.rate)
        measured = steps.measure(int(errors[chosen]), self.law)
        records = np.bincount(self.sets[chosen], minlength=self.queries.grid.cells) * (count / self.points)
        return np.asarray(records, dtype=np.float64), max(measured, 0) / (self.points * self.queries.scale)

    @cached_property
    def sets(self) -> Integers:
        """All sets, one a row."""
        sets = combinations_with_replacement(range(self.queries.grid.cells), self.points)
        flat = np.fromiter(chain.from_iterable(sets), dtype=np.int64)
        return flat.reshape(-1, self.points)

    def errors(self, answers: Integers, count: int) -> Integers:
        """Largest error of each set over the class, times m s."""
        nodes, count = self.queries.grid.cells, min(count, self.queries.most_records)
        kernel = np.stack([self.queries.answers(row) for row in np.eye(nodes, dtype=np.int64)])
        result = np.empty(len(self.sets), dtype=np.int64)
        step = max(1, BLOCK // (nodes * self.points))
        for start in range(0, len(result), step):
            synthetic = kernel[self.sets[start : start + step]].sum(axis=1)
            result[start : start + step] = np.abs(self.points * answers - count * synthetic).max(axis=1)
        return result


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_grid(request) or refuse_delta(request)


def number_of_sets(nodes: int, points: int) -> int:
    """Count the sets of `points` nodes, repetitions allowed.

    Examples
    --------
    >>> number_of_sets(10, 4)
    715
    """
    return math.comb(nodes + points - 1, points)


def _few(nodes: int, points: int) -> bool:
    """Whether there are few enough sets for a default; no fewer than nodes, whose number may have many digits."""
    return nodes <= DEFAULT_SETS and (nodes == 1 or number_of_sets(nodes, points) <= DEFAULT_SETS)


def _sizes(request: Request) -> tuple[NodeQueries, int, float]:
    request.check_options(*OPTIONS)
    points = request.positive_option("points", POINTS)
    if points > MOST_POINTS:
        raise InputError(f"option points must be at most {MOST_POINTS}, got {points}")
    spacing = spacing_option(request)
    if "spacing" not in request.options:
        spacing = max(spacing, float(f"{float(extents_of(request).max()) / DEFAULT_SETS:.2g}"))
        while not _few(math.prod(nodes_of(request, spacing)), points):
            spacing = float(f"{1.25 * spacing:.2g}")
    grid = grid_of(request, spacing, MOST_SETS)
    sets = number_of_sets(grid.cells, points)
    if sets > MOST_SETS:
        raise InputError(
            f"{points} points on {grid.cells} nodes form {sets:.3g} sets, each of which is looked at, and {MOST_SETS} "
            "are allowed; pass fewer points, a larger spacing or tighter bounds"
        )
    return NodeQueries(grid, times=points), points, spacing


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    queries, points, spacing = _sizes(request)
    nodes = queries.grid.cells
    sets = number_of_sets(nodes, points)
    epsilon = float(request.feature_epsilon * (1 - MEASURING)) / request.records_per_user
    error = math.sqrt(density / points) + 2 * math.log(sets) / (epsilon * request.n)
    error += queries.grid.displacement * density
    work = 1 + sets * nodes * points / request.n
    parameters = {"points": points, "spacing": spacing}
    return dense_prediction(request, min(error, 1.0) ** 2, nodes + 1, work, parameters, density, query_work=nodes)


def build(request: Request) -> Mechanism:
    """Lay out the grid and share the budget."""
    queries, points, spacing = _sizes(request)
    sensitivity = request.records_per_user * points * queries.scale
    rate = comparing_rate(request.feature_epsilon * (1 - MEASURING) / (2 * sensitivity))
    law = DiscreteLaplace.at_most(request.feature_epsilon * MEASURING / sensitivity)
    return Mechanism(
        method=NAME,
        kernel=request.kernel,
        quantizer=queries.grid,
        noise=law,
        count_law=request.count_law,
        guarantee=request.guarantee(queries.grid.box.condition()),
        parameters={"points": points, "spacing": spacing, "n_hint": request.n},
        algorithm=SmallDatabase(queries, points, rate, law),
    )


METHOD = Method(NAME, "the best of all small sets of points", OPTIONS, refuse, predict, build, baseline=True)
