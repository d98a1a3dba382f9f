"""Audits of the central mechanisms: worst-case neighbours, run through the mechanisms' own parts.

Every case builds its mechanism from a request as a release would, with few features, encodes the rows with real coins
and adds real noise to the sums and to the count. The neighbours are the worst that there are: no record or one, one or
two, each with the largest integers; or a record and its opposite. Importing this module registers the cases.

The grid is audited exactly. With independent Laplace noise the loss of a record is the rate times the l1 norm of what
it changes, which the outputs without it and with it show, at the mechanism's own scale.

Users: whether one with more records than may count shows in the outputs. Rows of these cases have two columns, the user
and the point. Every run chooses the users' records as a release does, with real coins; all runs are chosen in one call,
in which a user of another run is another user.
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
    Outputs,
    at_small_scale,
    count_ratio,
    displacement,
    exact_case,
    extremes,
    largeness,
    likelihood_ratio,
    low_bits,
    noisy_counts,
    sizes,
)
from sfumato.central import fourier, fourier_gaussian, grid, lattice
from sfumato.engines.contributions import bounded
from sfumato.kernels import Gaussian, Kernel
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import LIMIT, Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.privacy.laws import NoiseLaw
from sfumato.published import lsq_rff
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.splines import POSITIONS
from sfumato.sources import attach, open_source

COUNT = "count"
SMOOTH = Gaussian(1.0)
SPACING = 0.8
RECORDS = 5  # of every user: more than count


def small_request(
    epsilon: int,
    neighbours: str = "add-remove",
    delta: float = 0.0,
    *,
    bounds: tuple[float, float] = (-8, 8),
    kernel: Kernel = SMOOTH,
    **facts: Any,
) -> Request:
    """Ask for little: one column and few records, unless `facts` say otherwise; what is no public fact is an option."""
    public: dict[str, Any] = {"dimension": 1, "n": 100, "delta": delta, "neighbours": neighbours, "bounds": bounds}
    public |= {name: facts.pop(name) for name in ("dimension", "n", "landmarks", "unit") if name in facts}
    return Request(kernel=kernel, epsilon=Fraction(epsilon), feature_seed=7, options=facts, **public)


def small_mechanism(method: str, *asked: Any, **facts: Any) -> Mechanism:
    """Build a mechanism with few features of one column, which leaves an attack few directions to guess."""
    return METHODS.build(method, small_request(*asked, **facts))


def count_epsilon(mechanism: Mechanism) -> Fraction:
    """Return what the count costs."""
    return Fraction(0) if mechanism.count_law is None else mechanism.count_law.epsilon


def sums_claim(mechanism: Mechanism) -> EpsilonClaim:
    """Return what is left of the claim for the sums."""
    return EpsilonClaim(float(mechanism.guarantee.epsilon - count_epsilon(mechanism)))


def losses_at_the_sums(law: NoiseLaw, inside: Integers, outside: Integers) -> tuple[Floats, Floats]:
    """Log laws at the two sums themselves, where every coordinate of the likelihood ratio is at its largest at once."""
    outputs = np.stack([inside, outside], axis=1)
    return log_weights(law, outputs - inside[:, None]), log_weights(law, outputs - outside[:, None])


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


def small_grid(neighbours: str = "add-remove", buckets: int | None = None, degree: int = 3) -> Mechanism:
    """Build a grid of two columns and six cells each."""
    hashed = {} if buckets is None else {"buckets": buckets}
    options = {"spacing": SPACING, "degree": degree, **hashed}
    return small_mechanism(grid.NAME, 1, neighbours, bounds=(0, 6 * SPACING), dimension=2, **options)


def every_position(mechanism: Mechanism) -> ExactCase:
    """Compare the sums without and with a record, for records at every position in a cell, or at opposite corners."""
    places = (np.arange(POSITIONS) + 0.5) * (SPACING / POSITIONS)

    def log_laws() -> tuple[Floats, Floats]:
        encode = mechanism.encoder.encode
        inside = encode(np.column_stack([places, places[::-1]]))
        outside = np.zeros_like(inside)
        if mechanism.guarantee.neighbours == "replace":
            outside = encode(np.column_stack([5 * SPACING + places, 5 * SPACING + places]))
        return losses_at_the_sums(mechanism.noise, inside, outside)

    kind = "buckets" if "buckets" in mechanism.parameters else "nodes"
    return ExactCase(
        f"exact, every position, {kind}, {mechanism.guarantee.neighbours}", sums_claim(mechanism), log_laws
    )


def exact_grid() -> list[ExactCase]:
    """Exact cases of `grid`."""
    return [every_position(small_grid(*arguments)) for arguments in (("add-remove",), ("replace",), ("add-remove", 16))]


def user_mechanism(method: str, epsilon: int, limit: int, delta: float = 0.0, **options: Any) -> Mechanism:
    """Build a mechanism for users with few features of one column."""
    return small_mechanism(method, epsilon, delta=delta, unit="user", **{LIMIT: limit}, **options)


def run_users(mechanism: Mechanism, rows: Floats, runs: int, bits: SecureBits) -> Outputs:
    """Run a mechanism many times on rows of users."""
    return run_limited(mechanism, rows, runs, bits, _limit(mechanism))


def run_limited(mechanism: Mechanism, rows: Floats, runs: int, bits: SecureBits, limit: int) -> Outputs:
    """Run a mechanism with any limit, be it the one that its noise is made for or not."""
    users = np.repeat(np.arange(runs), len(rows)) * len(rows) + np.tile(rows[:, 0].astype(np.int64), runs)
    source = attach(open_source(np.tile(rows[:, 1:], (runs, 1))), users)
    kept = np.concatenate([np.empty((0, 1)), *bounded(source, limit, bits).batches()])
    encoded = mechanism.encoder.encode(kept, bits)
    sums = encoded.reshape(runs, len(kept) // runs, mechanism.encoder.size).sum(axis=1)
    noise = mechanism.noise.sample(bits, sums.size).reshape(sums.shape)
    return Outputs(sums + noise, noisy_counts(mechanism, kept[: len(kept) // runs], runs, bits))


def one_more_user(mechanism: Mechanism, already: int = 0) -> CentralCase:
    """Whether one more user, whose records are all extreme, shows beside `already` others."""
    point, _ = extremes(mechanism.encoder)
    limit = _limit(mechanism)
    everybody = np.repeat(np.arange(already + 1), RECORDS)
    inside = np.column_stack([everybody, np.tile(point, (len(everybody), 1))])
    outside = inside[everybody < already]
    counted = [np.tile(point, (users * limit, 1)) for users in (already + 1, already)]
    claim = EpsilonClaim(float(mechanism.guarantee.epsilon), mechanism.guarantee.delta)
    name = f"{already} or {already + 1} users with {RECORDS} records, of which {limit} count"
    return CentralCase(name, mechanism, inside, outside, likelihood_ratio(mechanism, *counted), claim, run_users)


def user_cases() -> dict[str, CentralCase]:
    """Cases of the limit for each user, under every kind of noise."""
    return {
        "one more": one_more_user(user_mechanism(lsq_rff.NAME, 2, limit=3, n_features=1)),
        "second": one_more_user(user_mechanism(lsq_rff.NAME, 2, limit=2, n_features=1), already=1),
        "groups": one_more_user(user_mechanism(fourier.NAME, 2, limit=2, n_features=2, per_group=1)),
        "gaussian": one_more_user(user_mechanism(fourier_gaussian.NAME, 1, limit=3, delta=0.05, n_features=2)),
    }


def _limit(mechanism: Mechanism) -> int:
    assert mechanism.count_law is not None
    return mechanism.count_law.records


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
register_audit("users", lambda: [case.case() for case in user_cases().values()])
