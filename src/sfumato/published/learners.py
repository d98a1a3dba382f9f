"""`pmw` and `smalldb`: synthetic records on a discretised box, learnt by choosing and measuring.

`pmw`: private multiplicative weights. Source: M. Hardt and G. Rothblum, FOCS 2010, and A. Gupta, A. Roth and J. Ullman,
TCC 2012, in the offline form with the update of M. Hardt, K. Ligett and F. McSherry, NIPS 2012; appendix C.1 of Wagner
et al. (2023) for densities as a function release: the query class is the kernel at every node of the grid, so that the
answer to any query follows from the synthetic records. Corrected: the number of records is paid for, and every random
step is exact.

Algorithm. Synthetic records start as the published count spread evenly over the nodes. In each of T rounds the
exponential mechanism chooses a query on which they err most, and its true answer is measured with noise. Then the
weights at the nodes are multiplied by exp(step k(node, query)), for each query measured so far: the third source's
variant that uses measurements again, with the step for which the answer is as measured (to first order) in place of
half the error, which learns densities of a few percent too slowly. One more round measures, in the same way, the
largest error of what is released: it becomes the error bar.

Guarantee. The weights are a function of what was published before, so a round is private if its two steps are. A record
changes every answer, and so every score |answer - estimate|, by at most D = s (k s for k records of a user), also when
it is replaced. Pure: with e_0 = e_f / (2 (T + 1)) for each of the 2 (T + 1) steps, choosing at rate e_0 / (2 D) and
measuring with Laplace noise of rate e_0 / D are e_0-DP each (`gridded`), and e_f-DP together. With delta: each step is
r = rho / (2 (T + 1))-zCDP, by choosing at rate sqrt(8 r) / (2 D) and measuring with Gaussian noise of sigma = D /
sqrt(2 r); rho-zCDP in all, and rho = (sqrt(e_f + log(1 / delta)) - sqrt(log(1 / delta)))^2 gives (e_f, delta)-DP (M.
Bun and T. Steinke, 2016). The count at e_c composes to epsilon. The weights are floating-point numbers, which only
reuse what is public.

Error: the source's bound, 2 sqrt(log N / T) + 10 T log N / (e_f n) for all queries of the class, is far above what is
seen. The prediction is the noise of a measurement plus 0.15 / T for what was not measured, a figure from two
data sets in two dimensions; T by default is the best by it.

`smalldb`: the best of all small sets of points, by the exponential mechanism. Source: A. Blum, K. Ligett and A. Roth,
"A Learning Theory Approach to Noninteractive Database Privacy", JACM 2013; appendix C.1 of Wagner et al. (2023) for
densities as a function release: the query class is the kernel at every node of the grid. Corrected: the number of
records is paid for, and the choice is exact.

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
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import LARGEST_SIGMA, DiscreteGaussian, DiscreteLaplace, comparing_rate
from sfumato.published.common import dense_prediction
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
from sfumato.threads import one_blas_thread

PMW = "pmw"
PMW_OPTIONS = ("rounds", "spacing")
MOST_NODES = 2**14
MOST_ROUNDS = 200
LARGEST_STEP, SMALLEST_WEIGHT = 1.0, 1e-12
# Error times rounds of what is not measured, see the module's text.
UNMEASURED = 0.15


@dataclass(frozen=True)
class Budget:
    """What every step may use: the rate of a choice, and the law of a measurement."""

    rate: Fraction
    law: DiscreteLaplace | DiscreteGaussian


def budget(request: Request, steps: int, sensitivity: int) -> Budget:
    """Share the features' budget among `steps` choices and as many measurements, see the module's text."""
    if not request.delta:
        each = request.feature_epsilon / (2 * steps)
        return Budget(comparing_rate(each / (2 * sensitivity)), DiscreteLaplace.at_most(each / sensitivity))
    each_rho = concentrated(request) / (2 * steps)
    rate = Fraction(math.sqrt(8 * each_rho) / 2 * (1 - 1e-9)) / sensitivity
    sigma = math.ceil(sensitivity / math.sqrt(2 * each_rho) * (1 + 1e-9))
    if sigma > LARGEST_SIGMA:
        raise InputError("so little budget for so many rounds does not fit 64-bit noise; pass fewer rounds")
    return Budget(comparing_rate(rate), DiscreteGaussian(sigma))


def concentrated(request: Request) -> float:
    """Rho for which rho-zCDP gives the features' (epsilon, delta)."""
    nats, epsilon = -math.log(request.delta), float(request.feature_epsilon)
    # The difference of the roots, without that of two nearly equal numbers which a small epsilon would make of it.
    return float((epsilon / (math.sqrt(epsilon + nats) + math.sqrt(nats))) ** 2 * (1 - 1e-9))


@dataclass(frozen=True, eq=False)
class MultiplicativeWeights:
    """T `rounds` of choosing and measuring, each step within the budget; runs on a histogram."""

    queries: NodeQueries
    rounds: int
    budget: Budget

    def __call__(self, sums: Integers, count: Count, bits: SecureBits) -> Integers:
        """Make the synthetic records of a histogram."""
        answers = self.queries.answers(self.queries.histogram(sums))
        with one_blas_thread():  # the products are too short to share
            records, error = self.learn(answers, count.value, SecretSteps(bits))
        return published(self.queries.grid, records, error)

    def learn(self, answers: Integers, count: int, steps: Steps) -> tuple[Floats, float]:
        """Learn weights from exact answers; return them and their largest measured error."""
        weights = np.full(self.queries.grid.cells, count / self.queries.grid.cells)
        measured: list[tuple[Floats, float]] = []
        for _ in range(self.rounds):
            query, value, _ = self._look(answers, weights, steps)
            measured.append((self.queries.values(query), value))
            for kernel, wanted in measured:
                weights = _moved(weights, kernel, wanted)
        _, value, estimate = self._look(answers, weights, steps)
        return weights, abs(value - estimate)

    def _look(self, answers: Integers, weights: Floats, steps: Steps) -> tuple[int, float, float]:
        """Choose a query on which the weights err; return it, its measured answer and that of the weights."""
        estimates = self.queries.rounded(self.queries.estimates(weights))
        query = steps.choose(np.abs(answers - estimates), self.budget.rate)
        measured = steps.measure(int(answers[query]), self.budget.law)
        return query, measured / self.queries.scale, int(estimates[query]) / self.queries.scale


def _moved(weights: Floats, kernel: Floats, wanted: float) -> Floats:
    """Multiply the weights so that their answer to a query comes to what is wanted, to first order."""
    count, weighted = float(weights.sum()), weights * kernel
    answer = float(weighted.sum())
    slope = float(weighted @ kernel) - answer**2 / count
    step = max(-LARGEST_STEP, min(LARGEST_STEP, (wanted - answer) / max(slope, 1.0)))
    # Weights of far nodes would otherwise sink into subnormal numbers, which are slow.
    moved = np.maximum(weights * np.exp(step * kernel), SMALLEST_WEIGHT)
    return np.asarray(moved * (count / moved.sum()))


def _pmw_sizes(request: Request) -> tuple[NodeQueries, int, float]:
    request.check_options(*PMW_OPTIONS)
    spacing = spacing_option(request)
    queries = NodeQueries(grid_of(request, spacing, MOST_NODES))
    noise = _noise(request)
    # The least of noise * rounds + UNMEASURED / rounds, or with delta of noise * sqrt(rounds) + UNMEASURED / rounds.
    best = (2 * UNMEASURED / noise) ** (2 / 3) if request.delta else math.sqrt(UNMEASURED / noise)
    rounds = request.positive_option("rounds", min(MOST_ROUNDS, max(1, round(best))))
    if rounds > MOST_ROUNDS:
        raise InputError(f"option rounds must be at most {MOST_ROUNDS}, got {rounds}")
    return queries, rounds, spacing


def _noise(request: Request) -> float:
    """Noise of one measurement if it were the only one."""
    pure = 2 * math.sqrt(2) / float(request.feature_epsilon)
    noise = 1 / math.sqrt(concentrated(request)) if request.delta else pure
    return noise * request.records_per_user / request.n


def _error(request: Request, rounds: int) -> float:
    """Noise of one measurement, and what is not measured."""
    shared = math.sqrt(rounds + 1) if request.delta else rounds + 1
    return _noise(request) * shared + UNMEASURED / rounds


def _predict_pmw(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    queries, rounds, spacing = _pmw_sizes(request)
    nodes = queries.grid.cells
    # A round looks at every node once for each column and each earlier round; that is shared among the records.
    work = 1 + rounds * nodes * (sum(queries.grid.nodes) + rounds) / request.n
    variance = min(_error(request, rounds), 1.0) ** 2 + (queries.grid.displacement * density) ** 2
    parameters = {"rounds": rounds, "spacing": spacing}
    return dense_prediction(request, variance, nodes + 1, work, parameters, density, query_work=nodes)


def _build_pmw(request: Request) -> Mechanism:
    """Lay out the grid and share the budget."""
    queries, rounds, spacing = _pmw_sizes(request)
    share = budget(request, rounds + 1, request.records_per_user * queries.scale)
    return Mechanism.of(
        request,
        PMW,
        queries.grid,
        share.law,
        parameters={"rounds": rounds, "spacing": spacing},
        algorithm=MultiplicativeWeights(queries, rounds, share),
    )


PMW_METHOD = Method(
    PMW,
    "synthetic records by multiplicative weights",
    PMW_OPTIONS,
    refuse_grid,
    _predict_pmw,
    _build_pmw,
    baseline=True,
)


SMALLDB = "smalldb"
SMALLDB_OPTIONS = ("points", "spacing")
POINTS, MOST_POINTS = 4, 64
MOST_SETS = 2**18
# By default the grid is made coarser until there are no more sets than this.
DEFAULT_SETS = 2**16
MEASURING = Fraction(1, 10)
BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class SmallDatabase:
    """The choice among all sets of m `points`, at a rate, and a law for its error; runs on a histogram."""

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


def _smalldb_sizes(request: Request) -> tuple[NodeQueries, int, float]:
    request.check_options(*SMALLDB_OPTIONS)
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


def _predict_smalldb(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    queries, points, spacing = _smalldb_sizes(request)
    nodes = queries.grid.cells
    sets = number_of_sets(nodes, points)
    epsilon = float(request.feature_epsilon * (1 - MEASURING)) / request.records_per_user
    error = math.sqrt(density / points) + 2 * math.log(sets) / (epsilon * request.n)
    error += queries.grid.displacement * density
    work = 1 + sets * nodes * points / request.n
    parameters = {"points": points, "spacing": spacing}
    return dense_prediction(request, min(error, 1.0) ** 2, nodes + 1, work, parameters, density, query_work=nodes)


def _build_smalldb(request: Request) -> Mechanism:
    """Lay out the grid and share the budget."""
    queries, points, spacing = _smalldb_sizes(request)
    sensitivity = request.records_per_user * points * queries.scale
    rate = comparing_rate(request.feature_epsilon * (1 - MEASURING) / (2 * sensitivity))
    law = DiscreteLaplace.at_most(request.feature_epsilon * MEASURING / sensitivity)
    return Mechanism.of(
        request,
        SMALLDB,
        queries.grid,
        law,
        parameters={"points": points, "spacing": spacing},
        algorithm=SmallDatabase(queries, points, rate, law),
    )


SMALLDB_METHOD = Method(
    SMALLDB,
    "the best of all small sets of points",
    SMALLDB_OPTIONS,
    refuse_grid,
    _predict_smalldb,
    _build_smalldb,
    baseline=True,
    pure=True,
)
