"""What a projection costs and adds to the error of answers, and how many columns an error takes.

Error of a mean of kernel values k = phi(v), v a squared distance of relative variance s^2 (`projection_error`): a
pair's value moves by v phi'(v) s and its mean by v^2 phi''(v) s^2 / 2. Pairs of one query share the projection: the
relative errors of |x - y|^2 and |x' - y|^2 have the squared cosine between x - y and x' - y as their correlation, 1/4
if records and query are independent of each other. So the error is sqrt((v phi' s)^2 / 4 + (v^2 phi'' s^2 / 2)^2)
where most pairs are about as far apart; a query far away from all records keeps all of (v phi' s)^2.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import L2LSH, Exponential, Gaussian, Kernel, Rational
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.quantizers.rotation import padded
from sfumato.roots import brentq

FAR, FARTHEST = 60.0, 240.0  # logs of distances at which kernels are below any density; the latter for small powers
SHARED = 0.25  # squared cosine between two records, seen from a query that is one more of their kind


def projection_work(kind: str, given: int, columns: int) -> float:
    """Multiplications, or additions, for one point."""
    return float(given * columns) if kind == "dense" else padded(given) * math.log2(max(padded(given), 2))


def squared_distance_variance(kind: str, given: int, columns: int) -> float:
    """Relative variance of a squared distance over the draw, see the module's text."""
    left = 1 - columns / padded(given) if kind == "fast" else 1.0
    return 2 / columns * left


def refuse_kernel(kernel: Kernel) -> str | None:
    """Say why a kernel cannot be projected: only those of the Euclidean distance, in one bandwidth, can."""
    euclidean = isinstance(kernel, Gaussian | L2LSH)
    euclidean |= isinstance(kernel, Exponential) and kernel.p == 2.0
    euclidean |= isinstance(kernel, Rational) and kernel.distance != "l1"
    if not euclidean:
        return f"a projection keeps Euclidean distances, on which {kernel.name} does not depend alone"
    if not isinstance(kernel.bandwidth, float):
        return "a projection needs one bandwidth for all columns: divide the columns by theirs first"
    return None


def projection_error(kernel: Kernel, density: float, variance: float) -> float:
    """Typical error of a mean kernel value of size `density`, for squared distances of relative `variance`.

    Examples
    --------
    >>> round(projection_error(Gaussian(1.0), 0.02, 2 / 500), 4)
    0.0025
    """
    slope, curvature = _derivatives(kernel, min(max(density, 1e-9), 1 - 1e-9))
    return math.hypot(slope * math.sqrt(variance * SHARED), curvature * variance / 2)


def columns_for(kernel: Kernel, given: int, kind: str, density: float, error: float) -> int:
    """Fewest columns for which a projection adds at most `error` to an answer of size `density`.

    Raises
    ------
    InputError
        If that takes as many columns as there are.

    Examples
    --------
    >>> columns_for(Gaussian(1.0), 2048, "dense", 0.02, 0.003), columns_for(Gaussian(1.0), 2048, "fast", 0.02, 0.003)
    (369, 313)
    """

    def added(columns: int) -> float:
        return projection_error(kernel, density, squared_distance_variance(kind, given, columns))

    low, high = 1, padded(given) if kind == "fast" else MOST_COLUMNS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if added(middle) <= error else (middle + 1, high)
    if low >= given:
        raise InputError(
            f"a projection does not pay: an added error of {error:.2g} takes all {given} columns; allow a larger one "
            "(project_to=), or do not project"
        )
    return low


@lru_cache(maxsize=1024)
def _derivatives(kernel: Kernel, density: float) -> tuple[float, float]:
    """Return v phi'(v) and v^2 phi''(v) where phi is the density, from differences in the log of the distance."""
    length = float(np.asarray(kernel.bandwidth))

    def value(log_distance: float) -> float:
        return float(kernel.value([[0.0]], [[length * math.exp(log_distance)]])[0, 0])

    far = FAR if value(FAR) < density else FARTHEST
    at = float(brentq(lambda each: value(each) - density, -30.0, far))
    step = 1e-3
    below, here, above = value(at - step), value(at), value(at + step)
    first, second = (above - below) / (2 * step), (above - 2 * here + below) / step**2
    return first / 2, (second - 2 * first) / 4
