"""Audits of local mechanisms: exact ones of `rows` and `phases`, calibrations of all; importing this registers them.

Exact audits compare the law of every payload for every two of many points. The devices run as they are, under protocols
whose integer weights are small enough for all coins to be listed; the weights of real protocols differ in size only,
and `keeps_epsilon` checks them when a device loads them.

Calibration checks take devices with the weights that protocols really have, for every kernel that a mechanism fits, and
compute the loss from these weights and from two points that are as far apart as the promise covers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import binom

from sfumato.audit import CalibrationCase, Case, EpsilonClaim, Revealed, register_audit, register_calibrations
from sfumato.audit.cases.reports import enumerated_case
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
from sfumato.local.metric_rows import MetricRows
from sfumato.local.pooled import LABEL, MetricPhases
from sfumato.local.protocol import Protocol
from sfumato.privacy.response import same_weight
from sfumato.public.rows import WORD_BYTES, row_bytes
from sfumato.published.local.point import DuchiDevice, PiecewiseDevice, PlanarDevice, SquareDevice
from sfumato.published.local.sketch import MetricSketchDevice, NoisySignsDevice

SEED = f"{11:064x}"
POINTS = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.5, 0.5), (0.51, 0.5), (0.25, 0.9), (float("nan"), 7.0))
# epsilon / rows_each has to come out, so that the bound is close: e is about 19/7, e^(1/2) about 28/17.
SMALL_OTHER = {1: 7, 2: 17}


def small_protocol(
    kernel: Kernel, mechanism: str, epsilon: int, rows_each: int, groups: int, **options: Any
) -> dict[str, Any]:
    """Return a protocol of two columns whose coins can all be listed."""
    protocol = Protocol(
        kernel,
        dimension=2,
        epsilon=epsilon,
        participants=100,
        mechanism=mechanism,
        bounds=(0, 1),
        options={"rows_each": rows_each, "pool": groups * rows_each, **options},
    )
    document = protocol.document
    other = SMALL_OTHER[rows_each]
    share = device_for(document).epsilon / rows_each
    small = {"same": same_weight(share, other), "other": other}
    mechanism_document: Mapping[str, Any] = document["mechanism"]
    # Whatever a protocol says, its few hash functions are to tell the points apart.
    return document | {"mechanism": {**mechanism_document, **small}, "seed": SEED}


def rows_cases() -> list[Case]:
    """Several hash families, one and two rows each."""
    documents = {
        "l2-lsh, 1 row": small_protocol(L2LSH(0.5), "rows", 1, 1, 3, buckets=4),
        "l1-lsh, 1 row": small_protocol(L1LSH(0.5), "rows", 1, 1, 3, buckets=5),
        "l2-lsh, 2 rows": small_protocol(L2LSH(0.2), "rows", 1, 2, 1, buckets=3),
        "laplacian, 1 row": small_protocol(Laplacian(0.3), "rows", 1, 1, 3, buckets=4),
        "angular, 1 row": small_protocol(Angular(), "rows", 1, 1, 3),
    }
    return [enumerated_case(name, device_for(document), POINTS) for name, document in documents.items()]


def phases_cases() -> list[Case]:
    """Arcs of one row."""
    documents = {
        "gaussian, 1 row": small_protocol(Gaussian(0.3), "phases", 1, 1, 1),
        "laplacian, 1 row": small_protocol(Laplacian(0.1), "phases", 1, 1, 1),
    }
    return [enumerated_case(name, device_for(document), POINTS) for name, document in documents.items()]


register_audit("rows", rows_cases)
register_audit("phases", phases_cases)


RADIUS, ETA, CHECKED_SEED, DIMENSION = 0.1, 1e-3, 11, 2
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


def part_loss(device: MetricRows) -> float:
    """Return the loss of one row: a response's, or the noise's over as many parts as a radius can move a projection."""
    worst = 0.0
    for row in range(min(device.groups * device.rows_each, ROWS)):
        _, words = device.hash.drawn(row)
        direction = device.hash.law.numbers(words[1:])
        length = device.length(direction)
        if (1 << device.hash.shift) // length < device.least:
            worst = max(worst, log_odds(device.same, device.other))
            continue
        along = np.array(direction, dtype=np.float64) * np.array(device.scales)
        if not device.euclidean:  # all of an l1 radius in the column that moves the projection most
            along *= np.abs(along) == np.abs(along).max()
        along *= device.radius / (2 * np.linalg.norm(along))
        ends = [device.lattice(device.domain.clip((0.5 + side * along).tolist())) for side in (-1, 1)]
        moved = abs(sum(a * (x - y) for a, x, y in zip(direction, *ends, strict=True)))
        worst = max(worst, math.ceil(moved / length) * float(device.share))
    return worst


def loss(device: Any, kernel: Kernel) -> float:
    """Return what one report gives away about two points that the promise covers."""
    if isinstance(device, MetricSketchDevice):
        return different_rows(device, kernel) * log_odds(device.law.odds.heads, device.law.odds.unit)
    if isinstance(device, PlanarDevice | NoisySignsDevice):
        return float(device.law.mu) * math.ceil(lattice_steps(device.radius, device.step) / math.sqrt(DIMENSION))
    if isinstance(device, MetricPhases):
        return device.rows_each * phase_loss(device)
    if isinstance(device, MetricRows):
        return device.rows_each * part_loss(device)
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
        facts: dict[str, Any] = {
            "radius": RADIUS,
            "eta": ETA,
            "bounds": (0, 1),
            "seed": CHECKED_SEED,
            "options": {**more},
        }
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


def calibrations(mechanism: str, paid: Fraction = Fraction(1)) -> list[CalibrationCase]:
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
        register_calibrations(_mechanism, partial(calibrations, _mechanism))
