"""Audits of `race` and `race-published`; importing this module registers them.

Sketches of one column with one or two rows of few counters, whose count is bought or read off the counters.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.audit import ExactCase
from sfumato.audit.attacks import CentralCase, low_bits
from sfumato.audit.cases.central import one_more, opposites, register_central
from sfumato.audit.exact import exact_case
from sfumato.central import race
from sfumato.kernels import Laplacian
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.published import as_published


def small_sketch(
    method: str, epsilon: int, neighbours: str = "add-remove", delta: float = 0.0, **options: Any
) -> Mechanism:
    """Build a sketch of few counters."""
    request = Request(
        kernel=Laplacian(1.0),
        dimension=1,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        delta=delta,
        neighbours=neighbours,
        bounds=(-8, 8),
        options=options,
    )
    return METHODS.build(method, request)


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
def published_cases() -> dict[str, CentralCase]:
    """Cases of `race-published`."""
    return {
        "one more": one_more(small_sketch(as_published.RACE, 1, rows=1, width=2)),
        "opposites": opposites(small_sketch(as_published.RACE, 2, "replace", rows=1, width=2)),
    }


def _exact(method: str) -> list[ExactCase]:
    relations = ("add-remove", "replace")
    return [exact_case(small_sketch(method, 1, relation, rows=2, width=2), reach=3) for relation in relations]


register_central(race.NAME, race_cases, lambda: _exact(race.NAME))
register_central(as_published.RACE, published_cases, lambda: _exact(as_published.RACE))
