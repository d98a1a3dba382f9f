"""Exact audits: the probabilities of all outputs near the data, at a small integer scale, for every input.

A mechanism's integers are scaled down to a radius of a few units, where every input and every output can be listed. Its
noise is scaled so that sensitivity times rate stays what the mechanism chose (or, for Gaussian noise, calibrated
again), so a bound that is too small by one, or a table that leaves its disc, shows as a loss above the claim.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.special import logsumexp

from sfumato.audit import EpsilonClaim, ExactCase, log_weights
from sfumato.audit.attacks import features, possible_sums, scan, sizes
from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.body import DiscNoise
from sfumato.privacy.gaussian import calibrate
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.quantizers import Bound, FourierQuantizer, ShardedFourier
from sfumato.quantizers.base import Floats, Integers

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
