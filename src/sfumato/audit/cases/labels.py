"""Audits of the two parts of a collection that are no bit sums: reported labels and secure aggregation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.audit import AuditCase, Case, EpsilonClaim, ExactCase, register_audit
from sfumato.audit.claims import Samples
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Floats
from sfumato.shuffled.labels import LabelResponse
from sfumato.shuffled.secure_aggregation import MODULUS, SecureAggregation

PEOPLE, EPSILON, DELTA = 4, 1, 1e-2
# Sampling Skellam shares takes time in proportion to their variance, which falls with the square of epsilon.
EPSILONS, MOST_RUNS = {"discrete-gaussian": EPSILON, "skellam": 3}, {"discrete-gaussian": 10**6, "skellam": 20_000}


def label_case(matrix: Floats, epsilon: float) -> ExactCase:
    """All reports for every two true classes, M[reported, true]."""
    first, second = np.triu_indices(len(matrix), 1)
    return ExactCase(
        "every two classes", EpsilonClaim(epsilon), lambda: (np.log(matrix.T[first]), np.log(matrix.T[second]))
    )


def label_cases() -> list[Case]:
    """Two classes, and many."""
    return [label_case(LabelResponse(tuple(range(classes)), EPSILON).matrix, float(EPSILON)) for classes in (2, 5)]


@dataclass(frozen=True)
class SampledSums:
    """The aggregator's output if one participant is at one end of a line or at the other, and all others in the middle.

    Attributes
    ----------
    protocol : SecureAggregation
        Of inner products in one column.
    people : int
        Who add shares of noise: as many as the protocol needs, or fewer in a broken twin.
    """

    protocol: SecureAggregation
    people: int

    def __call__(self, trials: int, bits: SecureBits) -> Samples:
        """Add up shares."""
        first, second = (self._totals(end, min(trials, MOST_RUNS[self.protocol.noise]), bits) for end in (1.0, -1.0))
        return first, second

    def _totals(self, end: float, trials: int, bits: SecureBits) -> NDArray[np.float64]:
        crowd = np.zeros((trials * self.people, 1))
        crowd[:: self.people] = end
        totals = self.protocol.shares(crowd, bits).reshape(trials, self.people, -1)[:, :, 0].sum(axis=1) % MODULUS
        return np.asarray((totals + MODULUS // 2) % MODULUS - MODULUS // 2, dtype=np.float64)


def small_aggregation(noise: str) -> SecureAggregation:
    """Build a collection of few participants and one column."""
    return SecureAggregation(
        "inner-product", dimension=1, epsilon=EPSILONS[noise], delta=DELTA, participants=PEOPLE, noise=noise, seed=5
    )


def aggregation_case(noise: str, people: int) -> AuditCase:
    """Return the case of so many participants under the promise for `PEOPLE` of them."""
    return AuditCase(noise, EpsilonClaim(float(EPSILONS[noise]), DELTA), SampledSums(small_aggregation(noise), people))


register_audit("labels", label_cases)
register_audit(
    "secure-aggregation", lambda: [aggregation_case(noise, PEOPLE) for noise in ("discrete-gaussian", "skellam")]
)
