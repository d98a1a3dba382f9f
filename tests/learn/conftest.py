"""Texts of three topics, as embeddings of length 1."""

from __future__ import annotations

import numpy as np

CLASSES = ("art", "law", "sea")
MIDDLES = np.random.default_rng(0).normal(size=(3, 30))


def texts(
    count: int, seed: int, shares: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3), middles: np.ndarray = MIDDLES
) -> tuple[np.ndarray, np.ndarray]:
    """Points and their topics."""
    random = np.random.default_rng(seed)
    labels = random.choice(3, size=count, p=shares)
    points = middles[labels] + 2.0 * random.normal(size=(count, 30))
    return points / np.linalg.norm(points, axis=1, keepdims=True), np.array(CLASSES)[labels]
