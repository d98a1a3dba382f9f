r"""Public randomness: frequencies and hash functions that anyone re-derives from a seed and a label.

The stream is specified, not merely seeded, so that a client in another language draws the same numbers to the last bit:

- key: SHA-256 of ``b"sfumato-public-1\0" + label (UTF-8) + b"\0" + seed (32 bytes, big-endian)``;
- words: the AES-256-CTR key stream under that key from a zero counter block (a 128-bit big-endian counter), cut into
  little-endian unsigned 64-bit integers;
- uniforms: ``((word >> 12) + 0.5) * 2^-52``, odd multiples of 2^-53: exact, never 0 or 1, and ``1 - u`` is
  one of them too;
- every other law by the formula in its method, with the functions of :mod:`sfumato.public.portable`.

Nothing secret may be drawn here: whoever knows the seed knows the whole stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.public import portable
from sfumato.public.portable import FloatArray

SEED_BYTES = 32
LARGEST_SEED = 2 ** (8 * SEED_BYTES) - 1
# Draws a block: the temporaries of one block stay in the processor's cache.
BLOCK = 8192


class PublicStream:
    """A stream of public random numbers, the same on every machine.

    Calls consume the stream in order. One call for ``a + b`` draws equals a call for ``a`` and one for ``b``; only
    `normals`, which come in pairs, need ``a`` to be even for that.

    Parameters
    ----------
    seed : int
        Public seed, from 0 to 2**256 - 1.
    label : str
        What the numbers are for; streams with different labels are independent.

    Examples
    --------
    >>> PublicStream(7, "example").words(2)
    array([12182391146936902017, 10401513648497974061], dtype=uint64)
    >>> PublicStream(7, "example").normals(3).round(6)
    array([-0.838564, -0.355814, -0.00603 ])
    """

    def __init__(self, seed: int, label: str) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= LARGEST_SEED:
            raise InputError(f"a public seed must be an integer from 0 to 2**256 - 1; got {seed!r}")
        self.seed = int(seed)
        self.label = label
        message = b"sfumato-public-1\0" + label.encode() + b"\0" + self.seed.to_bytes(SEED_BYTES, "big")
        key = hashlib.sha256(message).digest()
        self._keystream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def __repr__(self) -> str:
        return f"PublicStream(seed={self.seed}, label={self.label!r})"

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw uniform unsigned 64-bit integers."""
        return np.frombuffer(self._keystream.update(bytes(8 * _checked(count))), dtype="<u8").astype(np.uint64)

    def uniforms(self, count: int) -> FloatArray:
        """Draw uniform numbers strictly between 0 and 1: ``((word >> 12) + 0.5) * 2^-52``, one word each."""
        result = np.empty(_checked(count))
        for block in _blocks(count):
            result[block] = self._uniforms(block.stop - block.start)
        return result

    def normals(self, count: int) -> FloatArray:
        """Draw standard normal numbers by Box and Muller's formula, two words a pair.

        ``(u, v)`` gives ``r cos(2 pi v)`` and ``r sin(2 pi v)``, in this order, with ``r = sqrt(-2 log u)``. For an odd
        count the last sine is dropped.
        """
        pairs = (_checked(count) + 1) // 2
        result = np.empty((pairs, 2))
        for block in _blocks(pairs):
            u, v = self._uniform_pairs(block.stop - block.start)
            radius = np.sqrt(-2.0 * portable.log(u))
            cosine, sine = portable.cos_sin_turns(v)
            np.multiply(radius, cosine, out=result[block, 0])
            np.multiply(radius, sine, out=result[block, 1])
        return result.reshape(-1)[:count]

    def cauchys(self, count: int) -> FloatArray:
        """Draw standard Cauchy numbers, ``tan(pi (u - 1/2))`` as a quotient of sine and cosine, one word each."""
        result = np.empty(_checked(count))
        for block in _blocks(count):
            u = self._uniforms(block.stop - block.start)
            cosine, sine = portable.cos_sin_turns((u - 0.5) * 0.5)
            np.divide(sine, cosine, out=result[block])
        return result

    def laplaces(self, count: int) -> FloatArray:
        """Draw standard Laplace numbers (density ``exp(-|x|) / 2``), one word each.

        ``t = 2 u - 1`` gives the sign of ``t`` times ``-log(1 - |t|)``.
        """
        result = np.empty(_checked(count))
        for block in _blocks(count):
            t = 2.0 * self._uniforms(block.stop - block.start) - 1.0
            np.copysign(portable.log(1.0 - np.abs(t)), t, out=result[block])
        return result

    def stables(self, count: int, p: float) -> FloatArray:
        """Draw symmetric p-stable numbers, characteristic function ``exp(-|t|^p)``, two words each.

        Chambers, Mallows and Stuck's formula: ``(u, v)`` gives ``theta = (u - 1/2) / 2`` turns, an exponential
        ``E = -log v`` and the number ``sin(p theta) cos(theta)^(-1/p) (cos((p - 1) theta) / E)^((1 - p) / p)``, its
        powers through `portable.log` and `portable.exp`. It is tan(theta), Cauchy, at p = 1 and 2 sqrt(E) sin(theta),
        normal of variance 2, at p = 2.

        Parameters
        ----------
        count : int
            How many numbers.
        p : float
            Stability, from 1 to 2.
        """
        if not 1.0 <= p <= 2.0:
            raise InputError(f"the stability p must lie between 1 and 2; got {p!r}")
        result = np.empty(_checked(count))
        for block in _blocks(count):
            u, v = self._uniform_pairs(block.stop - block.start)
            theta = (u - 0.5) * 0.5
            cosine, _ = portable.cos_sin_turns(theta)
            _, sine = portable.cos_sin_turns(p * theta)
            tilted_cosine, _ = portable.cos_sin_turns((p - 1.0) * theta)
            log_ratio = portable.log(tilted_cosine) - portable.log(-portable.log(v))
            log_power = ((1.0 - p) / p) * log_ratio - (1.0 / p) * portable.log(cosine)
            np.multiply(sine, portable.exp(log_power), out=result[block])
        return result

    def _uniforms(self, count: int) -> FloatArray:
        # The shifted words are below 2^52: their signed reading is the same, and its conversion is the quicker one.
        result = (self.words(count) >> np.uint64(12)).view(np.int64).astype(np.float64)
        result += 0.5
        result *= 2.0**-52
        return result

    def _uniform_pairs(self, count: int) -> FloatArray:
        """Shape (2, count): the even-numbered and the odd-numbered uniforms of ``2 count``."""
        return np.ascontiguousarray(self._uniforms(2 * count).reshape(count, 2).T)


def _checked(count: int) -> int:
    if count < 0:
        raise InputError(f"the number of draws must not be negative; got {count}")
    return count


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))
