"""Audits of `metric-rows`: the exact law of a noisy row at once, twice and three halves of the radius, and its twins.

The law of a report is a sum over all parts of all cells. Those beyond `REACH` mean lengths of noise and some cells from
the middle are left out, the same ones for every point: they have a probability below e^-45.

Rows of randomised response are those of `rows`, whose audit lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, cast

import numpy as np

from sfumato.audit import Case, EpsilonClaim, ExactCase, register_audit
from sfumato.kernels import L1LSH, L2LSH, Kernel
from sfumato.local.device import device_for
from sfumato.local.metric_rows import PLACES, MetricRows, place
from sfumato.local.pooled import coarse
from sfumato.local.protocol import Protocol
from sfumato.quantizers.base import Floats

SEED = f"{11:064x}"
REACH, FARTHEST = 45, 8
DIRECTIONS = ((1.0, 0.0), (0.0, -1.0), (0.6, 0.8), (-0.8, 0.6), (-0.28, -0.96))
STARTS = tuple((0.3 + 0.05 * i, 0.3 + 0.07 * i) for i in range(6))


def row_law(device: MetricRows, row: int, point: Sequence[float]) -> Floats | None:
    """Probabilities of all digits of a noisy row; None for a row of randomised response."""
    keys, words = device.hash.drawn(row)
    length = device.length(device.hash.law.numbers(words[1:]))
    width = 1 << device.hash.shift
    parts = width // length
    if parts < device.least:
        return None
    cell, within = divmod(device.hash.projection(words, device.lattice(device.prepared(point))), width)
    start, share = cell * parts + min(within // length, parts - 1), float(device.share)
    law = np.zeros(device.outcomes)
    cells = math.ceil(REACH / share / parts) + FARTHEST
    for noisy, part in product(range(-cells, cells), range(parts)):
        chance = math.exp(-share * abs(noisy * parts + part - start))
        law[PLACES * device.hash.named(keys, (noisy,)) + place(part, parts)] += chance
    return np.asarray(law / law.sum())


def rows_document(kernel: Kernel, epsilon: int, radius: float = 0.1) -> dict[str, Any]:
    """Return a protocol of two columns with a small pool."""
    protocol = Protocol(
        kernel,
        2,
        epsilon,
        1000,
        mechanism="metric-rows",
        radius=radius,
        bounds=(0, 1),
        options={"rows_each": 1, "pool": 12, "buckets": 8},
    )
    return {**protocol.document, "seed": SEED}


def rows_case(name: str, device: MetricRows, times: float) -> ExactCase:
    """Points at so many times the radius, in all rows of a small pool."""
    far = times * device.radius

    def pairs() -> tuple[Floats, Floats]:
        first, second = [], []
        for x, y in STARTS:
            for c, s in DIRECTIONS:
                scale = far if device.euclidean else far / (abs(c) + abs(s))
                for row in range(device.groups):
                    laws = [row_law(device, row, point) for point in ((x, y), (x + scale * c, y + scale * s))]
                    if laws[0] is not None and laws[1] is not None:
                        first.append(np.log(np.maximum(laws[0], 1e-300)))
                        second.append(np.log(np.maximum(laws[1], 1e-300)))
        return np.array(first), np.array(second)

    return ExactCase(name, EpsilonClaim(float(math.ceil(times) * device.epsilon)), pairs)


def metric_rows_cases() -> list[Case]:
    """Both kernels, within the radius and beyond."""
    l2, l1 = (cast(MetricRows, device_for(rows_document(kernel, 2))) for kernel in (L2LSH(0.5), L1LSH(0.9)))
    return [
        rows_case("l2-lsh at the radius", l2, 1.0),
        rows_case("l2-lsh at 3/2 of the radius", l2, 1.5),
        rows_case("l2-lsh at twice the radius", l2, 2.0),
        rows_case("l1-lsh at the radius", l1, 1.0),
    ]


class _ShortParts(MetricRows):
    """Pays for 70 % of how far a radius moves a projection."""

    def length(self, direction: Sequence[int]) -> int:
        return coarse(0.7 * super().length(direction))


class _LargestEntry(MetricRows):
    """Bounds how far a Euclidean radius moves a projection by the largest entry of its direction, as for one in l1."""

    def length(self, direction: Sequence[int]) -> int:
        steps = [abs(a * s) for a, s in zip(direction, self.scales, strict=True)]
        return coarse(self.radius * max(steps) + self.steps_apart * sum(map(abs, direction)))


def _short_parts() -> Case:
    return rows_case("at the radius", _ShortParts(rows_document(L2LSH(0.5), 2)), 1.0)


def _largest_entry() -> Case:
    return rows_case("at the radius", _LargestEntry(rows_document(L2LSH(0.5), 2)), 1.0)


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    ("metric-rows", "parts 30 % short", _short_parts),
    ("metric-rows", "a projection's largest entry for its norm", _largest_entry),
)

register_audit("metric-rows", metric_rows_cases)
