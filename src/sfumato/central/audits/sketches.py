"""Audits of `race` and `race-published`; importing this module registers them.

Sketches of one column with one or two rows of few counters. The published noise is a floored Laplace law on the same
counters; its attack weighs outputs as if the noise were discrete Laplace, which is close to the best.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.central import race, race_published, registry
from sfumato.central.audits import one_more, opposites, register_central
from sfumato.central.audits.attacks import CentralCase, low_bits
from sfumato.central.mechanism import Mechanism
from sfumato.central.request import Request
from sfumato.kernels import Laplacian


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
    return registry.build(method, request)


@cache
def race_cases() -> dict[str, CentralCase]:
    """Cases of `race`, with both kinds of noise."""
    single = one_more(small_sketch(race.NAME, 1, rows=1, width=2))
    return {
        "one more": single,
        "second": one_more(small_sketch(race.NAME, 2, rows=2, width=4), already=1),
        "opposites": opposites(small_sketch(race.NAME, 2, "replace", rows=1, width=2)),
        "gaussian": one_more(small_sketch(race.NAME, 1, delta=0.05, rows=2, width=2)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def published_cases() -> dict[str, CentralCase]:
    """Cases of `race-published`, attacked as if its noise were discrete."""
    published = small_sketch(race_published.NAME, 1, rows=1, width=2)
    return {"one more": replace(race_cases()["one more"], name="0 or 1 records, floored noise", mechanism=published)}


register_central(race.NAME, race_cases)
register_central(race_published.NAME, published_cases)
