"""Exact audits of the spline grid: the loss of every record is the rate times the l1 norm of what it changes.

With independent Laplace noise the most telling outputs are the two sums themselves: there every coordinate of the
likelihood ratio is at its largest at once. So the outputs without a record and with it show the exact loss, at the
mechanism's own scale.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.audit import EpsilonClaim, ExactCase, log_weights
from sfumato.central import grid
from sfumato.kernels import Gaussian
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.quantizers.base import Floats
from sfumato.quantizers.splines import POSITIONS

SPACING = 0.8


def small_grid(neighbours: str = "add-remove", buckets: int | None = None, degree: int = 3) -> Mechanism:
    """Build a grid of two columns and six cells each."""
    hashed = {} if buckets is None else {"buckets": buckets}
    request = Request(
        kernel=Gaussian(1.0),
        dimension=2,
        epsilon=Fraction(1),
        n=100,
        feature_seed=7,
        neighbours=neighbours,
        bounds=(0, 6 * SPACING),
        options={"spacing": SPACING, "degree": degree, **hashed},
    )
    return METHODS.build(grid.NAME, request)


def every_position(mechanism: Mechanism) -> ExactCase:
    """Compare the sums without and with a record, for records at every position in a cell, or at opposite corners."""
    places = (np.arange(POSITIONS) + 0.5) * (SPACING / POSITIONS)
    count = Fraction(0) if mechanism.count_law is None else mechanism.count_law.epsilon
    claim = EpsilonClaim(float(mechanism.guarantee.epsilon - count))

    def log_laws() -> tuple[Floats, Floats]:
        encode = mechanism.encoder.encode
        inside = encode(np.column_stack([places, places[::-1]]))
        outside = np.zeros_like(inside)
        if mechanism.guarantee.neighbours == "replace":
            outside = encode(np.column_stack([5 * SPACING + places, 5 * SPACING + places]))
        outputs, law = np.stack([inside, outside], axis=1), mechanism.noise
        return log_weights(law, outputs - inside[:, None]), log_weights(law, outputs - outside[:, None])

    kind = "buckets" if "buckets" in mechanism.parameters else "nodes"
    return ExactCase(f"exact, every position, {kind}, {mechanism.guarantee.neighbours}", claim, log_laws)


def exact_grid() -> list[ExactCase]:
    """Exact cases of `grid`."""
    return [every_position(small_grid(*arguments)) for arguments in (("add-remove",), ("replace",), ("add-remove", 16))]
