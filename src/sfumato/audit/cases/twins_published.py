"""Broken twins of the published mechanisms and of `features`, as (mechanism, mistake, case).

Their twins with 30 % less noise come from their audits' own cases; the algorithms get theirs here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit import Case
from sfumato.audit.attacks import Outputs, encoded_sums, exact_case, noisy_counts, run
from sfumato.audit.cases import features, published
from sfumato.audit.cases.central import one_more, small_mechanism
from sfumato.audit.cases.features import (
    PROJECTION,
    landmark_cases,
    projection_cases,
    published_race_cases,
    published_sum_cases,
    race_cases,
    small_similarity,
    small_sketch,
    sum_cases,
)
from sfumato.audit.cases.published import every_record
from sfumato.central import exponential_sums, inner_product, landmarks, race
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import StackedDiscs
from sfumato.privacy.noise import DiscreteLaplace, rounded_down
from sfumato.published import as_published, hrw, learners, listed_queries, lsq_fgt, noisy_sample, polynomials
from sfumato.published.hermite import HermiteQuantizer
from sfumato.published.queries import KernelQueries, WhitenedQueries
from sfumato.quantizers import InnerProductQuantizer, LandmarkQuantizer

Twins = tuple[tuple[str, str, Callable[[], Case]], ...]


def _with_rate(mechanism: Mechanism, factor: Fraction) -> Mechanism:
    law: Any = mechanism.noise
    return replace(mechanism, noise=replace(law, rate=law.rate * factor))


LOW = Fraction(7, 10)
TWICE = Fraction(1, 2)


def _learning(mechanism: Mechanism, choosing: Fraction, measuring: Fraction) -> Mechanism:
    """Give the steps of `pmw` or `smalldb` these parts of the noise that they need."""
    algorithm: Any = mechanism.algorithm
    if isinstance(algorithm, learners.MultiplicativeWeights):
        law: Any = algorithm.budget.law
        share = learners.Budget(algorithm.budget.rate / choosing, replace(law, rate=law.rate / measuring))
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
    mechanism = small_mechanism(lsq_fgt.NAME, 1, bounds=(0, 2), rho=3)
    quantizer = mechanism.encoder
    assert isinstance(quantizer, HermiteQuantizer)
    printed = Fraction(2) - Fraction(4, 2**quantizer.rho)
    true = Fraction(2) - Fraction(2, 2**quantizer.rho)
    return published.every_record(_with_rate(mechanism, true / printed))


def _as_if_added(name: str, **options: Any) -> Case:
    """Use the noise for one record more where one is replaced."""
    added, replaced = (small_mechanism(name, 1, relation, **options) for relation in ("add-remove", "replace"))
    law: Any = added.noise
    whole = replace(law, rate=law.rate * Fraction(20, 19))
    return published.every_record(replace(replaced, noise=whole))


def _one_query() -> Case:
    """Use the noise for one query on each of two."""
    mechanism = small_mechanism(listed_queries.LAPLACE, 1, queries=[[0.0], [0.1]])
    return published.every_record(_with_rate(mechanism, Fraction(2)))


def _off_by_one() -> Case:
    """Let integers reach 5 with noise for 4."""
    mechanism = published.small_gaussian()
    quantizer = mechanism.encoder
    assert isinstance(quantizer, KernelQueries)
    return exact_case(mechanism.on(replace(quantizer, scale=5)), reach=60)


def _not_whitened() -> Case:
    """Add the noise of `hrw` to the answers themselves, independently for each query."""
    mechanism = small_mechanism(hrw.NAME, 1, delta=0.05, queries=[[0.0], [0.05], [0.1]])
    quantizer = mechanism.encoder
    assert isinstance(quantizer, WhitenedQueries)
    listed = KernelQueries(mechanism.kernel, quantizer.box, quantizer.queries, quantizer.scale)
    return one_more(mechanism.on(listed)).case()


def _nodes(name: str, **options: Any) -> Case:
    mechanism = small_mechanism(name, 1, **options)
    return published.every_record(_with_rate(mechanism, Fraction(mechanism.encoder.size)))


_LOW = "noise 30 % low"
PUBLISHED_TWINS: Twins = (
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
    (learners.PMW, _LOW, lambda: published.scripted(_learning(published.small_pmw(), LOW, LOW))),
    (
        learners.PMW,
        "choice at twice its rate",
        lambda: published.scripted(_learning(published.small_pmw(), TWICE, Fraction(1))),
    ),
    (learners.SMALLDB, _LOW, lambda: published.scripted(_learning(published.small_smalldb(), LOW, LOW))),
    (
        learners.SMALLDB,
        "error measured twice",
        lambda: published.scripted(_learning(published.small_smalldb(), Fraction(1), TWICE)),
    ),
    (noisy_sample.NAME, _LOW, lambda: _sampling(1 / LOW)),
    (noisy_sample.NAME, "records of the sample not protected", _outside_the_sample),
)


class _CountsItself(LandmarkQuantizer):
    def encode(self, rows: Any, coins: Any = None) -> Any:
        encoded = super().encode(rows)
        encoded[:, -1] = self.scale
        return encoded


def _residual_of_one() -> Case:
    """Publish 1 in the residual's place: a second count, which is not paid for."""
    mechanism = small_similarity(landmarks.NAME, 1, n_features=4, check_share=0)
    quantizer: Any = mechanism.encoder
    broken = _CountsItself(*(getattr(quantizer, field.name) for field in fields(quantizer)))
    return every_record(mechanism.on(broken))


class _NotScaledDown(InnerProductQuantizer):
    def encode(self, rows: Any, coins: Any = None) -> Any:
        return np.rint(np.asarray(rows) * self.ball.amplitude).astype(np.int64)


def _long_records() -> Case:
    """Take records as they come, however long."""
    mechanism = small_similarity(inner_product.NAME, 1)
    quantizer: Any = mechanism.encoder
    return every_record(mechanism.on(_NotScaledDown(quantizer.ball, quantizer.clip, quantizer.seed)))


def _inner_product_off_by_one() -> Case:
    """Let integers reach 4 with noise for 3."""
    mechanism = small_similarity(inner_product.NAME, 1)
    quantizer: Any = mechanism.encoder
    few = replace(quantizer, ball=replace(quantizer.ball, scale=6))
    assert few.ball.amplitude == 4
    return every_record(_with_rate(mechanism.on(few), Fraction(quantizer.ball.scale, 3)))


def _added_signs() -> Case:
    """Use the noise for one record more where one is replaced."""
    return every_record(_with_rate(small_similarity(inner_product.SIGNS, 1, "replace", n_features=2), Fraction(2)))


def _norm_before_rounding() -> Case:
    """Pay for the length before rounding, 4, where rounding takes a record to (3, 3)."""
    mechanism = features.at_scale(features.plane(1), features.SMALL_SCALE, paid=4)
    return features.exact_plane(mechanism, reach=12)


def _norm_before_rounding_replaced() -> Case:
    """Do the same where one record replaces another."""
    mechanism = features.at_scale(features.plane(1, "replace"), features.SMALL_SCALE, paid=4)
    return features.exact_plane(mechanism, reach=12)


def _whole_budget_for_the_check(mechanism: Mechanism, rows: Any, runs: int, bits: SecureBits) -> Outputs:
    """Give landmarks and check the whole budget each."""
    law: Any = mechanism.noise
    parts = tuple(replace(part, rate=2 * part.rate) for part in law.parts)
    return run(replace(mechanism, noise=replace(law, parts=parts)), rows, runs, bits)


SIMILARITY_TWINS: Twins = (
    (
        landmarks.NAME,
        "the whole budget for landmarks and for their check",
        lambda: replace(landmark_cases()["checked"], run=_whole_budget_for_the_check).case(),
    ),
    (landmarks.NAME, "count in the residual's place", _residual_of_one),
    (inner_product.NAME, "long records not scaled down", _long_records),
    (inner_product.NAME, "sensitivity off by one", _inner_product_off_by_one),
    (inner_product.NAME, "ball noise: length taken before rounding", _norm_before_rounding),
    (inner_product.NAME, "ball noise: length before rounding, n public", _norm_before_rounding_replaced),
    (inner_product.SIGNS, "replacing counted as adding", _added_signs),
)


RECORDS = 100


def _added_counters() -> Case:
    """Use the noise for one record more where one is replaced, which moves two counters of a row."""
    return every_record(_with_rate(small_sketch(race.NAME, 1, "replace", rows=2, width=2), Fraction(2)))


def _one_row_only() -> Case:
    """Pay for one row of two."""
    return every_record(_with_rate(small_sketch(race.NAME, 1, rows=2, width=2), Fraction(2)))


def _noise_on_used_counters(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    sums = encoded_sums(mechanism.encoder, rows, runs, bits)
    noise = mechanism.noise.sample(bits, sums.size).reshape(sums.shape)
    return Outputs(sums + noise * (sums != 0), noisy_counts(mechanism, rows, runs, bits))


def _noise_over_records(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Divide the noise by the number of records, as circulating code does."""
    return run(_with_rate(mechanism, Fraction(RECORDS)), rows, runs, bits)


SKETCH_TWINS: Twins = (
    (race.NAME, "replacing counted as adding", _added_counters),
    (race.NAME, "one row paid for", _one_row_only),
    (
        race.NAME,
        "no noise on empty counters",
        lambda: replace(race_cases()["one more"], run=_noise_on_used_counters).case(),
    ),
    (
        as_published.RACE,
        "noise divided by the number of records",
        lambda: replace(published_race_cases()["one more"], run=_noise_over_records).case(),
    ),
)


def _whole_budget_for_every_term(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Spend the whole budget on each term, as if their releases did not add up."""
    law = mechanism.noise
    if isinstance(law, DiscreteLaplace):
        terms = len(mechanism.encoder.strata)  # type: ignore[attr-defined]
        return run(replace(mechanism, noise=DiscreteLaplace(law.rate * terms)), rows, runs, bits)
    assert isinstance(law, StackedDiscs)
    total = mechanism.guarantee.epsilon
    radii = [part.bound.largest for part in mechanism.encoder.parts]  # type: ignore[attr-defined]
    parts = [replace(part, rate=total / radius) for part, radius in zip(law.parts, radii, strict=True)]
    return run(replace(mechanism, noise=StackedDiscs(tuple(parts), law.blocks)), rows, runs, bits)


def _centred_on_the_records(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Measure records from their own mean before they are projected, as principal components do."""
    return run(mechanism, rows - rows.mean(axis=0), runs, bits)


SMOOTH_TWINS: Twins = (
    (
        exponential_sums.NAME,
        "the whole budget for every term",
        lambda: replace(sum_cases()["one more"], run=_whole_budget_for_every_term).case(),
    ),
    (
        as_published.EXPONENTIAL_SUMS,
        "the whole budget for every term",
        lambda: replace(published_sum_cases()["one more"], run=_whole_budget_for_every_term).case(),
    ),
    (
        PROJECTION,
        "a projection that depends on the records",
        lambda: replace(projection_cases()["others"], run=_centred_on_the_records).case(),
    ),
)
