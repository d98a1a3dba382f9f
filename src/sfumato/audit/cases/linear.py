"""Audit of the linear classifier; importing this module registers it.

One step of a training in one column with two classes, at weights that misjudge the record most: its gradient is as long
as it can be. The attacker knows the gradient and looks along it, which is the best test of Gaussian noise. The claim is
the mu of one step; steps compose by the sum of squares, which is a theorem and not a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from sfumato.audit import AuditCase, Case, MuClaim, register_audit
from sfumato.audit.case import Samples
from sfumato.learn.linear import Plan
from sfumato.learn.softmax import LARGEST_WEIGHT, Features, Gradient
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.quantizers.base import Floats, Integers

LINEAR = "classifier-linear"
Encode = Callable[[Gradient, Floats], Integers]


@dataclass(frozen=True)
class StepCase:
    """One record more or less in a noisy gradient; a broken twin has another `noise` or `encode`."""

    name: str
    gradient: Gradient
    noise: DiscreteGaussian
    claim: MuClaim
    row: Floats
    encode: Encode = Gradient.encode

    def sample(self, trials: int, bits: SecureBits) -> Samples:
        """Run with and without the record, and look along its gradient."""
        shift = self.encode(self.gradient, self.row)[0].astype(np.float64)
        along = shift / np.linalg.norm(shift)
        noise = self.noise.sample(bits, 2 * trials * len(shift)).reshape(2, trials, len(shift))
        return (noise[0] + shift) @ along, noise[1] @ along

    def case(self) -> AuditCase:
        """Return the case as `sfumato.audit` takes it."""
        return AuditCase(self.name, self.claim, self.sample)


@cache
def step_cases() -> dict[str, StepCase]:
    """Cases of one step, with and without a large weight against the record."""
    plan = Plan.of(epsilon=4, delta=1e-3, n=100, dimension=1, classes=2, buys_center=False, options={"steps": 1})
    weights = np.array([[-LARGEST_WEIGHT, LARGEST_WEIGHT], [0, 0]])
    gradient = Gradient(Features.within(None, np.zeros(1), 1.0), weights, plan.share)
    claim = MuClaim(math.sqrt(gradient.l2_squared) / plan.noise.sigma)
    worst = StepCase("a record misjudged", gradient, plan.noise, claim, np.array([[1.0, 0.0]]))
    far = StepCase("a record far outside", gradient, plan.noise, claim, np.array([[1e200, 0.0]]))
    return {"worst": worst, "far": far}


register_audit(LINEAR, lambda: [case.case() for case in step_cases().values()])


def _little_noise() -> Case:
    """Add noise that is 30 % too low."""
    case = step_cases()["worst"]
    return replace(case, noise=DiscreteGaussian(round(0.7 * case.noise.sigma))).case()


def _not_cut(gradient: Gradient, rows: Any) -> Any:
    points = gradient.features.integers(rows[:, :-1])
    return (points[:, :, None] * np.array([-gradient.share, gradient.share])).reshape(len(points), -1)


def _residual_not_cut() -> Case:
    """Leave the residual of a misjudged record as long as it is, the root of two."""
    return replace(step_cases()["worst"], encode=_not_cut).case()


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (LINEAR, "noise 30 % low", _little_noise),
    (LINEAR, "residuals not cut", _residual_not_cut),
)
