"""Broken twins of the published mechanisms, as (mechanism, mistake, case); `benchmarks.twins` adds them to its own.

Those that add noise get their twin with 30 % less of it from their audit's case; the algorithms get it here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.audit import Case
from sfumato.audit.cases import published
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.noise import DiscreteGaussian, rounded_down
from sfumato.published import hrw, listed_queries, lsq_fgt, noisy_sample, pmw, polynomials, smalldb
from sfumato.published.hermite import HermiteQuantizer
from sfumato.published.queries import KernelQueries

LOW = Fraction(7, 10)
TWICE = Fraction(1, 2)


def _learning(mechanism: Mechanism, choosing: Fraction, measuring: Fraction) -> Mechanism:
    """Give the steps of `pmw` or `smalldb` these parts of the noise that they need."""
    algorithm: Any = mechanism.algorithm
    if isinstance(algorithm, pmw.MultiplicativeWeights):
        law: Any = algorithm.budget.law
        share = pmw.Budget(algorithm.budget.rate / choosing, replace(law, rate=law.rate / measuring))
        return replace(mechanism, algorithm=replace(algorithm, budget=share))
    law = replace(algorithm.law, rate=algorithm.law.rate / measuring)
    return replace(mechanism, algorithm=replace(algorithm, rate=algorithm.rate / choosing, law=law))


def _sampling(rate_factor: Fraction) -> Case:
    mechanism = published.small_sample(100, 100)
    algorithm: Any = mechanism.algorithm
    law = replace(algorithm.law, rate=rounded_down(algorithm.law.rate * rate_factor))
    return published.sampled(replace(mechanism, algorithm=replace(algorithm, law=law)), published.EVERYONE)


def _outside_the_sample() -> Case:
    """Cover what a record does to the densities of others, and not that it may be sampled itself."""
    most = noisy_sample.largest_sample(100)
    return _sampling(Fraction(100 + most, most))


def _printed_sensitivity() -> Case:
    """Take the sum over orders that the source prints, 2 - 2^(2 - rho), for the one it is, 2 - 2^(1 - rho)."""
    mechanism = published.small(lsq_fgt.NAME, 1, bounds=(0, 2), rho=3)
    quantizer, law = mechanism.quantizer, mechanism.noise
    assert isinstance(quantizer, HermiteQuantizer)
    printed = Fraction(2) - Fraction(4, 2**quantizer.rho)
    true = Fraction(2) - Fraction(2, 2**quantizer.rho)
    return published.every_record(replace(mechanism, noise=replace(law, rate=law.rate * true / printed)))


def _as_if_added(name: str, **options: Any) -> Case:
    """Use the noise for one record more where one is replaced."""
    added, replaced = (published.small(name, 1, relation, **options) for relation in ("add-remove", "replace"))
    law: Any = added.noise
    whole = replace(law, rate=law.rate * Fraction(20, 19))
    return published.every_record(replace(replaced, noise=whole))


def _one_query() -> Case:
    """Use the noise for one query on each of two."""
    mechanism = published.small(listed_queries.LAPLACE, 1, queries=[[0.0], [0.1]])
    law: Any = mechanism.noise
    return published.every_record(replace(mechanism, noise=replace(law, rate=2 * law.rate)))


def _off_by_one() -> Case:
    """Let integers reach 5 with noise for 4."""
    mechanism = published.small_gaussian()
    quantizer = mechanism.quantizer
    assert isinstance(quantizer, KernelQueries)
    return published.exact_case(replace(mechanism, quantizer=replace(quantizer, scale=5)), reach=60)


def _not_whitened() -> Case:
    """Add the noise of `hrw` to the answers themselves, independently for each query."""
    mechanism = published.small(hrw.NAME, 1, delta=0.05, queries=[[0.0], [0.05], [0.1]])
    quantizer, law = mechanism.quantizer, mechanism.noise
    assert isinstance(law, DiscreteGaussian)
    listed = KernelQueries(mechanism.kernel, quantizer.box, quantizer.queries, quantizer.scale)
    return published.one_more(replace(mechanism, quantizer=listed)).case()


def _nodes(name: str, **options: Any) -> Case:
    mechanism = published.small(name, 1, **options)
    law: Any = mechanism.noise
    return published.every_record(replace(mechanism, noise=replace(law, rate=law.rate * mechanism.quantizer.size)))


_LOW = "noise 30 % low"
TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (lsq_fgt.NAME, "sensitivity as printed", _printed_sensitivity),
    (lsq_fgt.NAME, "replacing counted as adding", lambda: _as_if_added(lsq_fgt.NAME, bounds=(0, 2), rho=3)),
    (
        polynomials.BERNSTEIN,
        "sensitivity of one node",
        lambda: _nodes(polynomials.BERNSTEIN, bounds=(0, 0.1), degree=1),
    ),
    (
        polynomials.EVEN_TRIG,
        "replacing counted as adding",
        lambda: _as_if_added(polynomials.EVEN_TRIG, bounds=(-1, 1), degree=4),
    ),
    (listed_queries.LAPLACE, "noise for one query", _one_query),
    (listed_queries.GAUSSIAN, "sensitivity off by one", _off_by_one),
    (hrw.NAME, "noise not correlated", _not_whitened),
    (pmw.NAME, _LOW, lambda: published.scripted(_learning(published.small_pmw(), LOW, LOW))),
    (
        pmw.NAME,
        "choice at twice its rate",
        lambda: published.scripted(_learning(published.small_pmw(), TWICE, Fraction(1))),
    ),
    (smalldb.NAME, _LOW, lambda: published.scripted(_learning(published.small_smalldb(), LOW, LOW))),
    (
        smalldb.NAME,
        "error measured twice",
        lambda: published.scripted(_learning(published.small_smalldb(), Fraction(1), TWICE)),
    ),
    (noisy_sample.NAME, _LOW, lambda: _sampling(1 / LOW)),
    (noisy_sample.NAME, "records of the sample not protected", _outside_the_sample),
)
