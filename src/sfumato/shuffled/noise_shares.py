"""Shares of one noise for sites behind a secure aggregator: the accuracy of one curator, and no merger to trust.

Source: S. Goryczka, L. Xiong, "A Comprehensive Comparison of Multiparty Secure Additions with Differential Privacy",
2017, for shares of the discrete Laplace law; P. Kairouz, Z. Liu, T. Steinke, "The Distributed Discrete Gaussian
Mechanism for Federated Learning with Secure Aggregation", 2021, for those of the Gaussian. Each of m sites adds a share
to its exact sums (`central.parts`) and sends them modulo 2^64 to an aggregator that reveals the total and nothing else.
The aggregator is SIMULATED here, as in `shuffled.secure_aggregation`: what is promised is about its output.

Guarantee: that of the mechanism of the parts, if all m sites add their share and the aggregator shows the total alone.

`discrete-laplace`: a discrete Laplace number is the difference of two geometric counts of its rate, and a geometric
count is the sum of m negative binomial ones of shape 1/m. So m differences of those add up to the law, exactly.

`discrete-gaussian`: shares of deviation s = max(4, ceil(sigma / sqrt(m))). Their sum differs from one discrete Gaussian
of variance m s^2 >= sigma^2 by a factor of e^t at most at every point, t <= 10 (m - 1) exp(-pi^2 s^2) < 1e-58 for m up
to 2^16, which the calibration's rounding covers (`shuffled.secure_aggregation`).

Noise of other laws (discs, cubes, balls) is no sum of independent shares of a known law, and is refused.

Variance: that of the law, or m s^2. With a site that adds nothing the rest has shape (m - 1) / m, or variance
(m - 1) s^2: less than is promised, which is why all must.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.central.parts import Part, joint_mechanism, pay
from sfumato.errors import InputError
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import Integers, SecureBits, noise_bits
from sfumato.privacy.laws import MOST_SITES, NoiseLaw, SummedNoise
from sfumato.privacy.ledger import Account
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, wrapped
from sfumato.release import Count, Release
from sfumato.shuffled.bitsum.shares import checked_rates, negative_binomial

SMALLEST_SHARE = 4
MOST_WORDS = 1 << 30  # of secret bits for the shares of one site: some seconds
CONDITION = (
    "in place of a trusted merger, a secure aggregator reveals the total of all {} sites and nothing else (it was "
    "simulated), and every site adds its share of the noise"
)


@dataclass(frozen=True)
class NoiseShares:
    """One law cut into shares.

    Attributes
    ----------
    law : DiscreteLaplace or DiscreteGaussian
        The law of the whole.
    sites : int
        How many shares.

    Examples
    --------
    >>> shares = NoiseShares(DiscreteLaplace(Fraction(1, 10)), sites=4)
    >>> shares.total == shares.law, shares.sample(SecureBits(), 3).shape
    (True, (3,))
    """

    law: NoiseLaw
    sites: int

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= MOST_SITES:
            raise InputError(f"noise is shared by 1 to {MOST_SITES} sites, not {self.sites}")
        if isinstance(self.law, DiscreteLaplace):
            checked_rates(self.law.rate)
        elif not isinstance(self.law, DiscreteGaussian):
            raise InputError(
                f"noise of the law {self.law.to_document()['law']} does not divide into shares: choose a method with "
                "discrete Laplace or Gaussian noise, merge parts at a trusted site, or merge releases of the sites"
            )

    @property
    def deviation(self) -> int:
        """Deviation of one share of Gaussian noise."""
        assert isinstance(self.law, DiscreteGaussian)
        return max(SMALLEST_SHARE, math.isqrt(-(-(self.law.sigma**2) // self.sites) - 1) + 1)

    def check_work(self, count: int) -> None:
        """Refuse shares of so many numbers that drawing them would take minutes."""
        if isinstance(self.law, DiscreteLaplace) and count / self.law.rate > MOST_WORDS:
            raise InputError(
                "shares of discrete Laplace noise take as many steps as the noise is large, which is too long here: "
                "choose a method with Gaussian noise (delta > 0), or a coarser one (race)"
            )

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Draw one site's share of `count` numbers."""
        if isinstance(self.law, DiscreteLaplace):
            shape, rate = Fraction(1, self.sites), self.law.rate
            return negative_binomial(bits, count, shape, rate) - negative_binomial(bits, count, shape, rate)
        return DiscreteGaussian(self.deviation).sample(bits, count)

    @property
    def total(self) -> NoiseLaw:
        """Law of all shares together."""
        if isinstance(self.law, DiscreteLaplace):
            return self.law
        return SummedNoise((DiscreteGaussian(self.deviation),) * self.sites)


def aggregate_parts(
    parts: Sequence[Part], *, ledger: Account | None = None, random_state: int | None = None
) -> Release:
    """Release the parts of all sites as a secure aggregator would, each with its share of the noise.

    Parameters
    ----------
    parts, ledger, random_state
        As in `merge_parts`.

    Examples
    --------
    >>> from sfumato import Part, PrivateKDE
    >>> rows = np.random.default_rng(0).normal(size=(4000, 2))
    >>> model = PrivateKDE(bandwidth=1.0, epsilon=1, delta=1e-6, method="fourier-gaussian", n_hint=4000, feature_seed=1)
    >>> release = aggregate_parts([Part.of(model, rows[:1000]), Part.of(model, rows[1000:])])
    >>> "secure aggregator" in release.guarantee.conditions[-1]
    True
    """
    mechanism, bits = joint_mechanism(parts, private=random_state is None), noise_bits(random_state)
    if mechanism.algorithm is not None:
        raise InputError(f"{mechanism.method} does more than add noise to sums, which sites cannot share")
    shares = NoiseShares(mechanism.noise, len(parts))
    counts = None if mechanism.count_law is None else NoiseShares(mechanism.count_law, len(parts))
    shares.check_work(mechanism.encoder.size)
    guarantee = mechanism.guarantee
    conditions = (*guarantee.conditions, CONDITION.format(len(parts)))
    mechanism = replace(mechanism, guarantee=replace(guarantee, conditions=conditions), noise=shares.total)
    pay(parts, mechanism, ledger)
    total, kept = np.zeros(mechanism.encoder.size, dtype=np.int64), 0
    for part in parts:  # the aggregator's sum, modulo 2^64
        total += part.sums + shares.sample(bits, len(total))
        kept += part.kept + (0 if counts is None else int(counts.sample(bits, 1)[0]))
    release = mechanism.release(total, _count(mechanism, parts, total, kept))
    return replace(release, columns=parts[0].columns, sampled=parts[0].sampled)


def _count(mechanism: Mechanism, parts: Sequence[Part], values: Integers, noisy: int) -> Count:
    if mechanism.count_reader is not None:
        return mechanism.count_reader(values)
    if mechanism.count_law is None:
        public = mechanism.guarantee.neighbours == "replace"
        return Count(max(sum(part.seen for part in parts), 1) if public else 1, 0.0, public=public)
    return Count(max(wrapped(noisy), 1), mechanism.count_law.variance, public=False)
