"""Repeated releases of distances, for tests of errors: what was asked, what was answered, and what is exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.kernels import Distance
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.release import Count


def request(metric: str = "l1", dimension: int = 1, n: int = 1000, p: float | None = None, **facts: Any) -> Request:
    """Public facts over the unit box."""
    known = {"epsilon": Fraction(1), "bounds": (0, 1), "feature_seed": 3, "n": n, "dimension": dimension}
    return Request(kernel=Distance(metric, p), **{**known, **facts})


@dataclass(frozen=True)
class Runs:
    """Errors of many releases of the same records, shape (trials, queries), and their stated standard errors."""

    errors: np.ndarray
    bars: np.ndarray

    @property
    def rmse(self) -> float:
        """Root mean square error over trials and queries."""
        return float(np.sqrt(np.square(self.errors).mean()))


def run(
    mechanism: Mechanism, rows: np.ndarray, queries: np.ndarray, trials: int, seed: str, mean: bool = False
) -> Runs:
    """Release sums (or means) of distances again and again, with new noise."""
    exact = mechanism.kernel.exact_density(rows, queries) * (1 if mean else len(rows))
    sums = np.zeros(mechanism.encoder.size, dtype=np.int64)
    for start in range(0, len(rows), 1 << 16):
        mechanism.encoder.accumulate(rows[start : start + (1 << 16)], sums)
    bits, errors, bars = SecureBits.seeded(seed), [], []
    for _ in range(trials):
        count = Count(len(rows), 0.0, public=True)
        if mechanism.count_law is not None:
            noisy = len(rows) + int(mechanism.count_law.sample(bits, 1)[0])
            count = Count(max(1, noisy), mechanism.count_law.variance, public=False)
        values = mechanism.publish(sums, count, bits)
        if mechanism.count_reader is not None:
            count = mechanism.count_reader(values)
        release = mechanism.release(values, count)
        answers, errors_stated = (release.query if mean else release.total)(queries, return_std=True)
        errors.append(answers - exact)
        bars.append(errors_stated)
    return Runs(np.array(errors), np.array(bars))


def built(method: str, **facts: Any) -> Mechanism:
    """Build a mechanism over the unit box."""
    return DISTANCES.build(method, request(**facts))
