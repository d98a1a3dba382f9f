"""Audits of projections, the public step before a method; importing this module registers them.

Two columns become one: a projected `lsq-rff`, whose records' images decide what is summed.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from sfumato.audit import EpsilonClaim
from sfumato.audit.attacks import CentralCase, likelihood_ratio
from sfumato.audit.cases.central import register_central
from sfumato.kernels import Gaussian
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.published import lsq_rff
from sfumato.quantizers.base import Floats

NAME = "projection"
SIDE = np.linspace(-8.0, 8.0, 161)
ALREADY = 8


def small_projection(kind: str) -> Mechanism:
    """Build `lsq-rff` with two features on one projected column."""
    request = Request(
        kernel=Gaussian(1.0),
        dimension=2,
        epsilon=Fraction(1),
        n=100,
        feature_seed=7,
        bounds=(-8, 8),
        options={"project": kind, "project_to": 1, "n_features": 2},
    )
    return METHODS.build(lsq_rff.NAME, request)


def _extreme(mechanism: Mechanism) -> Floats:
    """Return the point of the box whose integers are largest."""
    rows = np.stack(np.meshgrid(SIDE, SIDE), axis=-1).reshape(-1, 2)
    return rows[[int(np.argmax(np.abs(mechanism.encoder.encode(rows)).sum(axis=1)))]]


def _case(kind: str, already: int) -> CentralCase:
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
        "one more": _case("dense", 0),
        "fast": _case("fast", 0),
        "others": _case("dense", ALREADY),
    }


register_central(NAME, projection_cases)
