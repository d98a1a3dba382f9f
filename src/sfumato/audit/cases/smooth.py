"""Audits of `exponential-sums` and `exponential-sums-published`; importing this module registers them.

Sums of three exponentials of one column, with one or two features each: the release is the composition of three. A wide
box has points at which the phases of all features are extreme together.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.audit.attacks import CentralCase
from sfumato.audit.cases.central import one_more, opposites, register_central
from sfumato.central import exponential_sums
from sfumato.kernels import Rational
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.stacked_discs import StackedDiscs
from sfumato.published import as_published
from sfumato.quantizers import ExponentialSums, ShardedFourier


def small_sum(method: str, epsilon: int, neighbours: str = "add-remove", **options: Any) -> Mechanism:
    """Build a sum of three exponentials with few features."""
    request = Request(
        kernel=Rational(1.0, "sqeuclidean"),
        dimension=1,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        neighbours=neighbours,
        bounds=(-1000, 1000),
        options={"tolerance": 0.1, "n_features": 2, **options},
    )
    return METHODS.build(method, request)


def cut(mechanism: Mechanism) -> Mechanism:
    """Leave every structure one pair, with the noise that one pair needs: fewer directions to guess."""
    quantizer, law = mechanism.quantizer, mechanism.noise
    assert isinstance(quantizer, ExponentialSums)
    assert isinstance(law, StackedDiscs)
    parts = []
    for part in quantizer.parts:
        phases = part.phases
        few = replace(phases, frequencies=phases.frequencies[:, :1], offsets=phases.offsets[:1])
        parts.append(ShardedFourier(few, 1, part.radius))
    noises = tuple(replace(noise, pairs=1) for noise in law.parts)
    return replace(
        mechanism,
        quantizer=replace(quantizer, parts=tuple(parts)),
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
def published_cases() -> dict[str, CentralCase]:
    """Cases of `exponential-sums-published`."""
    return {
        "one more": one_more(small_sum(as_published.EXPONENTIAL_SUMS, 2, n_features=1)),
        "opposites": opposites(small_sum(as_published.EXPONENTIAL_SUMS, 2, "replace")),
    }


register_central(exponential_sums.NAME, sum_cases)
register_central(as_published.EXPONENTIAL_SUMS, published_cases)
