"""Audits of the central mechanisms: worst-case neighbours, run through the mechanisms' own parts.

Every case builds its mechanism from a request as a release would, with few features, encodes the rows with real coins
and adds real noise to the sums and to the count. The neighbours are the worst that there are: no record or one, one or
two, each with the largest integers; or a record and its opposite. Importing this module registers the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from sfumato.audit import EpsilonClaim, ExactCase, MuClaim, log_weights, register_audit
from sfumato.audit.attacks import (
    CentralCase,
    count_ratio,
    displacement,
    extremes,
    largeness,
    likelihood_ratio,
    low_bits,
    sizes,
)
from sfumato.audit.cases.splines import exact_grid
from sfumato.audit.exact import at_small_scale, exact_case
from sfumato.central import fourier, fourier_gaussian, grid, lattice
from sfumato.kernels import Gaussian
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.published import lsq_rff
from sfumato.quantizers.base import Floats

COUNT = "count"


def small_mechanism(
    method: str,
    epsilon: int,
    neighbours: str = "add-remove",
    delta: float = 0.0,
    bounds: tuple[int, int] = (-8, 8),
    **options: Any,
) -> Mechanism:
    """Build a mechanism with few features of one column, which leaves an attack few directions to guess."""
    request = Request(
        kernel=Gaussian(1.0),
        dimension=1,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        delta=delta,
        neighbours=neighbours,
        bounds=bounds,
        options=options,
    )
    return METHODS.build(method, request)


def one_more(mechanism: Mechanism, already: int = 0) -> CentralCase:
    """Whether one more extreme record, beside `already` copies of it, shows in the outputs."""
    row, _ = extremes(mechanism.encoder)
    inside, outside = np.tile(row, (already + 1, 1)), np.tile(row, (already, 1))
    statistic = likelihood_ratio(mechanism, inside, outside)
    name = f"{already} or {already + 1} records, {sizes(mechanism)}"
    return CentralCase(name, mechanism, inside, outside, statistic, _claim(mechanism))


def opposites(mechanism: Mechanism) -> CentralCase:
    """Whether a record can be told from the one most unlike it, under neighbours="replace"."""
    inside, outside = extremes(mechanism.encoder)
    statistic = likelihood_ratio(mechanism, inside, outside)
    name = f"a record or its opposite, {sizes(mechanism)}"
    return CentralCase(name, mechanism, inside, outside, statistic, _claim(mechanism))


def order(mechanism: Mechanism) -> CentralCase:
    """Whether removing the first of several records moves the others from group to group."""
    row, opposite = extremes(mechanism.encoder)
    inside = np.concatenate([row, opposite, row])
    outside = inside[1:]
    statistic = displacement(mechanism, inside, outside)
    name = f"the first of {len(inside)} records removed, {sizes(mechanism)}"
    return CentralCase(name, mechanism, inside, outside, statistic, _claim(mechanism))


@cache
def lsq_rff_cases() -> dict[str, CentralCase]:
    """Cases of `lsq-rff`."""
    single = one_more(small_mechanism(lsq_rff.NAME, 1, n_features=1))
    return {
        "one more": single,
        "second": one_more(small_mechanism(lsq_rff.NAME, 2, n_features=2), already=1),
        "opposites": opposites(small_mechanism(lsq_rff.NAME, 1, "replace", n_features=2)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def fourier_cases() -> dict[str, CentralCase]:
    """Cases of `fourier`."""
    tight = one_more(small_mechanism(fourier.NAME, 1, n_features=1))
    return {
        "one more": one_more(small_mechanism(fourier.NAME, 3, n_features=1)),
        "second": one_more(small_mechanism(fourier.NAME, 2, n_features=3, per_group=3), already=1),
        "opposites": opposites(small_mechanism(fourier.NAME, 3, "replace", n_features=1)),
        "groups": one_more(small_mechanism(fourier.NAME, 3, n_features=2, per_group=1)),
        "order": order(small_mechanism(fourier.NAME, 1, n_features=2, per_group=1)),
        "largeness": replace(tight, name="beyond the noise", statistic=largeness(tight.mechanism)),
    }


@cache
def gaussian_cases() -> dict[str, CentralCase]:
    """Cases of `fourier-gaussian`; with n public it is a Gaussian mechanism, whose mu follows from its claim."""
    replaced = opposites(small_mechanism(fourier_gaussian.NAME, 2, "replace", 1e-6, n_features=2))
    # The total variation between discrete and rounded Gaussian noise is far below what the samples could show.
    mu = 1 / gaussian_multiplier(2.0, 1e-6)
    single = one_more(small_mechanism(fourier_gaussian.NAME, 1, delta=0.05, n_features=2))
    return {
        "opposites": replace(replaced, claim=MuClaim(mu)),
        "one more": single,
        "groups": one_more(small_mechanism(fourier_gaussian.NAME, 2, delta=0.05, n_features=2, per_group=1)),
        "order": order(small_mechanism(fourier_gaussian.NAME, 1, delta=0.05, n_features=2, per_group=1)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def lattice_cases() -> dict[str, CentralCase]:
    """Cases of `lattice`, whose sums hold the count where n is private; otherwise like `fourier-gaussian`."""
    replaced = opposites(small_mechanism(lattice.NAME, 2, "replace", 1e-6, n_features=1))
    single = one_more(small_mechanism(lattice.NAME, 1, delta=0.05, n_features=2))
    return {
        "opposites": replace(replaced, claim=MuClaim(1 / gaussian_multiplier(2.0, 1e-6))),
        "one more": single,
        "second": one_more(small_mechanism(lattice.NAME, 2, delta=0.01, n_features=1, density=0.9), already=1),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def grid_cases() -> dict[str, CentralCase]:
    """Cases of `grid`, on a short grid."""
    few: dict[str, Any] = {"bounds": (-1, 1), "spacing": 0.8}
    return {
        "one more": one_more(small_mechanism(grid.NAME, 1, degree=0, **few)),
        "second": one_more(small_mechanism(grid.NAME, 2, degree=3, **few), already=1),
        "opposites": opposites(small_mechanism(grid.NAME, 1, "replace", degree=0, **few)),
    }


@cache
def count_cases() -> dict[str, CentralCase]:
    """Cases of the private count, which every mechanism with a private n publishes."""
    single = one_more(small_mechanism(lsq_rff.NAME, 2, n_features=1, count_share=Fraction(1, 2)))
    law = single.mechanism.count_law
    assert law is not None
    statistic = count_ratio(single.mechanism, single.inside, single.outside)
    return {
        "one more": replace(single, name="0 or 1 records", statistic=statistic, claim=EpsilonClaim(float(law.rate)))
    }


def _exact_count() -> ExactCase:
    mechanism = small_mechanism(lsq_rff.NAME, 2, n_features=1, count_share=Fraction(1, 2))
    law = mechanism.count_law
    assert law is not None
    counts = np.arange(-20, 21)[:, None]

    def log_laws() -> tuple[Floats, Floats]:
        return log_weights(law, counts), log_weights(law, counts - 1)

    return ExactCase("exact", EpsilonClaim(float(law.rate)), log_laws)


def _exact_lsq_rff() -> list[ExactCase]:
    return [
        exact_case(at_small_scale(small_mechanism(lsq_rff.NAME, 1, neighbours, n_features=2)), reach=10)
        for neighbours in ("add-remove", "replace")
    ]


def _exact_fourier() -> list[ExactCase]:
    return [
        exact_case(at_small_scale(small_mechanism(fourier.NAME, 1, n_features=1)), reach=12),
        exact_case(at_small_scale(small_mechanism(fourier.NAME, 1, "replace", n_features=1)), reach=12),
        exact_case(at_small_scale(small_mechanism(fourier.NAME, 1, n_features=2, per_group=1)), reach=4),
    ]


def _exact_gaussian() -> list[ExactCase]:
    single = small_mechanism(fourier_gaussian.NAME, 1, "replace", 0.05, n_features=1)
    grouped = small_mechanism(fourier_gaussian.NAME, 1, delta=0.1, bounds=(-1, 1), n_features=2, per_group=1)
    return [exact_case(at_small_scale(single), reach=60), exact_case(at_small_scale(grouped, radius=3), reach=9)]


def _claim(mechanism: Mechanism) -> EpsilonClaim:
    return EpsilonClaim(float(mechanism.guarantee.epsilon), mechanism.guarantee.delta)


CENTRAL_CASES: dict[str, Callable[[], dict[str, CentralCase]]] = {}


def register_central(
    name: str, cases: Callable[[], dict[str, CentralCase]], exact: Callable[[], Sequence[ExactCase]] = tuple
) -> None:
    """Register the sampled and exact cases of a central mechanism.

    The case "one more" must be among them: the broken twin with 30 % less noise is made from it.
    """
    register_audit(name, lambda: [*(case.case() for case in cases().values()), *exact()])
    CENTRAL_CASES[name] = cases


register_central(lsq_rff.NAME, lsq_rff_cases, _exact_lsq_rff)
register_central(fourier.NAME, fourier_cases, _exact_fourier)
register_central(fourier_gaussian.NAME, gaussian_cases, _exact_gaussian)
register_central(lattice.NAME, lattice_cases)
register_central(grid.NAME, grid_cases, exact_grid)
register_central(COUNT, count_cases, lambda: [_exact_count()])
