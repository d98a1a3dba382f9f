"""The usual private classifier, to be measured against: full-batch gradient descent, clipped and noisy.

A linear map to class scores under the softmax loss, trained from zero on points of length 1 in T steps. In each step
every record's gradient is clipped at the length C, the sum gets Gaussian noise of deviation C z in every coordinate,
and the public number n scales the step. (Backurs et al. 2024, appendix H, compares with this: all samples in
every iteration, the best of a grid of parameters, whose search is not paid for.)

Guarantee. Adding or removing a record moves a step's sum by at most C, so a step is a Gaussian mechanism of multiplier
z, and T adaptive steps together are one of multiplier z / sqrt(T) (Gaussian differential privacy composes so exactly).
dp-accounting finds the multiplier of one Gaussian mechanism for (epsilon, delta). Noise here is floating-point and
seeded: this is a measure, not a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Descent:
    """Parameters of one training: steps T, rate, clipping length C."""

    steps: int
    rate: float
    clip: float

    def __str__(self) -> str:
        return f"{self.steps} steps, rate {self.rate:g}, clip {self.clip:g}"


@cache
def one_multiplier(epsilon: float, delta: float) -> float:
    """Noise multiplier of one Gaussian mechanism."""
    law = GaussianPrivacyLoss.from_privacy_guarantee(DifferentialPrivacyParameters(epsilon, delta))
    return float(law.standard_deviation)


def train(
    points: NDArray[np.float32],
    labels: NDArray[np.int64],
    classes: int,
    settings: Descent,
    epsilon: float,
    delta: float,
    seed: int,
) -> NDArray[np.float32]:
    """Return the trained map, shape (columns, classes)."""
    random = np.random.default_rng(seed)
    noise = one_multiplier(epsilon, delta) * math.sqrt(settings.steps) * settings.clip
    wanted = np.eye(classes, dtype=np.float32)[labels]
    lengths = np.linalg.norm(points, axis=1)
    weights = np.zeros((points.shape[1], classes), dtype=np.float32)
    for _ in range(settings.steps):
        scores = points @ weights
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores, out=scores)
        shares /= shares.sum(axis=1, keepdims=True)
        shares -= wanted
        sizes = lengths * np.linalg.norm(shares, axis=1)  # of the gradients x (p - e)^T
        shares *= np.minimum(1, settings.clip / np.maximum(sizes, 1e-12))[:, None]
        gradient = points.T @ shares + noise * random.standard_normal(weights.shape)
        weights -= (settings.rate / len(points) * gradient).astype(np.float32)
    return weights
