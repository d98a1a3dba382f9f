"""The exact law of a device's payloads: run it on every sequence of coins that there is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.audit import EpsilonClaim, ExactCase
from sfumato.local.coins import Coins
from sfumato.local.device import Device
from sfumato.quantizers.base import Floats

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
