"""Audits of ball noise: inner products of two columns, where noise for the ball has less variance than Laplace noise.

In one column the two laws are the same, so the cases need the plane: one record of full length or none, with the best
attack there is, and at a small integer scale every record on a fine circle against every output near it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from sfumato.audit import EpsilonClaim, ExactCase, log_weights
from sfumato.audit.attacks import CentralCase, likelihood_ratio
from sfumato.central import inner_product
from sfumato.kernels import InnerProduct
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.ball import BallNoise
from sfumato.quantizers import InnerProductQuantizer
from sfumato.quantizers.base import Floats

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
