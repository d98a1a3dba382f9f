"""Audits of the published mechanisms: sampled and exact where noise is added, exact where an algorithm learns.

Exact losses of added Laplace noise are read off the two sums themselves, where every coordinate of the likelihood ratio
is at its largest at once. The algorithms run on scripts: every random step returns what the script says and adds up the
logarithm of its probability, so that the algorithm's own code gives the probability of a whole run under either data
set. Importing this module registers the cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sfumato.audit import EpsilonClaim, ExactCase, log_weights, register_audit
from sfumato.audit.attacks import CentralCase, exact_case, low_bits, scan
from sfumato.audit.cases.central import (
    losses_at_the_sums,
    one_more,
    opposites,
    register_central,
    small_mechanism,
    sums_claim,
)
from sfumato.methods.method import Mechanism
from sfumato.privacy.gaussian import calibrate
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.published import histogram, hrw, learners, listed_queries, lsq_fgt, noisy_sample, polynomials
from sfumato.published.gridded import log_law
from sfumato.published.queries import KernelQueries
from sfumato.quantizers.base import Floats, Integers

# Three nodes so far apart that each hears of its own records only.
FAR: dict[str, Any] = {"bounds": (0, 24), "spacing": 8.0}
LISTED = [[0.0], [1.0]]
# Records on three nodes, before and after one of them has moved, and what a script may measure.
MOVED = [[(7, 1, 0), (4, 4, 1), (9, 0, 0)], [(7, 0, 1), (5, 3, 1), (8, 1, 0)]]
MEASURED = (-2, 3, 12)


def laplace_cases(name: str, **options: Any) -> dict[str, CentralCase]:
    """Cases of a mechanism that adds Laplace noise."""
    single = one_more(small_mechanism(name, 1, **options))
    return {
        "one more": single,
        "opposites": opposites(small_mechanism(name, 1, "replace", **options)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


def gaussian_cases(name: str, queries: Sequence[Sequence[float]]) -> dict[str, CentralCase]:
    """Cases of a mechanism that adds Gaussian noise."""
    return {
        "one more": one_more(small_mechanism(name, 1, delta=0.05, queries=queries)),
        "second": one_more(small_mechanism(name, 2, delta=1e-3, queries=queries), already=1),
    }


@cache
def lsq_fgt_cases() -> dict[str, CentralCase]:
    """Cases of `lsq-fgt`, with one cell or two."""
    return laplace_cases(lsq_fgt.NAME, bounds=(0, 2), rho=2)


@cache
def histogram_cases() -> dict[str, CentralCase]:
    """Cases of `histogram`, with few cells."""
    return laplace_cases(histogram.NAME, bounds=(-1, 1), spacing=0.8)


@cache
def bernstein_cases() -> dict[str, CentralCase]:
    """Cases of `bernstein`: both nodes of a narrow box hear a record, and nodes far apart tell two records apart."""
    single = one_more(small_mechanism(polynomials.BERNSTEIN, 1, bounds=(0, 0.1), degree=1))
    return {
        "one more": single,
        "opposites": opposites(small_mechanism(polynomials.BERNSTEIN, 1, "replace", bounds=(0, 8), degree=1)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def even_trig_cases() -> dict[str, CentralCase]:
    """Cases of `even-trig`."""
    return laplace_cases(polynomials.EVEN_TRIG, bounds=(-1, 1), degree=2)


@cache
def laplace_queries_cases() -> dict[str, CentralCase]:
    """Cases of `laplace-queries`."""
    return laplace_cases(listed_queries.LAPLACE, queries=[[0.0], [0.1]])


@cache
def gaussian_queries_cases() -> dict[str, CentralCase]:
    """Cases of `gaussian-queries`."""
    return gaussian_cases(listed_queries.GAUSSIAN, [[0.0]])


@cache
def hrw_cases() -> dict[str, CentralCase]:
    """Cases of `hrw`."""
    return gaussian_cases(hrw.NAME, LISTED)


def every_record(mechanism: Mechanism) -> ExactCase:
    """Compare the sums without and with a record, or with one and another, for records all over a box of one column."""

    def log_laws() -> tuple[Floats, Floats]:
        inside = np.unique(mechanism.encoder.encode(scan(mechanism.encoder)[::100]), axis=0)
        outside = np.zeros_like(inside)
        if mechanism.guarantee.neighbours == "replace":
            pairs = np.array(list(combinations(range(len(inside)), 2)))
            inside, outside = inside[pairs[:, 0]], inside[pairs[:, 1]]
        return losses_at_the_sums(mechanism.noise, inside, outside)

    return ExactCase(f"exact, every record, {mechanism.guarantee.neighbours}", sums_claim(mechanism), log_laws)


def exact_laplace(name: str, **options: Any) -> list[ExactCase]:
    """Exact cases of a mechanism that adds Laplace noise."""
    return [every_record(small_mechanism(name, 1, relation, **options)) for relation in ("add-remove", "replace")]


def _exact_bernstein() -> list[ExactCase]:
    boxes = {"add-remove": (0, 0.1), "replace": (0, 8)}
    return [
        every_record(small_mechanism(polynomials.BERNSTEIN, 1, relation, bounds=box, degree=1))
        for relation, box in boxes.items()
    ]


def small_gaussian() -> Mechanism:
    """Build `gaussian-queries` for one query with integers up to 4 and n public."""
    mechanism = small_mechanism(listed_queries.GAUSSIAN, 1, "replace", 0.05, queries=[[0.0]])
    quantizer = mechanism.encoder
    assert isinstance(quantizer, KernelQueries)
    return replace(mechanism.on(replace(quantizer, scale=4)), noise=DiscreteGaussian(calibrate(4.0, 1, 1.0, 0.05)))


@dataclass
class Script:
    """Steps whose outcomes are known beforehand; their probabilities add up."""

    outcomes: Iterator[int]
    log_probability: float = field(default=0.0)

    def choose(self, scores: Integers, rate: Fraction) -> int:
        """Choose what the script says."""
        chosen = next(self.outcomes)
        self.log_probability += float(log_law(scores, rate)[chosen])
        return chosen

    def measure(self, value: int, law: NoiseLaw) -> int:
        """Measure what the script says."""
        measured = next(self.outcomes)
        self.log_probability += float(log_weights(law, np.array([measured - value])))
        return measured


def scripted(mechanism: Mechanism) -> ExactCase:
    """Compare the probabilities of scripted runs of `pmw` or `smalldb` on neighbours of some records, n public."""
    algorithm = mechanism.algorithm
    assert isinstance(algorithm, learners.MultiplicativeWeights | learners.SmallDatabase)
    queries = algorithm.queries
    learns = isinstance(algorithm, learners.MultiplicativeWeights)
    looks = algorithm.rounds + 1 if isinstance(algorithm, learners.MultiplicativeWeights) else 1
    scripts = list(product(*[range(queries.grid.cells), [queries.scale * value for value in MEASURED]] * looks))

    def log_probability(histogram: tuple[int, ...], script: tuple[int, ...]) -> float:
        steps = Script(iter(script))
        answers, records = queries.answers(np.array(histogram)), sum(histogram)
        _ = algorithm.learn(answers, records, steps) if learns else algorithm.choose(answers, records, steps)  # type: ignore[union-attr]
        return steps.log_probability

    def log_laws() -> tuple[Floats, Floats]:
        first, second = ([[log_probability(each, script) for script in scripts] for each in side] for side in MOVED)
        return np.array(first), np.array(second)

    name = f"exact, one record on {queries.grid.cells} nodes moved"
    return ExactCase(name, EpsilonClaim(float(mechanism.guarantee.epsilon)), log_laws)


def small_pmw() -> Mechanism:
    """Build `pmw` on three nodes with one round and the one that measures the error."""
    return small_mechanism(learners.PMW, 8, "replace", rounds=1, **FAR)


def small_smalldb() -> Mechanism:
    """Build `smalldb` for sets of one point on three nodes."""
    return small_mechanism(learners.SMALLDB, 8, "replace", points=1, **FAR)


def small_sample(sample: int, records: int) -> Mechanism:
    """Build `noisy-sample` for a sample of so many of so many records."""
    return small_mechanism(noisy_sample.NAME, 2, sample=sample, n=records, **FAR)


def sampled(mechanism: Mechanism, histograms: Sequence[tuple[int, ...]]) -> ExactCase:
    """Compare the laws of the noisy sum of `noisy-sample` with and without a record at either node, over all coins."""
    algorithm = mechanism.algorithm
    assert isinstance(algorithm, noisy_sample.SecretSample)
    pairs = [(np.array(each), np.array(each) + more) for each in histograms for more in np.eye(3, dtype=np.int64)[:2]]

    def log_laws() -> tuple[Floats, Floats]:
        before: list[Floats] = []
        after: list[Floats] = []
        for fewer, more in pairs:
            mixtures = [_sums(algorithm, histogram) for histogram in (fewer, more)]
            outputs = np.concatenate([sums for sums, _ in mixtures])
            for law, mixture in zip((before, after), mixtures, strict=True):
                law.append(_mixed(algorithm.law, outputs, *mixture))
        return np.concatenate(before), np.concatenate(after)

    name = f"exact, a sample of {algorithm.sample} of {algorithm.records} records, one more"
    return ExactCase(name, sums_claim(mechanism), log_laws)


def _sums(algorithm: noisy_sample.SecretSample, histogram: Integers) -> tuple[Integers, Floats]:
    """All sums over who is sampled, and who stays if too many are, with the logarithms of their probabilities."""
    nodes = np.repeat(np.arange(len(histogram)), histogram)
    share, most = algorithm.sample / algorithm.records, noisy_sample.largest_sample(algorithm.sample)
    sums, logs = [], []
    for size in range(len(nodes) + 1) if share < 1 else [len(nodes)]:
        coins = size * math.log(share) + (len(nodes) - size) * math.log1p(-share) if share < 1 else 0.0
        for heads in combinations(range(len(nodes)), size):
            stays = list(combinations(heads, min(size, most)))
            sums += [algorithm.total(histogram, nodes[list(chosen)]) for chosen in stays]
            logs += [coins - math.log(len(stays))] * len(stays)
    return np.array(sums), np.array(logs)


def _mixed(law: NoiseLaw, outputs: Integers, sums: Integers, logs: Floats) -> Floats:
    each = log_weights(law, (outputs[:, None] - sums)[:, :, None])
    return np.asarray(logsumexp(each + logs, axis=1))


EVERYONE = [(99, 0, 0), (100, 0, 0), (50, 49, 0)]
FEW = list(product(range(3), repeat=3))

register_central(lsq_fgt.NAME, lsq_fgt_cases, lambda: exact_laplace(lsq_fgt.NAME, bounds=(0, 2), rho=3))
register_central(histogram.NAME, histogram_cases, lambda: exact_laplace(histogram.NAME, bounds=(-1, 1), spacing=0.8))
register_central(polynomials.BERNSTEIN, bernstein_cases, _exact_bernstein)
register_central(
    polynomials.EVEN_TRIG, even_trig_cases, lambda: exact_laplace(polynomials.EVEN_TRIG, bounds=(-1, 1), degree=3)
)
register_central(
    listed_queries.LAPLACE, laplace_queries_cases, lambda: exact_laplace(listed_queries.LAPLACE, queries=[[0.0], [0.1]])
)
register_central(listed_queries.GAUSSIAN, gaussian_queries_cases, lambda: [exact_case(small_gaussian(), reach=60)])
register_central(hrw.NAME, hrw_cases)
register_audit(learners.PMW, lambda: [scripted(small_pmw())])
register_audit(learners.SMALLDB, lambda: [scripted(small_smalldb())])
register_audit(noisy_sample.NAME, lambda: [sampled(small_sample(100, 100), EVERYONE), sampled(small_sample(1, 4), FEW)])
