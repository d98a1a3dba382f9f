"""Audits of the central mechanisms: worst-case neighbours, run through the mechanisms' own parts.

Every case builds its mechanism from a request as a release would, with few features, encodes the rows with real coins
and adds real noise to the sums and to the count. The neighbours are the worst that there are: no record or one, one or
two, each with the largest integers; or a record and its opposite. Importing this module registers the cases.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.central import fourier, fourier_gaussian, lsq_rff, registry
from sfumato.central.audits.attacks import (
    CentralCase,
    count_ratio,
    displacement,
    extremes,
    largeness,
    likelihood_ratio,
    low_bits,
)
from sfumato.central.audits.exact import at_small_scale, exact_case
from sfumato.central.mechanism import Mechanism
from sfumato.central.request import Request
from sfumato.kernels import Gaussian
from sfumato.privacy.audit import Case, EpsilonClaim, ExactCase, MuClaim, log_weights, register_audit
from sfumato.quantizers import ShardedFourier
from sfumato.quantizers.base import Floats

COUNT = "count"


def small_mechanism(
    method: str, epsilon: int, neighbours: str = "add-remove", delta: float = 0.0, **options: Any
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
        bounds=(-8, 8),
        options=options,
    )
    return registry.build(method, request)


def one_more(mechanism: Mechanism, already: int = 0) -> CentralCase:
    """Whether one more extreme record, beside `already` copies of it, shows in the outputs."""
    row, _ = extremes(mechanism.quantizer)
    inside, outside = np.tile(row, (already + 1, 1)), np.tile(row, (already, 1))
    statistic = likelihood_ratio(mechanism, inside, outside)
    name = f"{already} or {already + 1} records, {_sizes(mechanism)}"
    return CentralCase(name, mechanism, inside, outside, statistic, _claim(mechanism))


def opposites(mechanism: Mechanism) -> CentralCase:
    """Whether a record can be told from the one most unlike it, under neighbours="replace"."""
    inside, outside = extremes(mechanism.quantizer)
    statistic = likelihood_ratio(mechanism, inside, outside)
    name = f"a record or its opposite, {_sizes(mechanism)}"
    return CentralCase(name, mechanism, inside, outside, statistic, _claim(mechanism))


def order(mechanism: Mechanism) -> CentralCase:
    """Whether removing the first of several records moves the others from group to group."""
    row, opposite = extremes(mechanism.quantizer)
    inside = np.concatenate([row, opposite, row])
    outside = inside[1:]
    statistic = displacement(mechanism, inside, outside)
    name = f"the first of {len(inside)} records removed, {_sizes(mechanism)}"
    return CentralCase(name, mechanism, inside, outside, statistic, _claim(mechanism))


def lsq_rff_cases() -> dict[str, CentralCase]:
    """Cases of `lsq-rff`."""
    single = one_more(small_mechanism(lsq_rff.NAME, 1, n_features=1))
    return {
        "one more": single,
        "second": one_more(small_mechanism(lsq_rff.NAME, 2, n_features=2), already=1),
        "opposites": opposites(small_mechanism(lsq_rff.NAME, 1, "replace", n_features=2)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


def fourier_cases() -> dict[str, CentralCase]:
    """Cases of `fourier`."""
    tight = one_more(small_mechanism(fourier.NAME, 1, n_features=1))
    return {
        "one more": one_more(small_mechanism(fourier.NAME, 3, n_features=1)),
        "second": one_more(small_mechanism(fourier.NAME, 2, n_features=3, per_group=3), already=1),
        "opposites": opposites(small_mechanism(fourier.NAME, 3, "replace", n_features=1)),
        "groups": one_more(small_mechanism(fourier.NAME, 2, n_features=2, per_group=1)),
        "order": order(small_mechanism(fourier.NAME, 1, n_features=2, per_group=1)),
        "largeness": replace(tight, name="beyond the noise", statistic=largeness(tight.mechanism)),
    }


def gaussian_cases() -> dict[str, CentralCase]:
    """Cases of `fourier-gaussian`; with n public it is a Gaussian mechanism, whose mu follows from its claim."""
    replaced = opposites(small_mechanism(fourier_gaussian.NAME, 2, "replace", 1e-6, n_features=2))
    # The total variation between discrete and rounded Gaussian noise is far below what the samples could show.
    mu = 1 / fourier_gaussian.gaussian_multiplier(2.0, 1e-6)
    single = one_more(small_mechanism(fourier_gaussian.NAME, 1, delta=0.05, n_features=2))
    return {
        "opposites": replace(replaced, claim=MuClaim(mu)),
        "one more": single,
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


def count_cases() -> dict[str, CentralCase]:
    """Cases of the private count, which every mechanism with a private n publishes."""
    single = one_more(small_mechanism(lsq_rff.NAME, 2, n_features=1, count_share=Fraction(1, 2)))
    law = single.mechanism.count_law
    assert law is not None
    statistic = count_ratio(single.mechanism, single.inside, single.outside)
    return {"one more": replace(single, name="0 or 1 records", statistic=statistic, claim=EpsilonClaim(float(law.rate)))}


def _exact_count() -> ExactCase:
    mechanism = small_mechanism(lsq_rff.NAME, 2, n_features=1, count_share=Fraction(1, 2))
    law = mechanism.count_law
    assert law is not None
    counts = np.arange(-20, 21)[:, None]

    def log_laws() -> tuple[Floats, Floats]:
        return log_weights(law, counts), log_weights(law, counts - 1)

    return ExactCase("exact", EpsilonClaim(float(law.rate)), log_laws)


def _exact_lsq_rff() -> list[Case]:
    return [
        exact_case(at_small_scale(small_mechanism(lsq_rff.NAME, 1, neighbours, n_features=2)), reach=10)
        for neighbours in ("add-remove", "replace")
    ]


def _exact_fourier() -> list[Case]:
    return [
        exact_case(at_small_scale(small_mechanism(fourier.NAME, 1, neighbours, n_features=1)), reach=12)
        for neighbours in ("add-remove", "replace")
    ] + [exact_case(at_small_scale(small_mechanism(fourier.NAME, 1, n_features=2, per_group=1)), reach=4)]


def _exact_gaussian() -> list[Case]:
    mechanism = at_small_scale(small_mechanism(fourier_gaussian.NAME, 1, "replace", 0.05, n_features=1))
    return [exact_case(mechanism, reach=60)]


def _claim(mechanism: Mechanism) -> EpsilonClaim:
    return EpsilonClaim(float(mechanism.guarantee.epsilon), mechanism.guarantee.delta)


def _sizes(mechanism: Mechanism) -> str:
    quantizer = mechanism.quantizer
    groups = f" in {quantizer.groups} groups" if isinstance(quantizer, ShardedFourier) and quantizer.groups > 1 else ""
    return f"{quantizer.terms} feature{'s' if quantizer.terms > 1 else ''}{groups}"


register_audit(lsq_rff.NAME, lambda: [*(case.case() for case in lsq_rff_cases().values()), *_exact_lsq_rff()])
register_audit(fourier.NAME, lambda: [*(case.case() for case in fourier_cases().values()), *_exact_fourier()])
register_audit(
    fourier_gaussian.NAME, lambda: [*(case.case() for case in gaussian_cases().values()), *_exact_gaussian()]
)
register_audit(COUNT, lambda: [*(case.case() for case in count_cases().values()), _exact_count()])
