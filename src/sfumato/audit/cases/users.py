"""Audits of the limit for each user: whether a user with more records than may count shows in the outputs.

Rows of these cases have two columns, the user and the point. Every run chooses the users' records as a release does,
with real coins; all runs are chosen in one call, in which a user of another run is another user.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit import EpsilonClaim, register_audit
from sfumato.audit.attacks import CentralCase, Outputs, extremes, likelihood_ratio, noisy_counts
from sfumato.central import fourier, fourier_gaussian
from sfumato.engines.contributions import bounded
from sfumato.kernels import Gaussian
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import LIMIT, Request
from sfumato.privacy.bits import SecureBits
from sfumato.published import lsq_rff
from sfumato.quantizers.base import Floats
from sfumato.sources import attach, open_source

RECORDS = 5  # of every user: more than count


def user_mechanism(method: str, epsilon: int, limit: int, delta: float = 0.0, **options: Any) -> Mechanism:
    """Build a mechanism for users with few features of one column."""
    request = Request(
        kernel=Gaussian(1.0),
        dimension=1,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        delta=delta,
        bounds=(-8, 8),
        options={LIMIT: limit, **options},
        unit="user",
    )
    return METHODS.build(method, request)


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


register_audit("users", lambda: [case.case() for case in user_cases().values()])
