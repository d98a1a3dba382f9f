"""Calibration checks of the bit sums, of collections and of secure aggregation; importing this registers them.

The laws of what an analyzer sees of one instance are listed from the protocol's parameters alone, by textbook laws and
convolutions, and composed over the instances; nothing here knows how the parameters were found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.signal import convolve2d

from sfumato.audit import CalibrationCase, EpsilonClaim, Revealed, register_calibrations
from sfumato.audit.case import Loss
from sfumato.audit.cases.prices import places
from sfumato.audit.cases.shuffled import pure_views
from sfumato.audit.estimators import Views
from sfumato.audit.losses import lattice_distance
from sfumato.quantizers.base import Floats, Integers
from sfumato.shuffled.bitsum import BitSum, calibrate
from sfumato.shuffled.bitsum.signed import Pure
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.protocol import Protocol
from sfumato.shuffled.secure_aggregation import METHOD, SecureAggregation

EPSILON, DELTA, PARTICIPANTS, FEW, PEOPLE, COLLECTED = 1, 1e-3, 40, 12, 4, 2
LANDMARKS = [[-1.0], [-0.5], [0.0], [0.5], [1.0]]
TAIL = 1e-12  # of a law, cut off; it counts as views that one neighbour has alone

Laws = tuple[Floats, Floats]


def _counts(law: Any, *parameters: float) -> Floats:
    """Probabilities of a count from 0 on."""
    return np.asarray(law.pmf(np.arange(int(law.isf(TAIL, *parameters)) + 2), *parameters))


def _logs(first: Sequence[Floats], second: Sequence[Floats]) -> Laws:
    with np.errstate(divide="ignore"):
        return np.log(np.array(first)), np.log(np.array(second))


def added_laws(noise: Floats) -> Laws:
    """Laws of a count of noise, and of one more."""
    return _logs([np.append(noise, 0.0)], [np.append(0.0, noise)])


def response_laws(n: int, flip: float, send: float = 1.0) -> Laws:
    """Laws of the ones and zeros that arrive, the last bit being 0 or 1, for several numbers of ones of the others."""

    def law(ones: int, bit: int) -> Floats:
        view = np.ones((1, 1))
        for held in [1] * (ones + bit) + [0] * (n - ones - bit):
            chance = 1 - flip if held else flip
            view = convolve2d(view, [[1 - send, send * (1 - chance)], [send * chance, 0.0]])
        return view.ravel()

    others = sorted({0, 1, n // 4, n // 2, n - 1})
    return _logs([law(ones, 0) for ones in others], [law(ones, 1) for ones in others])


def flooded_laws(rate: float, shape: int, flood_rate: float) -> Laws:
    """Laws of the numbers of +1 and -1 of `3nb`, the bit being 0 or 1."""
    noise = _counts(stats.nbinom, 1, -math.expm1(-rate))
    flood = _counts(stats.nbinom, shape, -math.expm1(-flood_rate))
    size, both = len(flood) + len(noise), np.outer(noise, noise)
    law = np.zeros((size, size))
    for pairs, chance in enumerate(flood):
        law[pairs : pairs + len(noise), pairs : pairs + len(noise)] += chance * both
    return _logs([law.ravel()], [np.vstack([np.zeros((1, size)), law[:-1]]).ravel()])


def laws_of(protocol: BitSum) -> Laws:
    """Laws of what is seen of one instance, by the protocol's parameters."""
    numbers = {name: float(value) for name, value in protocol.parameters.items()}
    if isinstance(protocol, Pure):
        return pure_views(protocol)
    if "flip" in numbers:
        return response_laws(protocol.n, **numbers)
    if "flood_shape" in numbers:
        return flooded_laws(numbers["rate"], int(numbers["flood_shape"]), numbers["flood_rate"])
    if "mean" in numbers:
        return added_laws(_counts(stats.poisson, numbers["mean"]))
    return added_laws(_counts(stats.nbinom, numbers["shape"], -math.expm1(-numbers["rate"])))


@dataclass(frozen=True)
class Sums:
    """A calibrated bit sum, run for as many instances as one participant may change, and what is stated for all."""

    name: str
    protocol: BitSum
    instances: int
    claim: EpsilonClaim

    def case(self) -> CalibrationCase:
        """Check the calibration."""

        def reveal() -> tuple[Views, int]:
            laws = laws_of(self.protocol)
            return Views(*laws, times=self.instances), laws[0].size

        return CalibrationCase(self.name, self.claim, reveal)


def calibrated(
    name: str, paid: Fraction, instances: int = 1, n: int = PARTICIPANTS, epsilon: int = EPSILON, **options: Any
) -> Sums:
    """Calibrate a bit sum to `paid` times the epsilon that is stated: to more, in a broken twin."""
    delta = 0.0 if name == "pure" else DELTA
    found = calibrate(name, n=n, instances=instances, epsilon=paid * epsilon, delta=delta, **options)
    more = "".join(f", {option} {value}" for option, value in options.items())
    claim = EpsilonClaim(float(epsilon), found.delta)
    return Sums(f"{instances} instance{'s' * (instances > 1)}{more}", found.protocol, instances, claim)


# Instances, participants and epsilon: few enough for the laws to be listed, and enough for the published formulas.
BIT_SUMS: dict[str, list[dict[str, Any]]] = {
    "rr": [{}, {"instances": 6}, {"instances": 4, "n": FEW, "epsilon": 3, "messages": 2.0}],
    "poisson": [{}, {"instances": 6}],
    "negative-binomial": [{}, {"instances": 6}],
    "3nb": [{}, {"instances": 3}],
    "pure": [{"n": 3}, {"n": 3, "instances": 2, "epsilon": 2}, {"n": 3, "rho": "1/4"}],
    "rr-published": [{"n": 200, "epsilon": 2}],
    "3nb-published": [{"epsilon": 8}],
}


def sums_cases(name: str, paid: Fraction = Fraction(1)) -> list[CalibrationCase]:
    """Check a bit sum."""
    return [calibrated(name, paid, **settings).case() for settings in BIT_SUMS[name]]


# Every kind of features, with few instances.
COLLECTIONS: dict[str, dict[str, Any]] = {
    "inner-product": {"kernel": "inner-product"},
    "inner-product-signs": {"kernel": "inner-product", "instances": 6},
    "fourier": {"kernel": "gaussian", "bandwidth": 1.0, "bounds": (-8, 8), "instances": 4},
    "lattice": {"kernel": "gaussian", "bandwidth": 1.0, "bounds": (-8, 8), "instances": 6},
    "hashing": {"kernel": "laplacian", "bandwidth": 1.0, "bounds": (-8, 8), "instances": 32},
    "landmarks": {"kernel": "gaussian", "bandwidth": 1.0, "bounds": (-8, 8), "landmarks": LANDMARKS},
}


def collection_cases(paid: Fraction = Fraction(1)) -> list[CalibrationCase]:
    """Check collections of all kinds of features."""
    return [collection(name, paid).case() for name in COLLECTIONS]


def collection(name: str, paid: Fraction) -> Sums:
    """Count the instances of a collection in which some two points differ, and take its bit sum for them."""
    common: dict[str, Any] = {"dimension": 1, "delta": DELTA, "participants": FEW, "seed": 9, "quantizer": name}
    protocol = Protocol(epsilon=paid * COLLECTED, **common, **COLLECTIONS[name])
    features = protocol.features
    encoded = features.quantizer.encode(features.points(places(features.quantizer.box)))
    changed = max(int((encoded != one).sum(axis=1).max()) for one in encoded[:: len(encoded) // 32])
    claim = EpsilonClaim(float(protocol.guarantee().epsilon / paid), protocol.guarantee().delta)
    return Sums(f"{name}, {changed} of {features.instances} instances", protocol.groups[0].bitsum, changed, claim)


AGGREGATED: dict[str, list[dict[str, Any]]] = {
    "discrete-gaussian": [
        {},
        {"dimension": 3},
        {**COLLECTIONS["fourier"], "instances": 8},
        COLLECTIONS["landmarks"],
    ],
    "skellam": [{}],
}


def aggregated_cases(paid: Fraction = Fraction(1)) -> list[CalibrationCase]:
    """Check secure aggregation with every kind of noise and features."""
    return [aggregated(noise, paid, **settings) for noise, each in AGGREGATED.items() for settings in each]


def aggregated(noise: str, paid: Fraction, **settings: Any) -> CalibrationCase:
    """Check secure aggregation on the two points farthest apart.

    Discrete Gaussian shares add up to a discrete Gaussian but for a factor that no floating-point number shows. The law
    of Skellam noise is listed for one column.
    """
    facts: dict[str, Any] = {"kernel": "inner-product", "dimension": 1, "delta": DELTA, "seed": 5, **settings}
    protocol = SecureAggregation(epsilon=paid * EPSILON, participants=PEOPLE, noise=noise, **facts)
    features = BitFeatures(protocol.quantizer)
    encoded = features.quantizer.encode(features.points(places(features.quantizer.box)))
    change, variance = farthest(encoded), protocol.variance(PEOPLE)

    def reveal() -> tuple[Loss, int]:
        if noise == "skellam":
            reach = np.arange(-int(12 * math.sqrt(variance)), int(12 * math.sqrt(variance)))
            laws = [stats.skellam.pmf(reach - moved, variance / 2, variance / 2) for moved in (0, *change.tolist())]
            return Views(*_logs(laws[:1], laws[1:])), len(encoded)
        squares = sum(int(moved) ** 2 for moved in change)
        distance = lattice_distance(math.isqrt(int(variance)), int(np.count_nonzero(change)))
        return Revealed(mu_squared=Fraction(squares) / Fraction(variance), distance=distance), len(encoded)

    name = f"{noise}, {type(protocol.quantizer).name}, {facts['dimension']}-d"
    return CalibrationCase(name, EpsilonClaim(float(EPSILON), protocol.delta), reveal)


def farthest(encoded: Integers) -> Integers:
    """Return the difference of two rows that are far apart in l2."""
    first = encoded[int(np.argmax(np.square(encoded - encoded[0]).sum(axis=1)))]
    return np.asarray(encoded[int(np.argmax(np.square(encoded - first).sum(axis=1)))] - first)


for _name in BIT_SUMS:
    register_calibrations(_name, partial(sums_cases, _name))
register_calibrations("shuffled", collection_cases)
register_calibrations(METHOD, aggregated_cases)
