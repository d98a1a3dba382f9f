"""Audits of the mechanisms for distances: worst-case neighbours, sampled and exact. Importing this registers them.

Exact losses of added noise are read off the two sums themselves, where every coordinate of the likelihood ratio is at
its largest at once: the rate times the norm of what a record changes, at the mechanism's own scale, for records at
every place that can be the worst. Sampled cases run the mechanisms' own parts and attack by the likelihood ratio.
Calibrations are checked for every distance and every option that a method knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from sfumato.audit import AuditCase, Case, EpsilonClaim, ExactCase, log_weights, register_audit
from sfumato.audit.attacks import CentralCase
from sfumato.audit.case import Samples
from sfumato.audit.cases.central import (
    losses_at_the_sums,
    one_more,
    opposites,
    register_central,
    small_request,
    sums_claim,
)
from sfumato.audit.cases.variants import Subject, register_subjects
from sfumato.distances import hats, moments
from sfumato.distances.design import laplace_split
from sfumato.distances.hat import PROFILE_BITS, HatQuantizer
from sfumato.kernels.unscaled import Distance
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import DISTANCES
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import StackedCubes
from sfumato.published import huang_roth, trees
from sfumato.published import moments as published_moments
from sfumato.published.huang_roth import Learner
from sfumato.published.moments import Halves, PublishedMoments, squares_around_mean
from sfumato.quantizers.base import Floats, Integers

LEVELS = 3
LEARNER_RUNS = 4000  # a run takes a while
LEARNER = Learner(anchors=1, epsilon=Fraction(1, 2), slack=0)


def small(method: str, *asked: Any, metric: str = "l1", **options: Any) -> Mechanism:
    """Build a mechanism with few integers over columns from 0 to 1."""
    request = small_request(*asked, kernel=Distance(metric), bounds=(0, 1), **options)
    return DISTANCES.build(method, request)


def worst_places() -> Floats:
    """Places at which a record of a small mechanism with hats adds the most, and others."""
    return np.arange((4 << LEVELS) + 1)[:, None] / (4 << LEVELS)


def every_place(mechanism: Mechanism, rows: Floats) -> ExactCase:
    """Compare the sums without and with a record, or with it and with another, for records at all of these places."""

    def log_laws() -> tuple[Floats, Floats]:
        encoded = mechanism.encoder.encode(rows)
        inside, outside = encoded, np.zeros_like(encoded)
        if mechanism.guarantee.neighbours == "replace":
            inside, outside = np.repeat(encoded, len(encoded), axis=0), np.tile(encoded, (len(encoded), 1))
        return losses_at_the_sums(mechanism.noise, inside, outside)

    kernel = mechanism.kernel
    assert isinstance(kernel, Distance)
    name = f"exact, every place, {kernel.metric}, {mechanism.encoder.dimension}-d, {mechanism.guarantee.neighbours}"
    return ExactCase(name, sums_claim(mechanism), log_laws)


@cache
def hat_cases() -> dict[str, CentralCase]:
    """Cases of `hat`."""
    return {
        "one more": one_more(small(hats.LAPLACE, 2, levels=1)),
        "second": one_more(small(hats.LAPLACE, 2, levels=2), already=1),
        "opposites": opposites(small(hats.LAPLACE, 2, "replace", levels=1)),
    }


def _exact_hats() -> list[ExactCase]:
    rows = worst_places()
    pairs = np.hstack([rows, np.roll(rows, 7, axis=0)])
    return [
        every_place(small(hats.LAPLACE, 1, levels=LEVELS), rows),
        every_place(small(hats.LAPLACE, 1, "replace", levels=LEVELS), rows),
        every_place(small(hats.LAPLACE, 1, dimension=2, levels=LEVELS), pairs),
        every_place(small(hats.LAPLACE, 1, metric="l2", dimension=2, levels=LEVELS, projections=3), pairs),
    ]


@cache
def gaussian_hat_cases() -> dict[str, CentralCase]:
    """Cases of `hat-gaussian`."""
    return {
        "one more": one_more(small(hats.GAUSSIAN, 1, delta=0.05, levels=2)),
        "opposites": opposites(small(hats.GAUSSIAN, 1, "replace", 0.05, levels=1)),
    }


@cache
def moment_cases() -> dict[str, CentralCase]:
    """Cases of `moments`."""
    return {
        "one more": one_more(small(moments.LAPLACE, 2, metric="sqeuclidean")),
        "second": one_more(small(moments.LAPLACE, 1, metric="sqeuclidean"), already=1),
        "opposites": opposites(small(moments.LAPLACE, 2, "replace", metric="sqeuclidean")),
    }


def _exact_moments() -> list[ExactCase]:
    rows = worst_places()
    corners = np.hstack([rows, np.roll(rows, 7, axis=0)])
    return [
        every_place(small(moments.LAPLACE, 1, metric="sqeuclidean", dimension=2), corners),
        every_place(small(moments.LAPLACE, 1, "replace", metric="sqeuclidean", dimension=2), corners),
    ]


@cache
def gaussian_moment_cases() -> dict[str, CentralCase]:
    """Cases of `moments-gaussian`."""
    return {"one more": one_more(small(moments.GAUSSIAN, 1, delta=0.05, metric="sqeuclidean"))}


@cache
def published_tree_cases() -> dict[str, CentralCase]:
    """Cases of `tree-published`."""
    return {"one more": one_more(small(trees.PUBLISHED, 2, depth=1))}


@cache
def consistent_tree_cases() -> dict[str, CentralCase]:
    """Cases of `tree-consistent`."""
    return {"one more": one_more(small(trees.CONSISTENT, 2, depth=1))}


def exact_halves(halves: Halves | None = None) -> ExactCase:
    """Compare what `sqeuclidean-published` computes before its noise, for records that come, go and move."""
    mechanism = small(published_moments.NAME, 1, metric="sqeuclidean", dimension=2)
    algorithm = halves or mechanism.algorithm
    quantizer = mechanism.encoder
    assert isinstance(algorithm, Halves) and isinstance(quantizer, PublishedMoments)
    corners = np.array([[x, y] for x in (0.0, 0.5, 1.0) for y in (0.0, 1.0)])

    def statistics(rows: Floats) -> Integers:
        sums = quantizer.encode(rows).sum(axis=0)
        return np.array([*sums[:-2], squares_around_mean(sums)])

    def log_laws() -> tuple[Floats, Floats]:
        others = [corners[:size] for size in range(len(corners))] + [np.zeros((50, 2))]
        pairs = [(statistics(rows), statistics(np.vstack([rows, row]))) for rows in others for row in corners]
        inside, outside = (np.stack(each) for each in zip(*pairs, strict=True))
        outputs = np.stack([inside, outside], axis=1)

        def log_law(centre: Integers) -> Floats:
            away = outputs - centre[:, None]
            return log_weights(algorithm.sums_law, away[..., :-1]) + log_weights(algorithm.square_law, away[..., -1:])

        return log_law(inside), log_law(outside)

    return ExactCase("exact, one more record", sums_claim(mechanism), log_laws)


def learner_case(learner: Learner = LEARNER) -> AuditCase:
    """Attack one column's learner that takes anchors readily: whether nobody or somebody at the far end is there."""
    counts = [np.array([0, 0, 0]), np.array([0, 0, 1])]

    def sample(trials: int, bits: SecureBits) -> Samples:
        runs = min(trials, LEARNER_RUNS)
        nobody, somebody = (np.array([float(learner.learn(each, bits)[0]) for _ in range(runs)]) for each in counts)
        return somebody, nobody

    return AuditCase("0 or 1 records, 1 anchor", EpsilonClaim(2 * float(LEARNER.epsilon)), sample)


register_central(hats.LAPLACE, hat_cases, _exact_hats)
register_central(hats.GAUSSIAN, gaussian_hat_cases)
register_central(moments.LAPLACE, moment_cases, _exact_moments)
register_central(moments.GAUSSIAN, gaussian_moment_cases)
register_central(
    trees.PUBLISHED,
    published_tree_cases,
    lambda: [every_place(small(trees.PUBLISHED, 1, depth=LEVELS), worst_places())],
)
register_central(
    trees.CONSISTENT, consistent_tree_cases, lambda: [every_place(small(trees.CONSISTENT, 1, depth=2), worst_places())]
)
register_audit(published_moments.NAME, lambda: [exact_halves()])
register_audit(huang_roth.NAME, lambda: [learner_case()])


def _asked(method: str, name: str, metric: str, dimension: int = 1, **options: Any) -> Subject:
    power = 1.5 if metric == "lpp" else None
    facts = {"kernel": Distance(metric, power), "dimension": dimension, "bounds": (0, 1)}
    return Subject(method, f"{metric}, {name}", facts, options, DISTANCES.build)


BOUGHT: dict[str, Any] = {"count_share": Fraction(1, 4)}
register_subjects(
    *(
        subject
        for method in (hats.LAPLACE, hats.GAUSSIAN)
        for subject in (
            _asked(method, "2 levels", "l1", levels=2),
            _asked(method, "bought count", "l1", levels=2, **BOUGHT),
            _asked(method, "default", "l1", 3),
            _asked(method, "2 columns", "lpp", 2, levels=2),
            _asked(method, "3 projections", "l2", 2, levels=2, projections=3, clip=1.5),
        )
    ),
    *(
        subject
        for method in (moments.LAPLACE, moments.GAUSSIAN)
        for subject in (
            _asked(method, "1 column", "sqeuclidean"),
            _asked(method, "bought count", "sqeuclidean", **BOUGHT),
            _asked(method, "3 columns", "sqeuclidean", 3),
        )
    ),
    _asked(trees.PUBLISHED, "1 column", "l1", depth=3),
    _asked(trees.PUBLISHED, "64 columns", "l1", 64, depth=1, alpha=0.2),
    _asked(trees.PUBLISHED, "2 columns", "lpp", 2, depth=3),
    _asked(trees.PUBLISHED, "3 projections", "l2", 2, depth=3, projections=3),
    _asked(trees.CONSISTENT, "1 column", "l1", depth=3),
    _asked(trees.CONSISTENT, "bought count", "l1", depth=3, **BOUGHT),
    _asked(trees.CONSISTENT, "64 columns", "l1", 64, depth=1),
    _asked(published_moments.NAME, "2 columns", "sqeuclidean", 2),
    _asked(huang_roth.NAME, "2 columns", "l1", 2),
)


def _with_profile(mechanism: Mechanism, shares: list[Fraction]) -> Mechanism:
    """Give the levels other budgets, and leave the noise as it is."""
    quantizer = mechanism.encoder
    assert isinstance(quantizer, HatQuantizer)
    profile = tuple(int(share * (1 << PROFILE_BITS)) for share in shares)
    return mechanism.on(replace(quantizer, profile=profile))


def _levels(bound: Fraction) -> list[Fraction]:
    """Shares of nodes and levels for a wrong bound of the sum of the hats' heights."""
    split = laplace_split(1.0)
    assert split.ratio is not None
    return [split.nodes, *((1 - split.nodes) * split.ratio**level / bound for level in range(LEVELS))]


def _too_much() -> ExactCase:
    """Give every level its share of the whole budget, as if the nodes had cost nothing."""
    split = laplace_split(1.0)
    shares = [split.nodes, *(share / (1 - split.nodes) for share in _levels(Fraction(16, 9))[1:])]
    return every_place(_with_profile(small(hats.LAPLACE, 1, levels=LEVELS), shares), worst_places())


def _small_bound() -> ExactCase:
    """Take the heights' sum to be at most that of one level, K = 1."""
    return every_place(_with_profile(small(hats.LAPLACE, 1, levels=LEVELS), _levels(Fraction(1))), worst_places())


def _costly_hats() -> Case:
    """Take hats of full height to be free in the l2 norm."""
    case = gaussian_hat_cases()["one more"]
    quantizer = case.mechanism.encoder
    assert isinstance(quantizer, HatQuantizer)
    shares = [Fraction(1)] * (quantizer.levels + 1)
    return one_more(_with_profile(case.mechanism, shares)).case()


def _every_block_pays_nothing() -> ExactCase:
    """Spend the whole budget on each block of moments."""
    mechanism = small(moments.LAPLACE, 1, metric="sqeuclidean")
    law = mechanism.noise
    assert isinstance(law, StackedCubes)
    doubled = StackedCubes(tuple(replace(part, rate=2 * part.rate) for part in law.parts))
    return every_place(replace(mechanism, noise=doubled), worst_places())


def _half_squares() -> ExactCase:
    """Take a record to be no farther from the mean than half of the diagonal."""
    algorithm = small(published_moments.NAME, 1, metric="sqeuclidean", dimension=2).algorithm
    assert isinstance(algorithm, Halves)
    law = replace(algorithm.square_law, rate=4 * algorithm.square_law.rate)
    return exact_halves(replace(algorithm, square_law=law))


def _eager_learner() -> Case:
    """Run the learner with a tenth of its noise."""
    learner = LEARNER
    return learner_case(replace(learner, epsilon=10 * learner.epsilon))


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (hats.LAPLACE, "levels' budgets sum to more than epsilon", _too_much),
    (hats.LAPLACE, "bound of the hats too small", _small_bound),
    (hats.GAUSSIAN, "hats of full height taken to be free", _costly_hats),
    (moments.LAPLACE, "every block spends the whole budget", _every_block_pays_nothing),
    (published_moments.NAME, "squares of half the distance", _half_squares),
    (huang_roth.NAME, "a tenth of the noise", _eager_learner),
)
