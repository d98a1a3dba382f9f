"""Calibration checks of local mechanisms, as a protocol designs them; importing this module registers them.

The exact audits list the coins of devices with small weights. These checks take devices with the weights that protocols
really have, for every kernel that a mechanism fits, and compute the loss from these weights and from two points that
are as far apart as the promise covers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import binom

from sfumato.audit import CalibrationCase, EpsilonClaim, Revealed, register_calibrations
from sfumato.errors import InputError
from sfumato.kernels import (
    L1LSH,
    L2LSH,
    Angular,
    Cauchy,
    Exponential,
    Gaussian,
    InnerProduct,
    Jaccard,
    Kernel,
    Laplacian,
    Rational,
)
from sfumato.local.device import device_for, mechanisms
from sfumato.local.hashing import little_endian
from sfumato.local.pooled import LABEL, MetricPhases
from sfumato.local.protocol import Protocol
from sfumato.public.rows import WORD_BYTES, row_bytes
from sfumato.published.local.point import DuchiDevice, PiecewiseDevice, PlanarDevice, SquareDevice
from sfumato.published.local.sketch import MetricSketchDevice, NoisySignsDevice

RADIUS, ETA, SEED, DIMENSION = 0.1, 1e-3, 11, 2
EPSILONS = (Fraction(1, 2), Fraction(6))
ROWS = 64  # of a pool that are looked at
KERNELS: tuple[Kernel, ...] = (
    Gaussian(0.3),
    Laplacian(0.3),
    Cauchy(0.3),
    L1LSH(0.5),
    L2LSH(0.5),
    Angular(),
    Jaccard(),
    InnerProduct(1.0),
    Exponential(0.3),
    Rational(0.3),
)
LANDMARKS = [[0.1, 0.1], [0.5, 0.4], [0.9, 0.8], [0.3, 0.9], [0.6, 0.6]]


def log_odds(heads: int, unit: int) -> float:
    """Return the loss of one choice with these weights."""
    return math.log(Fraction(heads, unit))


def different_rows(device: MetricSketchDevice, kernel: Kernel) -> int:
    """Return how many rows tell two points at the radius apart, but for a probability of eta."""
    if isinstance(kernel, Jaccard):
        collide = 1 - device.radius
    elif isinstance(kernel, Angular):
        collide = 1 - device.radius / math.pi
    else:
        ends = np.array([[0.5, 0.5], [0.5 + device.radius, 0.5]])
        collide = float(kernel.value(ends[:1], ends[1:])[0, 0])
    chance = (1 - float(device.hash.collision)) * (1 - collide)
    return int(binom.isf(device.calibration.eta, device.rows, chance))


def lattice_steps(radius: float, step: float) -> float:
    """Return how many steps points on a circle, rounded to a lattice, are apart at most."""
    angles = np.linspace(0, 2 * math.pi, 721)
    starts = np.random.default_rng(0).random((200, 1, 2)) * step
    ends = starts + radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return float(np.linalg.norm(np.rint(ends / step) - np.rint(starts / step), axis=-1).max())


def phase_loss(device: MetricPhases) -> float:
    """Return the loss of one row: an arc's, or how far a radius along the frequency moves the phase over the noise."""
    worst = 0.0
    for row in range(min(device.groups * device.rows_each, ROWS)):
        words = little_endian(row_bytes(device.seed, LABEL, row, WORD_BYTES * (1 + DIMENSION)))
        frequency = device.law.numbers(words[1:])
        scale = device.scale(frequency)
        if scale > device.largest:
            worst = max(worst, log_odds(device.same, device.other))
            continue
        along = np.array(frequency, dtype=np.float64) * np.array(device.scales)
        along *= device.radius / (2 * np.linalg.norm(along))
        ends = [device.lattice(device.domain.clip((0.5 + side * along).tolist())) for side in (-1, 1)]
        moved = abs(sum(a * (x - y) for a, x, y in zip(frequency, *ends, strict=True)))
        worst = max(worst, moved / scale)
    return worst


def loss(device: Any, kernel: Kernel) -> float:
    """Return what one report gives away about two points that the promise covers."""
    if isinstance(device, MetricSketchDevice):
        return different_rows(device, kernel) * log_odds(device.law.odds.heads, device.law.odds.unit)
    if isinstance(device, PlanarDevice | NoisySignsDevice):
        return float(device.law.mu) * math.ceil(lattice_steps(device.radius, device.step) / math.sqrt(DIMENSION))
    if isinstance(device, MetricPhases):
        return device.rows_each * phase_loss(device)
    if isinstance(device, DuchiDevice | PiecewiseDevice | SquareDevice):
        columns = {"dm": 1, "pm": getattr(device, "columns", 1), "sw": DIMENSION}[device.name]
        return columns * log_odds(device.law.odds.heads, device.law.odds.unit)
    return getattr(device, "rows_each", 1) * log_odds(device.same, device.other)


@cache
def devices(mechanism: str, epsilon: Fraction) -> list[tuple[Kernel, str, Any]]:
    """Return the devices of a mechanism for every kernel that it fits."""
    made = []
    choices = ({"randomiser": "codebook"}, {"randomiser": "coordinate"}) if mechanism == "vector" else ({},)
    for kernel, more in product(KERNELS, choices):
        facts: dict[str, Any] = {"radius": RADIUS, "eta": ETA, "bounds": (0, 1), "seed": SEED, "options": {**more}}
        if mechanism in ("mldp-kde", "fkm-lr"):
            facts["options"]["grinding"] = 0  # else the bound pays for tries of the seed, and comes less close
        if mechanism == "mldp-kde":
            facts["options"] |= {"rows": 512, "buckets": 4}  # searching for the best sizes takes seconds
        if mechanism == "vector" and not isinstance(kernel, InnerProduct):
            facts["options"]["landmarks"] = LANDMARKS
        try:
            protocol = Protocol(kernel, DIMENSION, epsilon, 1000, mechanism=mechanism, **facts)
        except InputError:
            continue
        made.append((kernel, " ".join([kernel.name, *more.values()]), device_for(protocol.document)))
    return made


def cases(mechanism: str, paid: Fraction = Fraction(1)) -> list[CalibrationCase]:
    """Check a mechanism; devices made for `paid` times the epsilon that is stated are a broken twin."""
    return [
        CalibrationCase(f"epsilon {epsilon}; {name}", EpsilonClaim(float(epsilon)), partial(_reveal, device, kernel))
        for epsilon in EPSILONS
        for kernel, name, device in devices(mechanism, paid * epsilon)
    ]


def _reveal(device: Any, kernel: Kernel) -> tuple[Revealed, int]:
    return Revealed(pure=Fraction(loss(device, kernel))), 1


for _mechanism in mechanisms():
    if _mechanism != "race":  # which is not private, and says so
        register_calibrations(_mechanism, partial(cases, _mechanism))
