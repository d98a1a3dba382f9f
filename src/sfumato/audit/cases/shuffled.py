"""Audits of the bit sums and of a whole shuffled collection, on numbers of participants that are small enough.

Exact cases list every view of the analyzer from what each participant does, for all that the others may hold. Sampled
ones run the randomizers themselves. Two parts of a collection are no bit sums: reported labels and secure aggregation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sfumato.audit import AuditCase, Case, EpsilonClaim, ExactCase, register_audit
from sfumato.audit.case import Samples
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.quantizers.base import Floats
from sfumato.shuffled.bitsum import BitSum, Calibration, Counts, calibrate
from sfumato.shuffled.bitsum.search import Search
from sfumato.shuffled.bitsum.signed import Pure
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise
from sfumato.shuffled.groups import Group
from sfumato.shuffled.labels import LabelResponse
from sfumato.shuffled.protocol import Protocol
from sfumato.shuffled.secure_aggregation import MODULUS, SecureAggregation

PARTICIPANTS, EPSILON, DELTA = 6, 1, 1e-2
INSTANCES, BUNDLE_EPSILON, BUNDLE_DELTA = 6, 2, 1e-2
_SIZE = 280  # of the views of `pure` that are listed, each way
_BLOCK = 1 << 22

Statistic = Callable[[Counts], NDArray[np.float64]]


def small(name: str) -> Calibration:
    """Calibrate a bit sum for few participants and one instance."""
    return calibrate(name, n=PARTICIPANTS, instances=1, epsilon=EPSILON, delta=0.0 if name == "pure" else DELTA)


def response_views(n: int, flip: float) -> Samples:
    """Log probabilities of the number of ones, the last bit being 0 and 1, for every number of ones before it."""
    flipped = [np.array([1 - flip, flip]), np.array([flip, 1 - flip])]
    others = [reduce(np.convolve, [flipped[1]] * k + [flipped[0]] * (n - 1 - k), np.ones(1)) for k in range(n)]
    first, second = (np.log([np.convolve(law, last) for law in others]) for last in flipped)
    return first, second


def response_case(n: int, flip: float, claim: EpsilonClaim) -> ExactCase:
    """All views of one instance of randomised response."""
    return ExactCase("one bit, whatever the others hold", claim, lambda: response_views(n, flip))


def pure_case(protocol: Pure, claim: EpsilonClaim) -> ExactCase:
    """All views of the pure protocol below a size, whatever the others hold."""
    return ExactCase("one bit, whatever the others hold", claim, lambda: pure_views(protocol))


def pure_views(protocol: Pure) -> Samples:
    """Log probabilities of (plus, minus) with the last bit 0 and 1, a row for each number of ones among the others."""
    noise, drop, copies = _pure_noise(protocol), float(protocol.drop), protocol.copies

    def view(bits: Sequence[int]) -> Floats:
        law = noise
        for bit in bits:
            kept = np.zeros_like(law)
            kept[copies + bit :, copies:] = law[: _SIZE - copies - bit, : _SIZE - copies]
            law = drop * law + (1 - drop) * kept
        return np.where(law > 1e-280, law, 0.0).ravel()

    others = [[1] * ones + [0] * (protocol.n - 1 - ones) for ones in range(protocol.n)]
    with np.errstate(divide="ignore"):
        first, second = (np.log([view([*rest, bit]) for rest in others]) for bit in (0, 1))
    return first, second


def _pure_noise(protocol: Pure) -> Floats:
    counts = np.arange(_SIZE)
    geometric = stats.nbinom.pmf(counts, 1, -math.expm1(-float(protocol.rate)))
    flood = stats.nbinom.pmf(counts, protocol.flood_shape, -math.expm1(-float(protocol.flood_rate)))
    both, law = np.outer(geometric, geometric), np.zeros((_SIZE, _SIZE))
    for pairs in range(_SIZE):
        law[pairs:, pairs:] += flood[pairs] * both[: _SIZE - pairs, : _SIZE - pairs]
    return law


@dataclass(frozen=True)
class SampledView:
    """One bit against the other, the others holding zeros: what a statistic of one instance's counts tells."""

    protocol: BitSum
    statistic: Statistic

    def __call__(self, trials: int, bits: SecureBits) -> Samples:
        """Run the randomizers."""
        worlds = []
        for bit in (0, 1):
            held = np.zeros((trials, self.protocol.n), dtype=np.int64)
            held[:, -1] = bit
            sent = self.protocol.randomise(held, bits)
            worlds.append(self.statistic(Counts(sent.ones.sum(axis=1), sent.zeros.sum(axis=1))))
        return worlds[0], worlds[1]


def ones(counts: Counts) -> NDArray[np.float64]:
    """Count the ones."""
    return counts.ones.astype(np.float64)


def difference(counts: Counts) -> NDArray[np.float64]:
    """Return ones less zeros."""
    return (counts.ones - counts.zeros).astype(np.float64)


@dataclass(frozen=True)
class SampledCollection:
    """A whole collection: one participant at one of two points, the others at a third; the attacker adds up messages.

    The attacker weighs every instance by what it tells about the two points, which is best where the noise is wide.
    With `bundled`, the messages of a participant are seen together, and the likelihood of each bundle counts.
    """

    protocol: Protocol
    group: Group
    points: NDArray[np.float64]
    bundled: bool = False

    def __call__(self, trials: int, bits: SecureBits) -> Samples:
        """Run rounding and randomizers."""
        first, second = self._chances(0), self._chances(1)
        return self._statistics(0, trials, bits, first - second), self._statistics(1, trials, bits, first - second)

    def _chances(self, which: int) -> Floats:
        """Probability of a one of every instance if the participant is at this point, after the randomizer."""
        features = self.protocol.features
        flip = float(self.group.bitsum.parameters["flip"])
        chance = (features.quantizer.encode(self.points[which : which + 1])[0] / features.largest + 1) / 2
        return np.asarray(flip + (1 - 2 * flip) * chance)

    def _statistics(self, which: int, trials: int, bits: SecureBits, weights: Floats) -> NDArray[np.float64]:
        n, size = self.group.participants, self.protocol.features.instances
        crowd = np.vstack([np.tile(self.points[2], (n - 1, 1)), self.points[which]])
        block, parts = max(1, _BLOCK // (n * size)), []
        for start in range(0, trials, block):
            runs = min(block, trials - start)
            rounded = self.protocol.features.bits(np.tile(crowd, (runs, 1)), bits)
            sent = self.group.bitsum.randomise(rounded, bits).ones.reshape(runs, n, size)
            parts.append(self._bundles(sent) if self.bundled else sent.sum(axis=1) @ weights)
        return np.concatenate(parts)

    def _bundles(self, sent: Integers) -> NDArray[np.float64]:
        """Log ratio of the two worlds from the bundles, of which nobody knows whose is whose."""
        first, second, other = self._chances(0), self._chances(1), self._chances(2)

        def log_likelihood(chance: Floats) -> NDArray[np.float64]:
            return np.asarray(sent @ np.log(chance) + (1 - sent) @ np.log1p(-chance))

        beside = log_likelihood(other)
        ratios = [np.logaddexp.reduce(log_likelihood(chance) - beside, axis=1) for chance in (first, second)]
        return np.asarray(ratios[0] - ratios[1])


def small_collection(bundled: bool = False) -> SampledCollection:
    """Build a collection of eight participants and six signs of one number, the worst case: every bit may change."""
    protocol = Protocol(
        "inner-product",
        quantizer="inner-product-signs",
        dimension=1,
        epsilon=BUNDLE_EPSILON,
        delta=BUNDLE_DELTA,
        participants=8,
        instances=INSTANCES,
        seed=9,
    )
    return SampledCollection(protocol, protocol.groups[0], np.array([[1.0], [-1.0], [-1.0]]), bundled)


def _claim(found: Calibration) -> EpsilonClaim:
    return EpsilonClaim(float(found.epsilon), found.delta)


def rr_cases() -> list[Case]:
    """Exact views, and the randomizer's own."""
    found = small("rr")
    flip = float(found.parameters["flip"])
    return [
        response_case(PARTICIPANTS, flip, _claim(found)),
        AuditCase("ones", _claim(found), SampledView(found.protocol, ones)),
    ]


def poisson_cases() -> list[Case]:
    """Only ones are sent."""
    found = small("poisson")
    return [AuditCase("ones", _claim(found), SampledView(found.protocol, ones))]


def small_negative_binomial() -> NegativeBinomialNoise:
    """Return noise of a small shape, which is sampled quickly."""
    return NegativeBinomialNoise(3, 8, Fraction(3, 4))


def negative_binomial_cases() -> list[Case]:
    """Only ones are sent; the claim is what is certified for these parameters."""
    protocol = small_negative_binomial()
    certified = Search(protocol.n, 1, float(EPSILON), DELTA).certify(protocol)
    return [AuditCase("ones", EpsilonClaim(float(EPSILON), certified), SampledView(protocol, ones))]


def three_nb_cases() -> list[Case]:
    """Look at the difference of the signs, and at the number of +1, which the flood hides."""
    found = small("3nb")
    return [
        AuditCase("difference", _claim(found), SampledView(found.protocol, difference)),
        AuditCase("plus alone", _claim(found), SampledView(found.protocol, ones)),
    ]


def pure_cases() -> list[Case]:
    """Exact views."""
    found = calibrate("pure", n=3, instances=1, epsilon=1)
    assert isinstance(found.protocol, Pure)
    return [pure_case(found.protocol, _claim(found))]


def collection_cases() -> list[Case]:
    """All messages of a collection."""
    claim = EpsilonClaim(float(BUNDLE_EPSILON), BUNDLE_DELTA)
    return [AuditCase("weighted counts of all instances", claim, small_collection())]


register_audit("rr", rr_cases)
register_audit("poisson", poisson_cases)
register_audit("negative-binomial", negative_binomial_cases)
register_audit("3nb", three_nb_cases)
register_audit("pure", pure_cases)
register_audit("shuffled", collection_cases)


PEOPLE = 4
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
