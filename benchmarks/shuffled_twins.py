"""Broken twins of the bit sums and of shuffled collections, as (mechanism, mistake, case), for `benchmarks.twins`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from sfumato.audit import AuditCase, Case, EpsilonClaim
from sfumato.audit.cases import labels
from sfumato.audit.cases import shuffled as audits
from sfumato.audit.estimators import exact_delta
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.shuffled.bitsum import BitSum, Counts, calibrate
from sfumato.shuffled.bitsum.bit_sum import rate_below
from sfumato.shuffled.bitsum.published import _cheapest_flood
from sfumato.shuffled.bitsum.shares import negative_binomial
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials

LOW = Fraction(7, 10)
CLAIM = EpsilonClaim(float(audits.EPSILON), audits.DELTA)


@dataclass(frozen=True)
class WithoutFlood(ThreeNegativeBinomials):
    """3NB that leaves out N3, as circulating code does to save messages."""

    def _noise(self, count: int, secure: SecureBits, share: Fraction) -> Counts:
        up, down = (negative_binomial(secure, count, share, self.rate) for _ in range(2))
        return Counts(up, down)


@dataclass(frozen=True)
class SharedCoin(audits.SampledView):
    """All participants flip with the same coin: their noise does not add up."""

    def __call__(self, trials: int, bits: SecureBits) -> tuple[Integers, Integers]:
        flips = self.protocol.randomise(np.zeros((trials, 1), dtype=np.int64), bits).ones[:, 0]
        n = self.protocol.n
        zeros = n * flips
        return zeros, np.where(flips, zeros - 1, zeros + 1)


def _less_noise(protocol: BitSum) -> BitSum:
    parameters = protocol.parameters
    if "flip" in parameters:
        return replace(protocol, flip=parameters["flip"] * LOW)  # type: ignore[type-var]
    if "mean" in parameters:
        return replace(protocol, mean=parameters["mean"] * LOW**2)  # type: ignore[type-var]
    return replace(protocol, rate=parameters["rate"] / LOW)  # type: ignore[type-var]


def _sampled(name: str, statistic: audits.Statistic) -> Callable[[], Case]:
    def case() -> Case:
        return AuditCase("less noise", CLAIM, audits.SampledView(_less_noise(audits.small(name).protocol), statistic))

    return case


def _negative_binomial() -> Case:
    (case,) = audits.negative_binomial_cases()
    assert isinstance(case, AuditCase)
    return replace(case, sample=audits.SampledView(_less_noise(audits.small_negative_binomial()), audits.ones))


def _without_flood() -> Case:
    found = audits.small("3nb").protocol
    twin = WithoutFlood(n=found.n, **found.parameters)  # type: ignore[arg-type]
    return AuditCase("plus alone", CLAIM, audits.SampledView(twin, audits.ones))


def _one_number_of_ones() -> Case:
    """RR with the flips that suffice if about half of the others hold ones."""
    n, middle = audits.PARTICIPANTS, (audits.PARTICIPANTS - 1) // 2

    def excess(flip: float) -> float:
        first, second = audits.response_views(n, flip)
        return exact_delta(first[middle], second[middle], float(audits.EPSILON)) - audits.DELTA

    return audits.response_case(n, float(brentq(excess, 1e-3, 0.499)), CLAIM)


def _shared_coin() -> Case:
    return AuditCase("ones", CLAIM, SharedCoin(audits.small("rr").protocol, audits.ones))


def _pure_with_rho_1() -> Case:
    """Floods for twice the dropped bits that there are, which is what rho = 1 amounts to."""
    found = calibrate("pure", n=3, instances=1, epsilon=1).protocol
    assert isinstance(found, Pure)
    shape, rate, copies = _cheapest_flood(3, 1.0, 0.01, 2 * float(found.drop))
    twin = replace(found, copies=copies, flood_shape=shape, flood_rate=rate_below(rate))
    return audits.pure_case(twin, EpsilonClaim(1.0))


def _bundled() -> Case:
    claim = EpsilonClaim(float(audits.BUNDLE_EPSILON), audits.BUNDLE_DELTA)
    return AuditCase("bundles", claim, audits.small_collection(bundled=True))


def _one_instance_paid() -> Case:
    """Noise for one instance on all of them."""
    claim = EpsilonClaim(float(audits.BUNDLE_EPSILON), audits.BUNDLE_DELTA)
    found = audits.small_collection()
    single = calibrate("rr", n=8, instances=1, epsilon=audits.BUNDLE_EPSILON, delta=audits.BUNDLE_DELTA).protocol
    return AuditCase("one instance paid", claim, replace(found, group=replace(found.group, bitsum=single)))


def _few_participants() -> Case:
    """Half of the participants stay away."""
    claim = EpsilonClaim(float(audits.BUNDLE_EPSILON), audits.BUNDLE_DELTA)
    found = audits.small_collection()
    fewer = replace(found.group.bitsum, n=4)  # type: ignore[type-var]
    return AuditCase("half stay away", claim, replace(found, group=replace(found.group, bitsum=fewer)))


def _kept_too_often() -> Case:
    """Report the truth with probability e^e / (1 + e^e), whatever the number of classes."""
    keep = math.e / (1 + math.e)
    matrix = np.full((5, 5), (1 - keep) / 4) + np.eye(5) * (keep - (1 - keep) / 4)
    return labels.label_case(matrix, 1.0)


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    ("rr", "30 % fewer flips", _sampled("rr", audits.ones)),
    ("rr", "calibrated on one number of ones", _one_number_of_ones),
    ("rr", "one coin for all", _shared_coin),
    ("poisson", "30 % less noise", _sampled("poisson", audits.ones)),
    ("negative-binomial", "30 % less noise", _negative_binomial),
    ("3nb", "30 % less noise", _sampled("3nb", audits.difference)),
    ("3nb", "no N3", _without_flood),
    ("pure", "rho = 1", _pure_with_rho_1),
    ("shuffled", "bundled messages", _bundled),
    ("shuffled", "one instance paid for", _one_instance_paid),
    ("shuffled", "half of the participants stay away", _few_participants),
    ("labels", "the response of two classes for five", _kept_too_often),
    ("secure-aggregation", "one share of four", lambda: labels.aggregation_case("discrete-gaussian", 1)),
    ("secure-aggregation", "one Skellam share of four", lambda: labels.aggregation_case("skellam", 1)),
)
