"""`huang-roth`: an online learner of convex functions driven by noisy comparisons, an earlier structure.

Source: Z. Huang, A. Roth, "Exploiting Metric Structure for Efficient Private Query Release", SODA 2014, as summarised
in Backurs et al. (2024) (Theorem 2.2 and section 4): one learner for each column, from the function 0. It is
rebuilt here with the textbook constants of the sparse vector technique (C. Dwork, A. Roth, "The Algorithmic
Foundations of Differential Privacy", section 3.6); the original's constants are larger. It is here to show that its
parameters make it answer 0 unless n is large: a comparison must be off by a threshold T before the learner moves, and
with a thousand records T is more than all distances together.

Algorithm for one column, in steps of a grid of G cells: f(i) is the sum of distances of the records to grid point i, h
the hypothesis. Go through the grid points in rounds, ends and middles first; where |f(i) - h(i)| with noise is above T
with noise, take f(i) with noise as an anchor, and let h be the straight lines between anchors. Stop after c anchors,
or after a whole round without one.

Guarantee. A record changes f(i) by at most G, and so does each |f(i) - h(i)|. Until an anchor is taken, comparisons
with noise of rate e_1 / (4 k G) and one noisy threshold of rate e_1 / (2 k G) are e_1-DP, however many they are; the
anchor's value with noise of rate e_1 / (k G) is e_1-DP; k is the number of records that differ. With e_1 = epsilon /
(2 c d), c anchors in d columns are epsilon-DP.

Range. f fits 64 bits for fewer than 2^54 records, which no run can read. It is compared in Python's integers; what is
made of the noisy anchors is post-processing.

Threshold. With probability 1 - beta no noise of q comparisons exceeds a = 8 k G (log q + log(2 c / beta)) / e_1. T = 2
a: then every anchor is a mistake of at least a, and a convex function allows about 2 / sqrt(a / (n G)) of them, which
sets c. The final error is at most 3 a for each column: of order (n d^7 / epsilon^2)^(1/3) in theory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.columns import ColumnReading, ColumnSums, distance_method
from sfumato.errors import InputError
from sfumato.methods.method import Mechanism, Prediction
from sfumato.methods.request import COUNT_SHARE, Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace, comparing_rate, wrapped
from sfumato.public.codec import Real, Schema, Whole
from sfumato.quantizers.base import Bound, Floats, Integers
from sfumato.quantizers.clamping import kept_rows, whole_within
from sfumato.quantizers.described import described
from sfumato.release import Count

NAME = "huang-roth"
CELLS = 256
FAILURE = 0.05  # beta
LARGEST = 2**62


@dataclass(frozen=True, eq=False)
class ConvexHypothesis(ColumnSums):
    """Numbers of records at grid points; published as the values of every column's hypothesis there.

    Attributes
    ----------
    metric, bounds
        As in `ColumnSums`.
    cells : int
        Cells of the grid in a column.
    error : float
        Promised error of a column's answer per record, as a part of the column's width.

    Examples
    --------
    >>> from sfumato.kernels import Distance
    >>> from sfumato.quantizers import Box
    >>> grid = ConvexHypothesis(Distance("l1"), Box((0.0,), (1.0,)), cells=2, error=0.1)
    >>> grid.encode(np.array([[0.9]])), grid.weigh(np.array([[0.25]]), np.array([2.0, 4.0, 6.0])).total
    (array([[0, 0, 1]]), array([1.5]))
    """

    cells: int
    error: float

    name: ClassVar[str] = "convex-hypothesis"
    schema: ClassVar[Schema] = described(name, cells=Whole(1, 1 << 16), error=Real(0.0, 1e30))

    @property
    def column_size(self) -> int:
        """Grid points of a column."""
        return self.cells + 1

    @property
    def bound(self) -> Bound:
        """One record is counted once in every column."""
        return Bound(self.dimension, self.dimension, 1)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        steps = (kept_rows(self.bounds, rows) - np.array(self.bounds.lower)) / self.lengths * self.cells
        places = whole_within(np.rint(steps), 0, self.cells)
        encoded = np.zeros((len(places), self.size), dtype=np.int64)
        columns = np.arange(self.dimension) * self.column_size
        encoded[np.arange(len(places))[:, None], columns + places] = 1
        return encoded

    def read_columns(self, Y: Floats, sums: Floats) -> ColumnReading:
        """Interpolate the hypotheses; what they promise is the bias."""
        totals, grid = np.zeros(Y.shape), np.arange(self.column_size) / self.cells
        for column, unit in enumerate(self.lengths):
            values = sums[self.part(column)] / self.cells
            totals[:, column] = unit * np.interp(self.relative(Y[:, column], column), grid, values)
        biases = np.broadcast_to(self.error * self.lengths, Y.shape)
        return ColumnReading(totals, np.zeros(Y.shape), biases, np.zeros(Y.shape))

    def weights(self, Y: Floats) -> Floats:
        """Weights of the published values."""
        return np.stack([self.weigh(Y, unit).total for unit in np.eye(self.size)], axis=1)

    def count(self, sums: NDArray[Any]) -> float:
        """Refuse: hypotheses do not hold the number of records."""
        raise InputError(f"{NAME} does not publish the number of records with its hypotheses")

    @property
    def count_squares(self) -> float:
        """Refuse."""
        return self.count(np.empty(0))


@dataclass(frozen=True)
class Learner:
    """One column's learner: c `anchors`, e_1 over the records that differ, and the `slack` a; see the module's text."""

    anchors: int
    epsilon: Fraction
    slack: int

    @classmethod
    def of(cls, request: Request) -> Learner:
        """Find c and a that fit each other."""
        anchors = 1
        while True:
            epsilon = request.feature_epsilon / (2 * anchors * request.dimension * request.factor)
            comparisons = (anchors + 1) * (CELLS + 1)
            slack = 8 * CELLS * (math.log(comparisons) + math.log(2 * anchors / FAILURE)) / float(epsilon)
            if anchors >= 2 / math.sqrt(slack / (request.n * CELLS)):
                return cls(anchors, epsilon, math.ceil(slack))
            anchors += 1

    def laws(self, cells: int) -> tuple[DiscreteLaplace, DiscreteLaplace, DiscreteLaplace]:
        """Noise of comparisons, thresholds and anchors on a grid of so many cells."""
        comparing, limiting, answering = (self.epsilon / (times * cells) for times in (4, 2, 1))
        return (
            DiscreteLaplace(comparing_rate(comparing)),
            DiscreteLaplace(comparing_rate(limiting)),
            DiscreteLaplace.at_most(answering),
        )

    def learn(self, counts: Integers, bits: SecureBits) -> Integers:
        """Learn one column's function from exact counts at its grid points."""
        points = np.arange(len(counts))
        exact = (np.abs(points[:, None] - points) @ counts).astype(object)
        comparing, limiting, answering = self.laws(len(counts) - 1)
        anchors: dict[int, int] = {}
        hypothesis = np.zeros(len(counts))
        order = np.argsort(_steps(len(counts)), kind="stable")
        for _ in range(self.anchors):
            limit = 2 * self.slack + int(limiting.sample(bits, 1)[0])
            noise = comparing.sample(bits, len(counts)).astype(object)
            above = np.array(np.abs(exact - _whole(hypothesis).astype(object)) + noise > limit, dtype=bool)[order]
            if not above.any():
                break
            found = int(order[np.argmax(above)])
            anchors[found] = wrapped(int(exact[found]) + int(answering.sample(bits, 1)[0]))
            known = sorted(anchors)
            hypothesis = np.interp(points, known, [anchors[point] for point in known])
        return _whole(hypothesis)


def _whole(hypothesis: Floats) -> Integers:
    return whole_within(np.rint(hypothesis), -LARGEST, LARGEST)


def _steps(points: int) -> Integers:
    """When each grid point has its turn in a round: the ends first, then middles of what lies between."""
    place = np.arange(points)
    steps = np.log2(points - 1) - np.log2(np.maximum(place & -place, 1))
    return np.where((place == 0) | (place == points - 1), -1, steps).astype(np.int64)


def build(request: Request) -> Mechanism:
    """Choose the learner's parameters and the algorithm."""
    request.check_options()
    if request.reads_count:
        request = request.with_options(count_share=COUNT_SHARE)
    learner = Learner.of(request)
    quantizer = ConvexHypothesis(request.metric, request.box, CELLS, 3 * learner.slack / (CELLS * request.n))

    def algorithm(sums: Integers, count: Count, bits: SecureBits) -> Integers:
        return np.concatenate([learner.learn(counts, bits) for counts in sums.reshape(request.dimension, -1)])

    return Mechanism.of(
        request,
        NAME,
        quantizer,
        learner.laws(CELLS)[-1],
        parameters={"anchors": learner.anchors},
        algorithm=algorithm,
    )


def forecast(request: Request) -> Prediction:
    """Predict the promised error, or that of the answer 0 where the promise is worse."""
    mechanism = build(request)
    quantizer = mechanism.encoder
    assert isinstance(quantizer, ConvexHypothesis)
    promised = request.n * quantizer.error * float(request.lengths.sum())
    # The mean squared distance of evenly spread records and queries, which the answer 0 misses altogether.
    nothing = request.n * math.sqrt(
        float(request.lengths.sum()) ** 2 / 9 + float(np.square(request.lengths).sum()) / 180
    )
    return Prediction(
        rmse=min(promised, nothing),
        worst=promised,
        bias=promised,
        integers=quantizer.size,
        parameters=mechanism.parameters,
    )


METHOD = distance_method(
    NAME,
    "learners of convex functions, noisy comparisons (Huang and Roth)",
    build,
    forecast,
    ("l1",),
    baseline=True,
    pure=True,
)
