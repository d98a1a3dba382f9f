"""Broken twins: mechanisms with the mistakes that privacy code is known for, each with the audit that must catch it.

A twin is a registered audit case with one part of its mechanism replaced: the same neighbours, the same attack, the
same claim. An audit that misses its twin proves nothing about the mechanism that it passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.audit import Case, EpsilonClaim, ExactCase, load_library
from sfumato.audit.attacks import (
    SMALL_RADIUS,
    CentralCase,
    Outputs,
    at_small_scale,
    encoded_sums,
    exact_case,
    noisy_counts,
    run,
)
from sfumato.audit.cases import central, distances, learn, metric_rows
from sfumato.audit.cases.features import table_cases
from sfumato.audit.cases.twins_collected import LOCAL_PUBLISHED_TWINS, LOCAL_TWINS, SHUFFLED_TWINS
from sfumato.audit.cases.twins_published import PUBLISHED_TWINS, SIMILARITY_TWINS, SKETCH_TWINS, SMOOTH_TWINS
from sfumato.central import cells, fourier, fourier_gaussian, grid, lattice
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.body import DiscNoise, StackedCubes, StackedDiscs
from sfumato.privacy.laws import StackedNoise
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.published import lsq_rff
from sfumato.quantizers import FourierQuantizer, ShardedFourier
from sfumato.quantizers.lattice import LatticeQuantizer

LOW = Fraction(7, 10)
CAP = 6  # largest noise, in units of 1 / rate: 1.7 % of the noise of one pair lies beyond


@dataclass(frozen=True)
class Twin:
    """A broken mechanism and the case that must say so."""

    mechanism: str
    mistake: str
    case: Callable[[], Case]


def with_less_noise(law: Any) -> Any:
    """Scale a law to 70 % of its width."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(round(law.sigma * LOW))
    if isinstance(law, StackedCubes):
        return StackedCubes(tuple(map(with_less_noise, law.parts)))
    if isinstance(law, StackedDiscs):
        return StackedDiscs(tuple(map(with_less_noise, law.parts)), law.blocks)
    if isinstance(law, StackedNoise):
        return StackedNoise(tuple(map(with_less_noise, law.parts)), law.blocks)
    return replace(law, rate=law.rate / LOW)


def _low_noise(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    law = mechanism.count_law
    count_law = None if law is None else with_less_noise(law)
    weak = replace(mechanism, noise=with_less_noise(mechanism.noise), count_law=count_law)
    return run(weak, rows, runs, bits)


def _float_noise(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Add floating-point noise of the right width."""
    random = np.random.default_rng(bits.words(4))
    sums = encoded_sums(mechanism.encoder, rows, runs, bits)
    law = mechanism.noise
    if isinstance(law, DiscreteGaussian):
        noise = random.normal(scale=law.sigma, size=sums.shape)
    else:
        assert isinstance(law, DiscreteLaplace)
        noise = random.laplace(scale=1 / float(law.rate), size=sums.shape)
    return Outputs(sums + noise, noisy_counts(mechanism, rows, runs, bits))


def _unpaid_count(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Publish the true number of records beside the noisy sums."""
    return replace(run(mechanism, rows, runs, bits), counts=np.full(runs, len(rows)))


def _count_for_free(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Calibrate Gaussian noise to the features alone, where the count is one of the sums."""
    quantizer, law = mechanism.encoder, mechanism.noise
    assert isinstance(quantizer, LatticeQuantizer) and isinstance(law, DiscreteGaussian)
    share = math.sqrt(1 - quantizer.counted**2 / quantizer.bound.l2_squared)
    return run(replace(mechanism, noise=DiscreteGaussian(round(law.sigma * share))), rows, runs, bits)


@dataclass(frozen=True)
class _Positions:
    """Coins that are none: a row's group follows from its place among the `rows` of its run."""

    rows: int

    def below(self, bound: int, count: int) -> Integers:
        return np.arange(count) % self.rows % bound


def _positional_groups(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    sums = encoded_sums(mechanism.encoder, rows, runs, cast(SecureBits, _Positions(len(rows))))
    noise = mechanism.noise.sample(bits, sums.size).reshape(sums.shape)
    return Outputs(sums + noise, noisy_counts(mechanism, rows, runs, bits))


def _noise_on_records_only(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Leave the sums of empty groups, or of empty nodes, without noise."""
    quantizer = mechanism.encoder
    block = 2 * quantizer.per_group if isinstance(quantizer, ShardedFourier) else 1
    sums = encoded_sums(quantizer, rows, runs, bits).reshape(runs, -1, block)
    noise = mechanism.noise.sample(bits, sums.size).reshape(sums.shape)
    noisy = sums + noise * (sums != 0).any(axis=2, keepdims=True)
    return Outputs(noisy.reshape(runs, -1), noisy_counts(mechanism, rows, runs, bits))


@dataclass(frozen=True)
class _CappedNoise:
    """Disc noise of one pair that never exceeds a cap."""

    law: DiscNoise
    cap: float

    def sample(self, bits: SecureBits, count: int) -> Integers:
        noise = self.law.sample(bits, count).reshape(-1, 2)
        while (beyond := np.square(noise).sum(axis=1) > self.cap**2).any():
            noise[beyond] = self.law.sample(bits, 2 * int(beyond.sum())).reshape(-1, 2)
        return noise.reshape(-1)

    @property
    def variance(self) -> float:
        return self.law.variance

    def to_document(self) -> dict[str, Any]:
        return self.law.to_document()


def _capped_noise(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    law = mechanism.noise
    assert isinstance(law, DiscNoise)
    return run(replace(mechanism, noise=_CappedNoise(law, CAP / float(law.rate))), rows, runs, bits)


def _wide_table(radius: int) -> NDArray[np.int32]:
    """Round radius * cos to the nearest integer, which leaves the disc of the radius for half of all angles."""
    return np.asarray(np.rint(radius * np.cos(2 * np.pi * (np.arange(4096) + 0.5) / 4096)), dtype=np.int32)


class _WideFourier(FourierQuantizer):
    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return _wide_table(self.radius)


class _WideSharded(ShardedFourier):
    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return _wide_table(self.radius)


def with_wide_table(mechanism: Mechanism) -> Mechanism:
    """Take the integers from the table that leaves the disc."""
    quantizer = mechanism.encoder
    if isinstance(quantizer, ShardedFourier):
        return mechanism.on(_WideSharded(quantizer.phases, quantizer.per_group, quantizer.radius))
    assert isinstance(quantizer, FourierQuantizer)
    return mechanism.on(_WideFourier(quantizer.phases, quantizer.layout, quantizer.radius))


def with_bound_one_less(mechanism: Mechanism) -> Mechanism:
    """Calibrate the noise to a radius one less than the true one."""
    law: Any = mechanism.noise
    return replace(mechanism, noise=replace(law, rate=law.rate * SMALL_RADIUS / (SMALL_RADIUS - 1)))


def _small(method: str, neighbours: str = "add-remove", delta: float = 0.0, features: int = 1) -> Mechanism:
    return at_small_scale(central.small_mechanism(method, 1, neighbours, delta, n_features=features))


def _truncated_series() -> ExactCase:
    """Disc noise whose sum over radii ends at 16: an output beyond is possible for one data set only."""
    mechanism, last = _small(fourier.NAME), 16
    law = mechanism.noise
    assert isinstance(law, DiscNoise)
    side = np.arange(-last - SMALL_RADIUS, last + SMALL_RADIUS + 1)
    tails = np.cumsum(np.exp(-float(law.rate) * np.arange(last, 0, -1)))[::-1]  # sums from each radius to the last

    def log_law(shift: int) -> NDArray[np.float64]:
        radius = np.maximum(np.ceil(np.hypot(side[:, None] - shift, side)), 1).astype(np.int64)
        with np.errstate(divide="ignore"):
            return np.log(np.where(radius <= last, tails[np.minimum(radius, last) - 1], 0.0)).reshape(-1)

    claim = EpsilonClaim(float(mechanism.guarantee.epsilon))
    return ExactCase("exact, one record more", claim, lambda: (log_law(0), log_law(SMALL_RADIUS - 1)))


def _broken(cases: Callable[[], dict[str, CentralCase]], name: str, broken_run: Any) -> Callable[[], Case]:
    return lambda: replace(cases()[name], run=broken_run).case()


_LOW = "noise 30 % low"
_FLOAT = "floating-point noise"
_WIDE = "sensitivity off by one: table leaves the disc"
_LESS = "sensitivity off by one: bound one less"

load_library()
TWINS: tuple[Twin, ...] = (
    *(Twin(name, _LOW, _broken(cases, "one more", _low_noise)) for name, cases in central.CENTRAL_CASES.items()),
    Twin(lsq_rff.NAME, f"{_LOW}, n public", _broken(central.lsq_rff_cases, "opposites", _low_noise)),
    Twin(lsq_rff.NAME, _FLOAT, _broken(central.lsq_rff_cases, "low bits", _float_noise)),
    Twin(lsq_rff.NAME, "count not paid", _broken(central.lsq_rff_cases, "one more", _unpaid_count)),
    Twin(
        lsq_rff.NAME,
        _LESS,
        lambda: exact_case(with_bound_one_less(with_wide_table(_small(lsq_rff.NAME, features=2))), reach=10),
    ),
    Twin(fourier.NAME, f"{_LOW}, n public", _broken(central.fourier_cases, "opposites", _low_noise)),
    Twin(fourier.NAME, f"{_LOW}, two groups", _broken(central.fourier_cases, "groups", _low_noise)),
    Twin(fourier.NAME, "positional groups", _broken(central.fourier_cases, "order", _positional_groups)),
    Twin(fourier.NAME, "no noise on empty groups", _broken(central.fourier_cases, "groups", _noise_on_records_only)),
    Twin(fourier.NAME, "noise capped", _broken(central.fourier_cases, "largeness", _capped_noise)),
    Twin(fourier.NAME, "radius series truncated", _truncated_series),
    Twin(fourier.NAME, "count not paid", _broken(central.fourier_cases, "one more", _unpaid_count)),
    Twin(fourier.NAME, _WIDE, lambda: exact_case(with_wide_table(_small(fourier.NAME)), reach=12)),
    Twin(fourier.NAME, f"{_WIDE}, n public", lambda: exact_case(with_wide_table(_small(fourier.NAME, "replace")), 12)),
    Twin(fourier.NAME, _LESS, lambda: exact_case(with_bound_one_less(_small(fourier.NAME)), reach=12)),
    Twin(cells.NAME, "no noise on empty cells", _broken(table_cases, "one more", _noise_on_records_only)),
    Twin(cells.NAME, f"{_LOW}, n public", _broken(table_cases, "opposites", _low_noise)),
    Twin(grid.NAME, "no noise on empty nodes", _broken(central.grid_cases, "one more", _noise_on_records_only)),
    Twin(fourier_gaussian.NAME, f"{_LOW}, n public", _broken(central.gaussian_cases, "opposites", _low_noise)),
    Twin(fourier_gaussian.NAME, f"{_LOW}, two groups", _broken(central.gaussian_cases, "groups", _low_noise)),
    Twin(fourier_gaussian.NAME, "positional groups", _broken(central.gaussian_cases, "order", _positional_groups)),
    Twin(
        fourier_gaussian.NAME,
        "no noise on empty groups",
        _broken(central.gaussian_cases, "groups", _noise_on_records_only),
    ),
    Twin(fourier_gaussian.NAME, _FLOAT, _broken(central.gaussian_cases, "low bits", _float_noise)),
    Twin(
        fourier_gaussian.NAME,
        _WIDE,
        lambda: exact_case(with_wide_table(_small(fourier_gaussian.NAME, "replace", 0.05)), reach=60),
    ),
    Twin(lattice.NAME, f"{_LOW}, n public", _broken(central.lattice_cases, "opposites", _low_noise)),
    Twin(lattice.NAME, "noise without the count's part", _broken(central.lattice_cases, "second", _count_for_free)),
    Twin(lattice.NAME, _FLOAT, _broken(central.lattice_cases, "low bits", _float_noise)),
    Twin(central.COUNT, "count not paid", _broken(central.count_cases, "one more", _unpaid_count)),
    *(
        Twin(*each)
        for twins in (
            PUBLISHED_TWINS,
            SIMILARITY_TWINS,
            SKETCH_TWINS,
            distances.TWINS,
            learn.TWINS,
            learn.LINEAR_TWINS,
            metric_rows.TWINS,
            SMOOTH_TWINS,
        )
        for each in twins
    ),
    *(Twin(*each) for twins in (LOCAL_TWINS, LOCAL_PUBLISHED_TWINS, SHUFFLED_TWINS) for each in twins),
)
