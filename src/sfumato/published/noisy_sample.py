"""`noisy-sample`: one number for every query, the noisy mean density of a secret sample of the records.

Source: section 4.2 of Wagner et al. (2023), whose baseline averages the densities at 100 sampled records, adds
Laplace noise of scale 1 / (epsilon n), and says that number to every query. That protects the records outside the
sample only. Here every record is protected: the sample is drawn by secret coins, and the noise covers being sampled.

Algorithm. Records lie on the grid of `gridded`, with exact densities t_i = min(q_x(X), n_0 s) at each record's node,
n_0 the public guess of n. Each record is sampled with probability q = m / n_0 by its own coin; if more than M = m + 4
sqrt(m) are, those with the M smallest secret words stay. The sum of t_i over the sample (exact: the answers fit 64 bits
by `gridded`, and their sum is of Python's integers) gets discrete Laplace noise of rate r, and the published number is
that sum over s times the expected sample size.

Guarantee. Take two neighbours, and give the records that they share the same coins and words. The one record x changes
each t_i by at most s, so the sum over the others of the sample by at most M s in all. If x's coin does not select it,
which has probability 1 - q whatever the data, that is all. If it does, x enters the sample, and another record may
leave it: one t_i more, or one in another's place, changes the sum by at most n_0 s more. Replacing x moves the same
amounts. With a = exp(r n_0 s) and b = exp(r M s), an output is therefore at most b (1 - q + q a) times as likely, and
at least 1 / (b (1 - q + q a)) times (because 1 / (1 - q + q / a) <= 1 - q + q a), so the sum is e-DP with e = r M s +
log(1 + q (exp(r n_0 s) - 1)). r is the largest found with e <= e_f (e_f / k for k records of a user: one record after
another); the count at e_c composes to epsilon.

Error: the spread of the density over queries, typically 0.6 P, which no constant avoids; 1.36 P^2 / m for the sample;
2 / (r m s)^2 of noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace, wrapped
from sfumato.published.common import dense_prediction
from sfumato.published.gridded import LARGEST_ANSWER, SCALE_BITS, NodeQueries, grid_of, refuse_grid, spacing_option
from sfumato.published.synthetic import Constant
from sfumato.quantizers.base import Integers
from sfumato.quantizers.clamping import whole_within
from sfumato.release import Count
from sfumato.roots import brentq

NAME = "noisy-sample"
OPTIONS = ("sample", "spacing")
SAMPLE, MOST_SAMPLE = 100, 2**20
MOST_NODES = 2**16
COINS_AT_ONCE = 1 << 20
# n_0 s stays near this power of two at most, so that the noise fits 64 bits.
SUM_BITS = 50
PUBLISHED = 2**20
LARGEST_EXPONENT = 500.0
# Spread of a density over queries like the records, in units of its mean, as measured on the papers' data sets.
SPREAD = 0.6


def largest_sample(sample: int) -> int:
    """M: four standard deviations above the expected sample."""
    return sample + 4 * math.isqrt(sample)


def loss(step: float, sample: int, records: int) -> float:
    """Privacy loss e for r n_0 s = `step`, see the module's text."""
    share = sample / records
    selected = math.log1p(share * math.expm1(step)) if step < LARGEST_EXPONENT else step + math.log(share)
    return step * largest_sample(sample) / records + selected


def largest_step(epsilon: float, sample: int, records: int) -> float:
    """Largest r n_0 s found whose loss is at most epsilon."""
    most = epsilon + math.log(records / sample) + 1.0
    found = brentq(lambda step: loss(step, sample, records) - epsilon, 0.0, most, xtol=1e-300, rtol=1e-12)
    return float(found) * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class SecretSample:
    """The noisy sum of densities over a secret `sample` (m) of `records` (n_0); runs on a histogram."""

    queries: NodeQueries
    sample: int
    records: int
    law: DiscreteLaplace

    def __call__(self, sums: Integers, count: Count, bits: SecureBits) -> Integers:
        """Publish the constant of a histogram."""
        histogram = self.queries.histogram(sums)
        noisy = wrapped(self.total(histogram, self.draw(histogram, bits)) + int(self.law.sample(bits, 1)[0]))
        expected = min(self.sample * count.value / self.records, largest_sample(self.sample))
        mean = np.array([PUBLISHED * noisy / (expected * self.queries.scale)])
        return whole_within(np.rint(mean), -LARGEST_ANSWER, LARGEST_ANSWER)

    def total(self, histogram: Integers, nodes: Integers) -> int:
        """Sum of the densities of the records at these nodes."""
        most = min(self.records * self.queries.scale, LARGEST_ANSWER)
        return sum(np.minimum(self.queries.answers(histogram), most)[nodes].tolist())

    def draw(self, histogram: Integers, bits: SecureBits) -> Integers:
        """Nodes of the sampled records."""
        nodes, words = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
        last = np.cumsum(histogram)
        for start in range(0, int(last[-1]), COINS_AT_ONCE):
            here = np.arange(start, min(start + COINS_AT_ONCE, int(last[-1])))
            heads = here[bits.below(self.records, len(here)) < self.sample]
            nodes.append(np.searchsorted(last, heads, side="right"))
            words.append(bits.words(len(heads)))
        order = np.argsort(np.concatenate(words), kind="stable")[: largest_sample(self.sample)]
        return np.asarray(np.concatenate(nodes)[order])


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_grid(request)


def _sizes(request: Request) -> tuple[NodeQueries, int, float, float]:
    request.check_options(*OPTIONS)
    spacing = spacing_option(request)
    sample = min(request.positive_option("sample", SAMPLE), request.n)
    if sample > MOST_SAMPLE:
        raise InputError(f"option sample must be at most {MOST_SAMPLE}, got {sample}")
    step = largest_step(float(request.feature_epsilon / request.records_per_user), sample, request.n)
    bits = max(0, min(SCALE_BITS, SUM_BITS - request.n.bit_length()))
    return NodeQueries(grid_of(request, spacing, MOST_NODES), bits), sample, spacing, step


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    queries, sample, spacing, step = _sizes(request)
    variance = (SPREAD**2 + (1 + SPREAD**2) / sample) * density**2 + 2 / (step * sample) ** 2
    work = 1 + queries.grid.cells * sum(queries.grid.nodes) / request.n
    return dense_prediction(request, variance, 1, work, {"sample": sample, "spacing": spacing}, density, query_work=1)


def build(request: Request) -> Mechanism:
    """Lay out the grid and calibrate the noise."""
    queries, sample, spacing, step = _sizes(request)
    law = DiscreteLaplace.at_most(Fraction(step) / (request.n * queries.scale))
    reader = Constant(
        queries.grid.box,
        PUBLISHED,
        noise_weight=1 / (sample * queries.scale),
        spread=math.sqrt(SPREAD**2 + (1 + SPREAD**2) / sample),
        records=request.n,
    )
    return Mechanism.of(
        request,
        NAME,
        queries.grid,
        law,
        parameters={"sample": sample, "spacing": spacing},
        algorithm=SecretSample(queries, sample, request.n, law),
        reader=reader,
    )


METHOD = Method(
    NAME, "the mean density of a secret sample, for all", OPTIONS, refuse, predict, build, baseline=True, pure=True
)
