"""Audits of the mechanisms for distances: worst-case neighbours, sampled and exact. Importing this registers them.

Exact losses of added noise are read off the two sums themselves, where every coordinate of the likelihood ratio is at
its largest at once: the rate times the norm of what a record changes, at the mechanism's own scale, for records at
every place that can be the worst. Sampled cases run the mechanisms' own parts and attack by the likelihood ratio.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from sfumato.audit import AuditCase, EpsilonClaim, ExactCase, log_weights, register_audit
from sfumato.audit.attacks import CentralCase
from sfumato.audit.cases.central import one_more, opposites, register_central
from sfumato.audit.claims import Samples
from sfumato.distances import hats, moments
from sfumato.distances.request import DistanceRequest
from sfumato.kernels.distance import Distance
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import DISTANCES
from sfumato.privacy.bits import SecureBits
from sfumato.published import huang_roth, trees
from sfumato.published import moments as published_moments
from sfumato.published.huang_roth import Learner
from sfumato.published.moments import Halves, PublishedMoments, squares_around_mean
from sfumato.quantizers.base import Floats, Integers

LEVELS = 3
LEARNER_RUNS = 4000  # a run takes a while
LEARNER = Learner(anchors=1, epsilon=Fraction(1, 2), slack=0)


def small(
    method: str,
    epsilon: int,
    neighbours: str = "add-remove",
    delta: float = 0.0,
    metric: str = "l1",
    dimension: int = 1,
    **options: Any,
) -> Mechanism:
    """Build a mechanism with few integers over columns from 0 to 1."""
    request = DistanceRequest(
        kernel=Distance(metric),
        dimension=dimension,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        delta=delta,
        neighbours=neighbours,
        bounds=(0, 1),
        options=options,
    )
    return DISTANCES.build(method, request)


def worst_places() -> Floats:
    """Places at which a record of a small mechanism with hats adds the most, and others."""
    return np.arange((4 << LEVELS) + 1)[:, None] / (4 << LEVELS)


def every_place(mechanism: Mechanism, rows: Floats) -> ExactCase:
    """Compare the sums without and with a record, or with it and with another, for records at all of these places."""
    count = Fraction(0) if mechanism.count_law is None else mechanism.count_law.epsilon
    claim = EpsilonClaim(float(mechanism.guarantee.epsilon - count))

    def log_laws() -> tuple[Floats, Floats]:
        encoded = mechanism.quantizer.encode(rows)
        inside, outside = encoded, np.zeros_like(encoded)
        if mechanism.guarantee.neighbours == "replace":
            inside, outside = np.repeat(encoded, len(encoded), axis=0), np.tile(encoded, (len(encoded), 1))
        outputs, law = np.stack([inside, outside], axis=1), mechanism.noise
        return log_weights(law, outputs - inside[:, None]), log_weights(law, outputs - outside[:, None])

    kernel = mechanism.kernel
    assert isinstance(kernel, Distance)
    name = f"exact, every place, {kernel.metric}, {mechanism.quantizer.dimension}-d, {mechanism.guarantee.neighbours}"
    return ExactCase(name, claim, log_laws)


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
    quantizer = mechanism.quantizer
    assert isinstance(algorithm, Halves) and isinstance(quantizer, PublishedMoments) and mechanism.count_law is not None
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

    claim = EpsilonClaim(float(mechanism.guarantee.epsilon - mechanism.count_law.epsilon))
    return ExactCase("exact, one more record", claim, log_laws)


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
