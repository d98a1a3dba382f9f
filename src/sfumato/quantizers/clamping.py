"""The hard integer clamp on a record's Euclidean length, shared by quantizers whose features lie in a ball."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def round_into_ball(values, unit, scale, encoded):  # type: ignore[no-untyped-def]
    """Round `unit * values` to integers of squared length at most scale^2, in place of `encoded`; return that square.

    With N the squared length after rounding, N > scale^2 turns every |f_j| into floor(|f_j| scale / ceil(sqrt(N))), so
    that the new square is at most scale^2 N / ceil(sqrt(N))^2 <= scale^2, whatever the values were.
    """
    length = 0
    for j in range(len(values)):
        value = min(max(values[j] * unit, -float(scale)), float(scale))
        rounded = int(np.rint(value))
        encoded[j] = rounded
        length += rounded * rounded
    if length > scale * scale:
        root = int(np.sqrt(float(length)))
        while root * root < length:
            root += 1
        length = 0
        for j in range(len(values)):
            shrunk = abs(encoded[j]) * scale // root
            encoded[j] = shrunk if encoded[j] > 0 else -shrunk
            length += shrunk * shrunk
    return length
