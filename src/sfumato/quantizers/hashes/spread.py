"""Hash functions that are spread evenly instead of drawn independently: every one has its law, together they vary less.

The uniform numbers of function r are (shift_j + r alpha_j) mod 1, a Kronecker sequence with a random shift (the
lattice rule of R. Cranley and T. Patterson, "Randomization of number theoretic methods", 1976), in 64-bit words. The
shift makes the numbers of each function exactly uniform and independent, so every collision probability is what it
was and answers stay unbiased. Across functions they are spread evenly, so that the mean over functions varies less:
on normal, tabular and text data in 1 to 100 columns the variance over p-stable hashes fell by a factor of 9 to 1.3,
most in few columns. Beyond 128 numbers a function there is nothing to gain, and functions are independent. An error
bar that takes the rows for independent errs on the safe side.

alpha_j = phi^-(j+1), j = 0, 1, ..., for m numbers a function, with phi the positive root of x^(m+1) = x + 1 (the
golden ratio for m = 1), rounded down to multiples of 2**-64.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.public import portable
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats

DIGITS = 60
MOST_SPREAD = 128


class SpreadStream(PublicStream):
    """A public stream whose tables of uniform numbers are spread evenly over their rows; see the module's text."""


def uniform_table(stream: PublicStream, rows: int, count: int) -> Floats:
    """Uniform numbers, `count` for each of `rows` hash functions: independent, or spread if the stream asks for it.

    Examples
    --------
    >>> uniform_table(SpreadStream(7, "example"), 3, 1).round(3).ravel()
    array([0.66 , 0.278, 0.896])
    """
    if not isinstance(stream, SpreadStream) or count > MOST_SPREAD:
        return stream.uniforms(rows * count).reshape(rows, count)
    words = stream.words(count) + np.arange(rows, dtype=np.uint64)[:, None] * _steps(count)
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


@lru_cache(maxsize=64)
def _steps(count: int) -> NDArray[np.uint64]:
    """Return the steps alpha_j in units of 2**-64."""
    with localcontext() as context:
        context.prec = DIGITS
        root = 1 + Decimal(1) / (count + 1)
        for _ in range(60):  # Newton's method
            power = root**count
            root -= (power * root - root - 1) / ((count + 1) * power - 1)
        return np.array([int(root ** -(j + 1) * 2**64) for j in range(count)], dtype=np.uint64)


def normals(uniforms: Floats) -> Floats:
    """Make standard normal numbers from an even number of columns, as `PublicStream.normals` does from pairs."""
    u, v = np.ascontiguousarray(uniforms[:, 0::2]), np.ascontiguousarray(uniforms[:, 1::2])
    radius = np.sqrt(-2.0 * portable.log(u))
    cosine, sine = portable.cos_sin_turns(v)
    return np.stack([radius * cosine, radius * sine], axis=2).reshape(len(uniforms), -1)


def cauchys(uniforms: Floats) -> Floats:
    """Make standard Cauchy numbers, as `PublicStream.cauchys` does."""
    cosine, sine = portable.cos_sin_turns((uniforms - 0.5) * 0.5)
    return np.asarray(sine / cosine)
