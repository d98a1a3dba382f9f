"""Runs of central mechanisms on neighbouring data sets, and what an attacker computes from their outputs.

`likelihood_ratio` is the best test of an attacker who knows everything but the one record (Neyman and Pearson),
averaged over the coins; it comes close to the claim where few features leave few directions. `displacement` asks
whether other records move when one is removed, `largeness` whether a record reaches where noise alone cannot,
`low_bits` whether the outputs' last digits tell which noise was added.

Exact audits list the probabilities of all outputs near the data, at a small integer scale, for every input.

A mechanism's integers are scaled down to a radius of a few units, where every input and every output can be listed. Its
noise is scaled so that sensitivity times rate stays what the mechanism chose (or, for Gaussian noise, calibrated
again), so a bound that is too small by one, or a table that leaves its disc, shows as a loss above the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sfumato.audit import AuditCase, EpsilonClaim, ExactCase, MuClaim, log_weights
from sfumato.errors import InputError
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import DiscNoise
from sfumato.privacy.gaussian import calibrate
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.quantizers import Bound, CheckedLandmarks, ExponentialSums, FourierQuantizer, ShardedFourier
from sfumato.quantizers.base import Encoder, Floats, Integers

RUNS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Outputs:
    """What many runs of a mechanism published: sums, shape (runs, size), and noisy counts, None if n is public."""

    values: NDArray[Any]
    counts: NDArray[Any] | None


Run = Callable[[Mechanism, Floats, int, SecureBits], Outputs]
Statistic = Callable[[Outputs], Floats]


def run(mechanism: Mechanism, rows: Floats, runs: int, bits: SecureBits) -> Outputs:
    """Run a mechanism many times on the same rows, which must lie in its box."""
    sums = encoded_sums(mechanism.encoder, rows, runs, bits)
    noise = mechanism.noise.sample(bits, sums.size).reshape(sums.shape)
    return Outputs(sums + noise, noisy_counts(mechanism, rows, runs, bits))


def noisy_counts(mechanism: Mechanism, rows: Floats, runs: int, bits: SecureBits) -> Integers | None:
    """Draw the counts of many runs, not raised to 1 as for publication: the attacker sees more than a release shows."""
    law = mechanism.count_law
    return None if law is None else len(rows) + law.sample(bits, runs)


def encoded_sums(quantizer: Encoder, rows: Floats, runs: int, bits: SecureBits) -> Integers:
    """Exact sums of the rows' integers, shape (runs, size), with fresh coins for every run.

    All runs are encoded in one call. That equals a call for each run, because each row alone decides its integers.
    """
    encoded = quantizer.encode(np.tile(rows, (runs, 1)), bits)
    return np.asarray(encoded.reshape(runs, len(rows), quantizer.size).sum(axis=1))


@dataclass(frozen=True)
class CentralCase:
    """A mechanism, two neighbouring data sets and an attack; a broken twin is the same case with another `run`."""

    name: str
    mechanism: Mechanism
    inside: Floats
    outside: Floats
    statistic: Statistic
    claim: EpsilonClaim | MuClaim
    run: Run = run

    def sample(self, trials: int, bits: SecureBits) -> tuple[Floats, Floats]:
        """Statistics of `trials` runs on either data set, in portions that fit the memory."""
        portions = [min(RUNS_AT_ONCE, trials - start) for start in range(0, trials, RUNS_AT_ONCE)]

        def statistics(rows: Floats) -> Floats:
            return np.concatenate([self.statistic(self.run(self.mechanism, rows, runs, bits)) for runs in portions])

        return statistics(self.inside), statistics(self.outside)

    def case(self) -> AuditCase:
        """Return the case as `sfumato.audit` takes it."""
        return AuditCase(self.name, self.claim, self.sample)


@dataclass(frozen=True)
class _Chosen:
    """Coins that put every row into one group."""

    group: int

    def below(self, bound: int, count: int) -> Integers:
        return np.full(count, self.group, dtype=np.int64)


def features(quantizer: Encoder, rows: Floats) -> Integers:
    """Integers of the rows, for groups: what each row adds to whichever group it falls into."""
    if isinstance(quantizer, ExponentialSums | CheckedLandmarks):
        return np.concatenate([features(part, rows) for part in quantizer.parts], axis=1)
    if not isinstance(quantizer, ShardedFourier):
        return quantizer.encode(rows)
    chosen = [cast(SecureBits, _Chosen(group)) for group in range(quantizer.groups)]
    return np.asarray(sum(quantizer.encode(rows, coins) for coins in chosen))


def grouped_sum(quantizer: ShardedFourier, rows: Floats, groups: tuple[int, ...]) -> Integers:
    """Sum of the rows' integers if they fall into these groups."""
    each = features(quantizer, rows).reshape(len(rows), quantizer.groups, 2 * quantizer.per_group)
    sums = np.zeros(each.shape[1:], dtype=np.int64)
    for row, group in enumerate(groups):
        sums[group] += each[row, group]
    return sums.reshape(-1)


def possible_sums(quantizer: Encoder, rows: Floats) -> Integers:
    """All sums that the coins can give, equally likely, shape (possibilities, size)."""
    if isinstance(quantizer, ExponentialSums | CheckedLandmarks):
        each = [possible_sums(part, rows) for part in quantizer.parts]
        return np.stack([np.concatenate(chosen) for chosen in product(*each)])
    if not isinstance(quantizer, ShardedFourier):
        return np.asarray(quantizer.encode(rows).sum(axis=0, keepdims=True))
    choices = product(range(quantizer.groups), repeat=len(rows))
    return np.stack([grouped_sum(quantizer, rows, groups) for groups in choices])


def likelihood_ratio(mechanism: Mechanism, inside: Floats, outside: Floats) -> Statistic:
    """Attack by the logarithm of the outputs' likelihood under the one data set over that under the other."""
    sums = [possible_sums(mechanism.encoder, rows) for rows in (inside, outside)]
    count_part = count_ratio(mechanism, inside, outside)

    def log_likelihood(outputs: Outputs, possible: Integers) -> Floats:
        each = np.stack([log_weights(mechanism.noise, outputs.values - one) for one in possible])
        return np.asarray(logsumexp(each, axis=0) - math.log(len(possible)))

    def statistic(outputs: Outputs) -> Floats:
        return log_likelihood(outputs, sums[0]) - log_likelihood(outputs, sums[1]) + count_part(outputs)

    return statistic


def count_ratio(mechanism: Mechanism, inside: Floats, outside: Floats) -> Statistic:
    """Attack by the count alone; no attack where n is public."""

    def statistic(outputs: Outputs) -> Floats:
        if mechanism.count_law is None or outputs.counts is None:
            return np.zeros(len(outputs.values))
        away = [(outputs.counts - len(rows))[:, None] for rows in (inside, outside)]
        return log_weights(mechanism.count_law, away[0]) - log_weights(mechanism.count_law, away[1])

    return statistic


def displacement(mechanism: Mechanism, inside: Floats, outside: Floats) -> Statistic:
    """Attack along the way that the sums would move if a row's group were its position."""
    quantizer = mechanism.encoder
    if not isinstance(quantizer, ShardedFourier):
        raise InputError(f"{mechanism.method} has no groups")
    sums = [
        grouped_sum(quantizer, rows, tuple(row % quantizer.groups for row in range(len(rows))))
        for rows in (inside, outside)
    ]
    change = (sums[0] - sums[1]).astype(np.float64)
    return lambda outputs: np.asarray(outputs.values @ change)


def largeness(mechanism: Mechanism) -> Statistic:
    """Attack by how improbable the sums would be as noise alone."""
    return lambda outputs: -log_weights(mechanism.noise, outputs.values)


def low_bits(outputs: Outputs) -> Floats:
    """Attack by the most binary digits behind the point of any sum: none, where noise is an integer."""
    mantissa, exponent = np.frexp(outputs.values.astype(np.float64))
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    _, lowest = np.frexp((digits & -digits).astype(np.float64))
    behind = np.where(digits == 0, 0, np.maximum(54 - exponent - lowest, 0))
    return np.asarray(behind.max(axis=1), dtype=np.float64)


def extremes(quantizer: Encoder) -> tuple[Floats, Floats]:
    """Find a row whose integers are as large as any, and the row most unlike it, for points of one column."""
    rows = scan(quantizer)
    encoded = features(quantizer, rows).astype(np.float64)
    first = int(np.argmax(np.abs(encoded).sum(axis=1)))
    second = int(np.argmax(np.square(encoded - encoded[first]).sum(axis=1)))
    return rows[first : first + 1], rows[second : second + 1]


def scan(quantizer: Encoder) -> Floats:
    """Rows that cover a box of one column."""
    (low,), (high,) = quantizer.box.lower, quantizer.box.upper
    return np.linspace(low, high, 20_001)[:, None]


def sizes(mechanism: Mechanism) -> str:
    """Say how many features a mechanism has, for names of cases."""
    quantizer = mechanism.encoder
    groups = f" in {quantizer.groups} groups" if isinstance(quantizer, ShardedFourier) and quantizer.groups > 1 else ""
    terms = mechanism.reader.terms
    return f"{terms} feature{'s' if terms > 1 else ''}{groups}"


SMALL_RADIUS = 4
COUNTS = np.arange(-1, 3)


def at_small_scale(mechanism: Mechanism, radius: int = SMALL_RADIUS) -> Mechanism:
    """Return the mechanism with integers up to `radius` and noise in proportion."""
    quantizer = mechanism.encoder
    if not isinstance(quantizer, FourierQuantizer | ShardedFourier):
        raise InputError(f"the integers of {mechanism.reader.name} cannot be scaled")
    small = replace(quantizer, radius=radius)
    return replace(mechanism.on(small), noise=_rescaled(mechanism, quantizer.bound, small.bound))


def _rescaled(mechanism: Mechanism, bound: Bound, small: Bound) -> NoiseLaw:
    law = mechanism.noise
    if isinstance(law, DiscreteLaplace):
        return DiscreteLaplace(law.rate * bound.l1 / small.l1)
    if isinstance(law, DiscNoise):
        return replace(law, rate=law.rate * bound.largest / small.largest)
    if isinstance(law, DiscreteGaussian):
        guarantee, count = mechanism.guarantee, mechanism.count_law
        epsilon = guarantee.epsilon if count is None else guarantee.epsilon - count.epsilon
        l2 = (2 if guarantee.neighbours == "replace" else 1) * math.sqrt(small.l2_squared)
        return DiscreteGaussian(calibrate(l2, mechanism.encoder.size, float(epsilon), guarantee.delta))
    raise InputError(f"the noise {law!r} of {mechanism.method} cannot be scaled")


def exact_case(mechanism: Mechanism, reach: int) -> ExactCase:
    """Compare the laws of all outputs within `reach` for all neighbouring inputs of one column.

    Adding a record is looked at from the empty data set and replacing one from any record: noise that is added does not
    care where the other records' sums are.
    """
    guarantee = mechanism.guarantee
    name = f"exact, radius {mechanism.encoder.bound.largest}, {sizes(mechanism)}, {guarantee.neighbours}"
    claim = EpsilonClaim(float(guarantee.epsilon), guarantee.delta)
    return ExactCase(name, claim, lambda: _log_laws(mechanism, reach))


def _log_laws(mechanism: Mechanism, reach: int) -> tuple[Floats, Floats]:
    """Log probabilities of the outputs without and with each change; outputs along the last axis."""
    outputs = np.array(list(product(range(-reach, reach + 1), repeat=mechanism.encoder.size)))
    before = log_weights(mechanism.noise, outputs)
    after = []
    for possible in _changes(mechanism):
        each = np.stack([log_weights(mechanism.noise, outputs - one) for one in possible])
        after.append(logsumexp(each, axis=0) - math.log(len(possible)))
    normaliser = logsumexp(before)
    return _with_count(mechanism, before[None] - normaliser, 0), _with_count(mechanism, np.stack(after) - normaliser, 1)


def _changes(mechanism: Mechanism) -> list[Integers]:
    """Every change of the sums by one record: for each, its equally likely values over the coins."""
    rows = scan(mechanism.encoder)
    encoded, first = np.unique(features(mechanism.encoder, rows), axis=0, return_index=True)
    if mechanism.guarantee.neighbours == "add-remove":
        return [possible_sums(mechanism.encoder, rows[row : row + 1]) for row in first]
    if isinstance(mechanism.encoder, ShardedFourier) and mechanism.encoder.groups > 1:
        raise InputError("replacing a record is enumerated for one group only")
    changes = (encoded[:, None, :] - encoded[None, :, :]).reshape(-1, encoded.shape[1])
    return list(np.unique(changes, axis=0)[:, None, :])


def _with_count(mechanism: Mechanism, log_law: Floats, count: int) -> Floats:
    """Add the independent noisy count to the outputs."""
    if mechanism.count_law is None:
        return log_law
    weights = log_weights(mechanism.count_law, (COUNTS - count)[:, None])
    return (log_law[:, :, None] + weights).reshape(len(log_law), -1)
