"""A public random rotation on whole numbers, drawn from a seed and the same on every machine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.compiled import njit
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats

ROTATION_BITS, MOST_ROTATED = 24, 2048


@lru_cache(maxsize=4)
def rotation(dimension: int, seed: int) -> Floats:
    """Public random rotation as whole numbers of 2^-24, the same on every machine.

    Normal vectors made orthonormal one after the other, each against all before it, twice; every sum is taken from the
    first term to the last.

    Examples
    --------
    >>> turn = np.ldexp(rotation(5, seed=1), -ROTATION_BITS)
    >>> bool(np.abs(turn @ turn.T - np.eye(5)).max() < 1e-6)
    True
    """
    normals = PublicStream(seed, "inner-product/rotation").normals(dimension * dimension)
    turned = np.rint(np.ldexp(_orthonormal(normals.reshape(dimension, dimension)), ROTATION_BITS))
    turned.setflags(write=False)
    return np.asarray(turned)


@njit(nogil=True, cache=True)
def _orthonormal(vectors):  # type: ignore[no-untyped-def]
    size = len(vectors)
    columns = np.zeros((size, size))  # the finished vectors side by side, so that the inner loops run over them
    result = np.empty((size, size))
    products = np.empty(size)
    for i in range(size):
        vector = vectors[i].copy()
        for _ in range(2):
            products[:i] = 0.0
            for k in range(size):
                for j in range(i):
                    products[j] += columns[k, j] * vector[k]
            for j in range(i):
                for k in range(size):
                    vector[k] -= products[j] * result[j, k]
        square = 0.0
        for k in range(size):
            square += vector[k] * vector[k]
        length = np.sqrt(square)
        for k in range(size):
            result[i, k] = vector[k] / length
            columns[k, i] = result[i, k]
    return result
