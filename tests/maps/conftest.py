"""Releases to draw, made once; their noise is real, and far below the signal where a test needs that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato import PrivateKDE, Release
from sfumato.privacy.bits import SecureBits

BOUNDS = [(-4.0, 4.0), (0.0, 20.0)]
BANDWIDTH = (0.6, 1.5)


def make_points(count: int = 4000, seed: int = 0) -> np.ndarray:
    """Two groups of people, at (-1.5, 6) and (-0.5, 15)."""
    generator = np.random.default_rng(seed)
    centres = np.where(generator.random(count)[:, None] < 0.6, [-1.5, 6.0], [-0.5, 15.0])
    return centres + generator.normal(size=(count, 2)) * [0.6, 1.5]


def release_of(points: np.ndarray, columns: tuple[str, ...] | None = ("east", "north"), **arguments: Any) -> Release:
    settings: dict[str, Any] = {"bandwidth": BANDWIDTH, "epsilon": 5, "n_hint": 4000, "bounds": BOUNDS}
    return replace(PrivateKDE(**{**settings, **arguments}).fit(points).release_, columns=columns)


def noisy_copies(release: Release, points: np.ndarray, copies: int) -> Iterator[Release]:
    """The release that the same linear mechanism would have made with other noise, many times."""
    sums = np.zeros(release.reader.size, dtype=np.int64)
    release.reader.accumulate(points, sums)
    bits = SecureBits.seeded(11)
    for _ in range(copies):
        yield replace(release, values=sums + release.noise.sample(bits, len(sums)))


@pytest.fixture(scope="session")
def points() -> np.ndarray:
    return make_points()


@pytest.fixture(scope="session")
def release(points: np.ndarray) -> Release:
    """Two columns, little noise."""
    return release_of(points)


@pytest.fixture(scope="session")
def noisy(points: np.ndarray) -> Release:
    """Two columns, mostly noise, the same each time."""
    return release_of(points, epsilon="1/50", random_state=5)


@pytest.fixture(scope="session")
def curve(points: np.ndarray) -> Release:
    """One column."""
    return release_of(points[:, :1], ("age",), bandwidth=0.6, bounds=BOUNDS[0], epsilon=1)


@pytest.fixture(scope="session")
def many() -> Release:
    """Five columns."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(4000, 5)) + 3.0 * generator.integers(0, 2, size=(4000, 1))
    return release_of(rows, tuple("abcde"), bandwidth=2.5, bounds=(-5, 8), epsilon=20, method="fourier")
