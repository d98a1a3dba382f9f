"""The synthetic points of the experiments on local densities: ten tight blobs of unequal sizes in a cube.

Source: the data set SYN of Zhou et al. (2024), section 4.1: ten centres uniform in [-2, 2]^m and normal points of
standard deviation 0.01 around them, 100,000 in 50 columns by default; bandwidth sqrt(m) and radius 0.015 sqrt(m). The
paper does not state the sizes of the blobs. They are unequal here, from 2.5 % to 48 % of the points: with equal sizes
all answers would be much alike.
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.datasets import make_blobs

from sfumato.errors import InputError
from sfumato.public.portable import FloatArray

SHARES = (0.48, 0.161, 0.096, 0.071, 0.041, 0.039, 0.031, 0.028, 0.028, 0.025)
REACH, SPREAD = 2.0, 0.01
QUERIES = 100
# A normal number beyond eight standard deviations is not met in a lifetime; such a point would be clipped.
BOUNDS = (-REACH - 8 * SPREAD, REACH + 8 * SPREAD)


def blobs(
    n: int = 100_000, dimension: int = 50, *, queries: int = QUERIES, seed: int = 42
) -> tuple[FloatArray, FloatArray]:
    """Draw points and, from the same law, queries.

    Parameters
    ----------
    n, dimension : int
        Points and columns.
    queries : int
        How many more points to set aside as queries.
    seed : int
        The same seed gives the same points, as far as scikit-learn does.

    Returns
    -------
    points, queries : ndarray

    Examples
    --------
    >>> points, queries = blobs(1000, 5)
    >>> points.shape, queries.shape
    ((1000, 5), (100, 5))
    """
    if n < 1 or dimension < 1 or queries < 0:
        raise InputError(f"blobs need at least one point and one column; got n={n}, dimension={dimension}")
    sizes = [int(share * (n + queries)) for share in SHARES]
    sizes[0] += n + queries - sum(sizes)
    drawn, _ = make_blobs(
        sizes, n_features=dimension, cluster_std=SPREAD, center_box=(-REACH, REACH), shuffle=True, random_state=seed
    )
    rows = np.asarray(drawn, dtype=np.float64)
    return rows[queries:], rows[:queries]


def bandwidth(dimension: int) -> float:
    """Width of a bucket in the experiments, sqrt(m).

    Examples
    --------
    >>> bandwidth(25)
    5.0
    """
    return math.sqrt(dimension)


def radius(dimension: int) -> float:
    """Radius of the promise in the experiments, 0.015 sqrt(m).

    Examples
    --------
    >>> radius(100)
    0.15
    """
    return 0.015 * math.sqrt(dimension)
