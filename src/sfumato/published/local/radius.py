"""A radius from public points: it is part of what is promised, so it must not be read off the participants' points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.published.local.closeness import closeness_of

NEIGHBOUR = 100


def public_radius(kernel: Kernel, points: ArrayLike, neighbour: int = NEIGHBOUR) -> float:
    """Choose a radius from public points: their mean distance to the 100th nearest neighbour, to two digits.

    Parameters
    ----------
    kernel : Kernel
        It decides the metric; for `Angular` the radius is an angle in radians.
    points : array-like, shape (n, dimension)
        Public points, or synthetic ones that are like the participants'.
    neighbour : int
        Which neighbour.

    Examples
    --------
    >>> from sfumato.kernels import L2LSH
    >>> public_radius(L2LSH(1.0), np.linspace(0.0, 1.0, 1001)[:, None])
    0.053
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or len(rows) <= neighbour:
        raise InputError(f"a radius from public points needs a table of more than {neighbour} rows")
    metric = closeness_of(kernel.to_document()).metric
    if metric == "angle":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    search = NearestNeighbors(n_neighbors=neighbour, metric="euclidean" if metric == "angle" else metric)
    far = search.fit(rows > 0.5 if metric == "jaccard" else rows).kneighbors()[0][:, -1]
    # The angle from the chord.
    radius = float(np.mean(2 * np.arcsin(np.minimum(far / 2, 1)) if metric == "angle" else far))
    if radius <= 0:
        raise InputError("the public points are all alike; pass radius= itself")
    return float(f"{radius:.1e}")
