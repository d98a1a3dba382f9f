"""Public rotations that are exact on whole numbers: a dense one, and the fast Walsh-Hadamard transform.

Both are drawn from a seed and the same on every machine. The Walsh-Hadamard transform of a row, in place, takes d
log2(d) additions. Rows hold whole numbers in float64; every intermediate value is a signed sum of some of a row's
numbers, so it is exact as long as d times the largest of them stays below 2^53. Each row is transformed by itself.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.compiled import njit
from sfumato.public.portable import PublicStream
from sfumato.public.ranges import check_reader_work
from sfumato.quantizers.base import Floats

ROTATION_BITS, MOST_ROTATED = 24, 2048


def check_rotation(dimension: int) -> None:
    """Refuse a rotation that takes a reader too long: its vectors are made orthonormal twice, and lie in no cache.

    Examples
    --------
    >>> check_rotation(1000)
    """
    check_reader_work(4 * dimension**3, "fewer columns")


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


@njit(reads=True, nogil=True, cache=True)
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


@njit(reads=True, nogil=True, cache=True)
def transform(rows):  # type: ignore[no-untyped-def]
    """Multiply every row, of a power of two of numbers, by the matrix of entries (-1)^popcount(i & j).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> transform(rows)
    >>> rows
    array([[10., -2., -4.,  0.]])
    """
    size = rows.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        half = _eights(row) if size >= 8 else 1
        while 4 * half <= size:
            _fours(row, half)
            half *= 4
        while half < size:
            for start in range(0, size, 2 * half):
                for j in range(start, start + half):
                    a, b = row[j], row[j + half]
                    row[j], row[j + half] = a + b, a - b
            half *= 2


@njit(reads=True, nogil=True, cache=True)
def _eights(row):  # type: ignore[no-untyped-def]
    """First three stages, eight numbers at a time, which stay in registers."""
    for s in range(0, len(row), 8):
        a0, a1, a2, a3 = row[s], row[s + 1], row[s + 2], row[s + 3]
        a4, a5, a6, a7 = row[s + 4], row[s + 5], row[s + 6], row[s + 7]
        b0, b1, b2, b3 = a0 + a4, a1 + a5, a2 + a6, a3 + a7
        b4, b5, b6, b7 = a0 - a4, a1 - a5, a2 - a6, a3 - a7
        a0, a1, a2, a3 = b0 + b2, b1 + b3, b0 - b2, b1 - b3
        a4, a5, a6, a7 = b4 + b6, b5 + b7, b4 - b6, b5 - b7
        row[s], row[s + 1], row[s + 2], row[s + 3] = a0 + a1, a0 - a1, a2 + a3, a2 - a3
        row[s + 4], row[s + 5], row[s + 6], row[s + 7] = a4 + a5, a4 - a5, a6 + a7, a6 - a7
    return 8


@njit(reads=True, nogil=True, cache=True)
def _fours(row, half):  # type: ignore[no-untyped-def]
    """Two stages in one pass over the row."""
    for start in range(0, len(row), 4 * half):
        first, second = row[start : start + half], row[start + half : start + 2 * half]
        third, fourth = row[start + 2 * half : start + 3 * half], row[start + 3 * half : start + 4 * half]
        for j in range(half):
            a, b, c, d = first[j], second[j], third[j], fourth[j]
            ac, bd, ca, db = a + c, b + d, a - c, b - d
            first[j], second[j], third[j], fourth[j] = ac + bd, ac - bd, ca + db, ca - db


@njit(reads=True, nogil=True, cache=True)
def signed_transform(rows, signs, chosen, scale, images):  # type: ignore[no-untyped-def]
    """Fill rows up with zeros, flip signs, transform, and write the chosen numbers times `scale` to `images`."""
    work = np.zeros((1, len(signs)))
    width = rows.shape[1]
    for i in range(rows.shape[0]):
        for j in range(width):
            work[0, j] = rows[i, j] * signs[j]
        work[0, width:] = 0.0
        transform(work)
        for j in range(len(chosen)):
            images[i, j] = work[0, chosen[j]] * scale


def padded(columns: int) -> int:
    """Smallest power of two that is not below `columns`.

    Examples
    --------
    >>> padded(2048), padded(2049)
    (2048, 4096)
    """
    return 1 << (columns - 1).bit_length()
