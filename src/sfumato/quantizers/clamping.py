"""Hard integer clamps: on one number, and on a record's Euclidean length where features lie in a ball.

Rows with a value that is not a finite number are dropped before they get here, and the stated limits of public
parameters (`public.ranges`) keep what is computed from the others finite. The clamps do not rest on that: a number
that is none counts as the lower end (0 in a ball), and nothing is converted to an integer that is not known to fit.
"""

from __future__ import annotations

import numpy as np

from sfumato.compiled import njit


@njit(nogil=True, cache=True)
def held(value, low, high):  # type: ignore[no-untyped-def]
    """Convert to a whole number from `low` to `high`, both below 2^53, rounding towards 0; what is no number is `low`.

    Examples
    --------
    >>> held(2.7, 0, 9), held(1e300, 0, 9), held(float("nan"), 0, 9)
    (2, 9, 0)
    """
    if not value > low:
        return np.int64(low)
    return np.int64(high) if value >= high else np.int64(value)


@njit(nogil=True, cache=True)
def round_into_ball(values, unit, scale, encoded):  # type: ignore[no-untyped-def]
    """Round `unit * values` to integers of squared length at most scale^2, in place of `encoded`; return that square.

    With N the squared length after rounding, N > scale^2 turns every |f_j| into floor(|f_j| scale / ceil(sqrt(N))), so
    that the new square is at most scale^2 N / ceil(sqrt(N))^2 <= scale^2, whatever the values were.
    """
    length = 0
    for j in range(len(values)):
        value = values[j] * unit
        rounded = held(np.rint(value), -scale, scale) if value == value else 0
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
