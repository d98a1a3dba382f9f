"""Exact mean square errors of Fourier answers, from the kernel alone.

For a frequency w drawn for a shift-invariant kernel and points x, x': E cos w.(x-y) cos w.(x'-y) = (k(x-x') +
k(x+x'-2y)) / 2, so one pair's answer has variance mean (k(x-x') + k(x+x'-2y)) / 2 - KDE(y)^2, and one phase's, with
its random offset, mean (k(x-x') + k(x+x'-2y) / 2) - KDE(y)^2.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels import Kernel


def _moments(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    between = float(kernel.value(X, X).mean())
    mirrored = np.array([kernel.value(X, 2 * y - X).mean() for y in Y])
    return between, mirrored, kernel.exact_density(X, Y)


def phase_variance(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> float:
    """Approximation variance of one phase term, averaged over the queries."""
    between, mirrored, density = _moments(kernel, X, Y)
    return float((between + mirrored / 2 - density**2).mean())


def pair_variance(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> float:
    """Approximation variance of one pair term, averaged over the queries."""
    between, mirrored, density = _moments(kernel, X, Y)
    return float(((between + mirrored) / 2 - density**2).mean())


def coin_variance(kernel: Kernel, X: np.ndarray, Y: np.ndarray, groups: int, per_group: int) -> float:
    """Variance over the coins that put records into groups."""
    squares = (1 + kernel.value(2 * X, 2 * Y)) / 2 - kernel.value(X, Y) ** 2
    return float((1 - 1 / groups) / (per_group * len(X)) * squares.mean())
