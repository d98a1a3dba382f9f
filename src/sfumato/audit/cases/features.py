"""Audits of `race`, `landmarks`, the inner products, `exponential-sums` and of projections, with those as published.

- Sketches of one column with one or two rows of few counters, whose count is bought or read off the counters.
- Landmarks of one column: five public points, of which one or four directions are used. One direction shows the
  residual at its dearest, half of a record's length in the feature and three quarters in the residual. With the check,
  whose Fourier pair has noise of its own, the release is the composition of two.
- Sums of three exponentials of one column, with one or two features each: the release is the composition of three. A
  wide box has points at which the phases of all features are extreme together.
- Projections, the public step before a method: two columns become one, and the images decide what is summed.
- Ball noise for inner products: in one column it is Laplace noise, so the cases need the plane. One record of full
  length or none, with the best attack there is, and at a small integer scale every record on a fine circle against
  every output near it.
- `cells`: a record shows in one cell of a table, and a cell without records has noise as all others have. The table has
  one category of two values and no numbers, so that a record is all of a cell: the inner methods have audits of their
  own, and calibration checks (`subjects`) look at them in cells.

Importing this module registers the cases.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.audit import EpsilonClaim, ExactCase, log_weights
from sfumato.audit.attacks import CentralCase, exact_case, likelihood_ratio, low_bits
from sfumato.audit.cases.central import one_more, opposites, register_central, small_mechanism
from sfumato.audit.cases.published import every_record
from sfumato.audit.cases.variants import Subject, register_subjects
from sfumato.central import cells, exponential_sums, inner_product, landmarks, race
from sfumato.kernels import Gaussian, InnerProduct, Laplacian, Overlap, Product, Rational
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.ball import BallNoise
from sfumato.privacy.body import StackedDiscs
from sfumato.published import as_published, lsq_rff
from sfumato.quantizers import ExponentialSums, InnerProductQuantizer, ShardedFourier
from sfumato.quantizers.base import Floats
from sfumato.quantizers.nystrom import PublicSample

SMALL_SCALE = 6
ANGLES = np.linspace(0, 2 * np.pi, 720, endpoint=False)
CIRCLE = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])


def plane(epsilon: int, neighbours: str = "add-remove") -> Mechanism:
    """Build the inner product of two columns."""
    request = Request(
        kernel=InnerProduct(1.0),
        dimension=2,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        neighbours=neighbours,
        bounds=(-8, 8),
    )
    return METHODS.build(inner_product.NAME, request)


def sampled(epsilon: int, neighbours: str = "add-remove") -> CentralCase:
    """Whether one record of full length, or its change into the opposite one, shows in the outputs."""
    mechanism = plane(epsilon, neighbours)
    inside = np.array([[1.0, 0.0]])
    outside = inside[:0] if neighbours == "add-remove" else -inside
    name = "a plane, " + ("0 or 1 records" if neighbours == "add-remove" else "a record or its opposite")
    statistic = likelihood_ratio(mechanism, inside, outside)
    return CentralCase(name, mechanism, inside, outside, statistic, EpsilonClaim(float(epsilon)))


def at_scale(mechanism: Mechanism, scale: int, paid: int | None = None) -> Mechanism:
    """Return the mechanism with integers up to a scale, and noise for that or for what is `paid`."""
    quantizer, law = mechanism.encoder, mechanism.noise
    assert isinstance(quantizer, InnerProductQuantizer) and isinstance(law, BallNoise)
    few = replace(quantizer, ball=replace(quantizer.ball, scale=scale))
    length = math.isqrt(quantizer.bound.l2_squared)
    return replace(mechanism.on(few), noise=BallNoise(2, law.rate * length / (paid or scale)))


def exact_plane(mechanism: Mechanism, reach: int) -> ExactCase:
    """Compare the laws of all outputs within `reach` for every record on a circle, long ones included."""
    count = Fraction(0) if mechanism.count_law is None else mechanism.count_law.epsilon
    claim = EpsilonClaim(float(mechanism.guarantee.epsilon - count))

    def log_laws() -> tuple[Floats, Floats]:
        outputs = np.array(list(product(range(-reach, reach + 1), repeat=2)))
        changes = np.unique(mechanism.encoder.encode(np.concatenate([CIRCLE, 3 * CIRCLE])), axis=0)
        if mechanism.guarantee.neighbours == "replace":
            changes = np.unique((changes[:, None] - changes[None]).reshape(-1, 2), axis=0)
        after = np.stack([log_weights(mechanism.noise, outputs - change) for change in changes])
        return log_weights(mechanism.noise, outputs)[None], after

    return ExactCase(f"exact, a plane, scale {SMALL_SCALE}, {mechanism.guarantee.neighbours}", claim, log_laws)


def exact_planes() -> list[ExactCase]:
    """Exact cases at a small integer scale."""
    return [
        exact_plane(at_scale(plane(1, neighbours), SMALL_SCALE), reach=12) for neighbours in ("add-remove", "replace")
    ]


# Whoever takes codes for values, as checks of calibrations do with places in a box, falls into the same cells.
KINDS = Overlap([0.3, 1], mismatch=0.25)
TABLE: dict[str, Any] = {"kernel": Product(None, {0: KINDS}), "dimension": 1}
MIXED: dict[str, Any] = {"kernel": Product(Gaussian(1.0), {1: KINDS}), "dimension": 2, "bounds": (-1, 1)}


def small_table(epsilon: int, neighbours: str = "add-remove") -> Mechanism:
    """Build a table of two cells."""
    request = Request(epsilon=Fraction(epsilon), n=100, feature_seed=7, neighbours=neighbours, **TABLE)
    return METHODS.build(cells.NAME, request)


@cache
def table_cases() -> dict[str, CentralCase]:
    """Cases of `cells`."""
    return {
        "one more": one_more(small_table(1)),
        "second": one_more(small_table(2), already=1),
        "opposites": opposites(small_table(1, "replace")),
    }


def _asked(name: str, facts: dict[str, Any], **options: Any) -> Subject:
    return Subject(cells.NAME, name, facts, options, METHODS.build)


register_central(cells.NAME, table_cases)
register_subjects(
    _asked("a table", TABLE, inner="table"),
    _asked("1 feature", MIXED, inner="fourier", n_features=1),
    _asked("4 features in groups of 2", MIXED, inner="fourier", n_features=4, per_group=2),
    _asked("steps", MIXED, inner="grid", degree=0, spacing=0.8),
    _asked("cubes in buckets", MIXED, inner="grid", degree=3, spacing=0.8, buckets=16),
    _asked("2 features, Gaussian", MIXED, inner="fourier-gaussian", n_features=2),
    _asked("default", MIXED),
)


PROJECTION = "projection"
PUBLIC = PublicSample.of([[-1.0], [-0.5], [0.0], [0.5], [1.0]], dimension=1)
SIDE = np.linspace(-8.0, 8.0, 161)
ALREADY = 8


def small_sketch(method: str, *asked: Any, **options: Any) -> Mechanism:
    """Build a sketch of few counters."""
    return small_mechanism(method, *asked, kernel=Laplacian(1.0), **options)


def small_similarity(method: str, *asked: Any, **options: Any) -> Mechanism:
    """Build a mechanism of landmarks or inner products."""
    kernel = Gaussian(1.0) if method == landmarks.NAME else InnerProduct(1.0)
    return small_mechanism(method, *asked, kernel=kernel, landmarks=PUBLIC, **options)


def small_sum(method: str, *asked: Any, **options: Any) -> Mechanism:
    """Build a sum of three exponentials with few features."""
    facts: dict[str, Any] = {"kernel": Rational(1.0, "sqeuclidean"), "bounds": (-1000, 1000)}
    return small_mechanism(method, *asked, **facts, **{"tolerance": 0.1, "n_features": 2, **options})


def small_projection(kind: str) -> Mechanism:
    """Build `lsq-rff` with two features on one projected column."""
    return small_mechanism(lsq_rff.NAME, 1, dimension=2, project=kind, project_to=1, n_features=2)


@cache
def race_cases() -> dict[str, CentralCase]:
    """Cases of `race`, with both kinds of noise."""
    single = one_more(small_sketch(race.NAME, 1, rows=1, width=2))
    return {
        "one more": single,
        "second": one_more(small_sketch(race.NAME, 2, rows=2, width=4), already=1),
        "own count": one_more(small_sketch(race.NAME, 2, rows=2, width=2, own_count=True)),
        "opposites": opposites(small_sketch(race.NAME, 2, "replace", rows=1, width=2)),
        "gaussian": one_more(small_sketch(race.NAME, 1, delta=0.05, rows=2, width=2)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def published_race_cases() -> dict[str, CentralCase]:
    """Cases of `race-published`."""
    return {
        "one more": one_more(small_sketch(as_published.RACE, 1, rows=1, width=2)),
        "opposites": opposites(small_sketch(as_published.RACE, 2, "replace", rows=1, width=2)),
    }


def _exact_sketch(method: str) -> list[ExactCase]:
    relations = ("add-remove", "replace")
    return [exact_case(small_sketch(method, 1, relation, rows=2, width=2), reach=3) for relation in relations]


@cache
def landmark_cases() -> dict[str, CentralCase]:
    """Cases of `landmarks`, with both kinds of noise; an attack on ball noise shows more of a larger epsilon.

    First without the check, then with a check of one pair.
    """
    alone: dict[str, Any] = {"check_share": 0}
    single = one_more(small_similarity(landmarks.NAME, 3, n_features=1, **alone))
    few: dict[str, Any] = {"n_features": 1, "check_features": 1}
    return {
        "one more": single,
        "second": one_more(small_similarity(landmarks.NAME, 4, n_features=2, **alone), already=1),
        "opposites": opposites(small_similarity(landmarks.NAME, 4, "replace", n_features=1, **alone)),
        "gaussian": one_more(small_similarity(landmarks.NAME, 1, delta=0.05, n_features=4, **alone)),
        "checked": one_more(small_similarity(landmarks.NAME, 6, **few)),
        "checked, replaced": opposites(small_similarity(landmarks.NAME, 6, "replace", **few)),
        "checked, gaussian": one_more(small_similarity(landmarks.NAME, 1, delta=0.05, **few)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def inner_product_cases() -> dict[str, CentralCase]:
    """Cases of `inner-product`, with all kinds of noise: the ball's in the plane, Laplace noise in one column."""
    return {
        "one more": sampled(3),
        "plane, replaced": sampled(3, "replace"),
        "one column": one_more(small_similarity(inner_product.NAME, 1)),
        "opposites": opposites(small_similarity(inner_product.NAME, 1, "replace")),
        "clipped": one_more(small_similarity(inner_product.NAME, 1, clip=0.5)),
        "gaussian": one_more(small_similarity(inner_product.NAME, 1, delta=0.05)),
    }


@cache
def signs_cases() -> dict[str, CentralCase]:
    """Cases of `inner-product-signs`."""
    return {
        "one more": one_more(small_similarity(inner_product.SIGNS, 1, n_features=2)),
        "opposites": opposites(small_similarity(inner_product.SIGNS, 1, "replace", n_features=2)),
    }


def _exact_similarity(method: str, **options: Any) -> list[ExactCase]:
    return [
        every_record(small_similarity(method, 1, neighbours, **options)) for neighbours in ("add-remove", "replace")
    ]


def cut(mechanism: Mechanism) -> Mechanism:
    """Leave every structure one pair, with the noise that one pair needs: fewer directions to guess."""
    quantizer, law = mechanism.encoder, mechanism.noise
    assert isinstance(quantizer, ExponentialSums)
    assert isinstance(law, StackedDiscs)
    parts = []
    for part in quantizer.parts:
        phases = part.phases
        few = replace(phases, frequencies=phases.frequencies[:, :1], offsets=phases.offsets[:1])
        parts.append(ShardedFourier(few, 1, part.radius))
    noises = tuple(replace(noise, pairs=1) for noise in law.parts)
    return replace(
        mechanism.on(replace(quantizer, parts=tuple(parts))),
        noise=StackedDiscs(noises, (1,) * len(noises)),
    )


@cache
def sum_cases() -> dict[str, CentralCase]:
    """Cases of `exponential-sums`, with both splits."""
    return {
        "one more": one_more(cut(small_sum(exponential_sums.NAME, 3, density=0.3))),
        "second": one_more(small_sum(exponential_sums.NAME, 4, split="even"), already=1),
        "opposites": opposites(cut(small_sum(exponential_sums.NAME, 4, "replace"))),
    }


@cache
def published_sum_cases() -> dict[str, CentralCase]:
    """Cases of `exponential-sums-published`."""
    return {
        "one more": one_more(small_sum(as_published.EXPONENTIAL_SUMS, 2, n_features=1)),
        "opposites": opposites(small_sum(as_published.EXPONENTIAL_SUMS, 2, "replace")),
    }


def _extreme(mechanism: Mechanism) -> Floats:
    """Return the point of the box whose integers are largest."""
    rows = np.stack(np.meshgrid(SIDE, SIDE), axis=-1).reshape(-1, 2)
    return rows[[int(np.argmax(np.abs(mechanism.encoder.encode(rows)).sum(axis=1)))]]


def _projected(kind: str, already: int) -> CentralCase:
    """Whether one more extreme record shows beside others at the middle of the box."""
    mechanism = small_projection(kind)
    outside = np.zeros((already, 2))
    inside = np.concatenate([outside, _extreme(mechanism)])
    name = f"{already} or {already + 1} records, {kind}, 2 columns to 1"
    statistic = likelihood_ratio(mechanism, inside, outside)
    return CentralCase(name, mechanism, inside, outside, statistic, EpsilonClaim(1.0))


@cache
def projection_cases() -> dict[str, CentralCase]:
    """Cases of both kinds of projection."""
    return {
        "one more": _projected("dense", 0),
        "fast": _projected("fast", 0),
        "others": _projected("dense", ALREADY),
    }


register_central(race.NAME, race_cases, lambda: _exact_sketch(race.NAME))
register_central(as_published.RACE, published_race_cases, lambda: _exact_sketch(as_published.RACE))
register_central(landmarks.NAME, landmark_cases, lambda: _exact_similarity(landmarks.NAME, n_features=1, check_share=0))
register_central(
    inner_product.NAME,
    inner_product_cases,
    lambda: [*_exact_similarity(inner_product.NAME), *exact_planes()],
)
register_central(inner_product.SIGNS, signs_cases, lambda: _exact_similarity(inner_product.SIGNS, n_features=2))
register_central(exponential_sums.NAME, sum_cases)
register_central(as_published.EXPONENTIAL_SUMS, published_sum_cases)
register_central(PROJECTION, projection_cases)
