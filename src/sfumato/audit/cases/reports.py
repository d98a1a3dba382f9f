"""Exact laws of what devices report: on every sequence of coins, or by formulas where those are too many.

Every such function returns a table, one row for each input, one column for each output.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from sfumato.audit import EpsilonClaim, ExactCase
from sfumato.local.coins import Coins, SphereNoise
from sfumato.local.device import Device
from sfumato.privacy.response import Window
from sfumato.published.local.point import STEPS, SW_STEPS, Signs
from sfumato.quantizers.base import Floats, Integers

Law = dict[bytes, Fraction]


class _UndecidedError(Exception):
    """A coin beyond the script was asked for."""

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self.bound = bound


class _ScriptedCoins(Coins):
    def __init__(self, script: Sequence[int]) -> None:
        super().__init__()
        self._script = iter(script)

    def below(self, bound: int) -> int:
        for value in self._script:
            return value
        raise _UndecidedError(bound)


def payload_law(device: Device, point: Sequence[float]) -> Law:
    """Return the probability of every payload of a device that draws all its coins by `Coins.below`.

    Parameters
    ----------
    device : Device
        With weights so small that all sequences of coins can be run.
    point : sequence of float
        A clipped point.
    """
    law: Law = defaultdict(Fraction)
    open_scripts: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while open_scripts:
        script, chance = open_scripts.pop()
        try:
            payload = device.encode(point, _ScriptedCoins(script))
        except _UndecidedError as coin:
            open_scripts += [((*script, value), chance / coin.bound) for value in range(coin.bound)]
        else:
            law[payload] += chance
    return dict(law)


def enumerated_case(name: str, device: Device, points: Sequence[Sequence[float]]) -> ExactCase:
    """Compare the laws of all payloads for every two of the points."""

    def log_laws() -> tuple[Floats, Floats]:
        laws = [payload_law(device, device.prepared(point)) for point in points]
        payloads = sorted({payload for law in laws for payload in law})
        table = np.array([[_log(law.get(payload, Fraction(0))) for payload in payloads] for law in laws])
        first, second = np.triu_indices(len(points), 1)
        return table[first], table[second]

    return ExactCase(name, EpsilonClaim(float(device.epsilon)), log_laws)


def _log(chance: Fraction) -> float:
    return math.log(chance.numerator) - math.log(chance.denominator) if chance else -math.inf


NEGLIGIBLE = 45.0  # shells beyond so many mean lengths have a probability below e^-40


def signs_law(law: Signs, inputs: Sequence[Sequence[int]], weight: Callable[[int, int], float] | None = None) -> Floats:
    """Probabilities of all reports of `dm` for inputs in steps of 1 / 65,536 of a column.

    Parameters
    ----------
    law : Signs
        The mechanism.
    inputs : sequence of sequences of int
        Steps of each column.
    weight : callable, optional
        Weight of a report given signs; the law's own by default.
    """
    d = law.dimension
    weights = np.array([[(weight or law.weight)(v, z) for z in range(1 << d)] for v in range(1 << d)], dtype=float)
    given_signs = weights / weights.sum(axis=1, keepdims=True)
    chances = np.array([[_sign_chance(steps, v) for v in range(1 << d)] for steps in inputs])
    return np.asarray(chances @ given_signs)


def _sign_chance(steps: Sequence[int], signs: int) -> float:
    columns = enumerate(steps)
    return math.prod(step / STEPS if signs >> j & 1 else 1 - step / STEPS for j, step in columns)


def window_law(law: Window, starts: Sequence[float]) -> Floats:
    """Probabilities of all positions, for starts that are rounded at random to whole ones."""
    table = []
    for start in starts:
        low, rest = math.floor(start), start - math.floor(start)
        rows = [[float(law.probability(low + up, o)) for o in range(law.positions)] for up in (0, 1)]
        table.append((1 - rest) * np.array(rows[0]) + rest * np.array(rows[1] if rest else rows[0]))
    return np.array(table)


def square_law(law: Window, steps: Sequence[int]) -> Floats:
    """Probabilities of all positions of one column of `sw`."""
    return window_law(law, [float(min(max(step, 0), SW_STEPS)) for step in steps])


def shell_logs(law: SphereNoise, shells: int) -> Floats:
    """Logarithms of Pr[z] for z in shell j0, j0 + 1, ..., up to a common constant; see `local.coins`."""
    d, first, mu = law.dimension, law.first_shell, float(law.mu)
    last = first + shells + math.ceil((d + NEGLIGIBLE) / mu)
    j = np.arange(first, last + 1)
    steps = sum(np.log(j - first + i) for i in range(1, d + 1))
    spread = np.log(j) + np.log1p(2 * np.exp(-2 * (math.pi * j) ** 2))  # C_j over sqrt(2 pi), by Poisson's formula
    logs = steps - d * spread - mu * (j - first)
    return np.asarray(np.logaddexp.accumulate(logs[::-1])[::-1][:shells])


def sphere_logs(law: SphereNoise, places: Sequence[Sequence[int]], reach: int) -> Floats:
    """Logarithms of Pr[report] for points on the lattice, for all reports within `reach` of the origin."""
    outputs = np.array(list(product(range(-reach, reach + 1), repeat=law.dimension)))
    radius = np.array([_shells(law, outputs - np.array(place)) for place in places]) - law.first_shell
    return np.asarray(shell_logs(law, int(radius.max()) + 1)[radius])


def _shells(law: SphereNoise, noise: Integers) -> Integers:
    """J(z): the first ball that holds z."""
    squares = np.square(noise).sum(axis=1)
    found = np.ceil(np.sqrt(squares / law.dimension)).astype(np.int64)
    found += law.dimension * found**2 < squares  # a root that was rounded down
    found -= law.dimension * (found - 1) ** 2 >= squares
    return np.asarray(np.maximum(found, law.first_shell))


def wrapped_law(phases: Sequence[int], scale: int, shift: int, positions: int) -> Floats:
    """Probabilities of all positions of a turn for phases plus discrete Laplace noise of a scale, wrapped.

    The sum of e^(-|z| / scale) over all z that are t modulo N = 2**shift is proportional to q^t + q^(N - t), q =
    e^(-1 / scale); positions are stretches of t, whose sums are geometric.
    """
    size = 1 << shift
    width = size // positions
    table = []
    for phase in phases:
        starts = (np.arange(positions) * width - phase) % size  # of a position's stretch, after the phase
        table.append([_stretch(int(start), width, size, scale) for start in starts])
    laws = np.array(table)
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


def _stretch(start: int, width: int, size: int, scale: int) -> float:
    if start + width > size:  # the stretch holds the phase itself
        before = size - start
        return _stretch(start, before, size, scale) + _stretch(0, width - before, size, scale)
    rise = -math.expm1(-width / scale)
    return (math.exp(-start / scale) + math.exp(-(size - start - width + 1) / scale)) * rise
