r"""Elementary functions and public randomness whose every bit is the same on every machine and in every language.

Public randomness (frequencies, hash functions) is shared as a seed, not as numbers: a phone, a browser and a cluster
must derive the same integers from it. The C library's ``log``, ``exp`` and ``sin`` differ in the last bits between
systems and versions, a compiler may fuse a multiplication and an addition into one rounding, and one differing bit now
and then moves a rounded frequency by one unit. The functions here use only operations that IEEE 754 defines exactly:
``+ - * /`` and ``sqrt`` (correctly rounded), rounding to an integer, and scaling by powers of two. Each polynomial has
a fixed number of Taylor terms, evaluated by Horner's rule from the highest one, and each coefficient is one rounding of
``1 / integer``. NumPy runs one elementwise pass for each operation, so nothing is fused.

To port a function, repeat its lines on binary64 numbers, one rounding an operation, with contraction switched off.
Arguments of ordinary size meet no subnormal number on the way, so flush-to-zero modes do not matter. Relative errors
stay below 1e-14.

Anyone derives frequencies and hash functions again from a seed and a label (`PublicStream`). The stream is specified,
not merely seeded, so that a client in another language draws the same numbers to the last bit:

- key: SHA-256 of ``b"sfumato-public-1\0" + label (UTF-8) + b"\0" + seed (32 bytes, big-endian)``;
- words: the AES-256-CTR key stream under that key from a zero counter block (a 128-bit big-endian counter), cut into
  little-endian unsigned 64-bit integers;
- uniforms: ``((word >> 12) + 0.5) * 2^-52``, odd multiples of 2^-53: exact, never 0 or 1, and ``1 - u`` is
  one of them too;
- every other law by the formula in its method, with the functions here.

Nothing secret may be drawn here: whoever knows the seed knows the whole stream.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.public.codec import brief

FloatArray = NDArray[np.float64]

LOG_2 = float.fromhex("0x1.62e42fefa39efp-1")
# LOG_2 in two parts; the first has enough trailing zeros for k * LOG_2_HIGH to be exact at every exponent k.
LOG_2_HIGH = float.fromhex("0x1.62e42feep-1")
LOG_2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
TWO_PI = float.fromhex("0x1.921fb54442d18p+2")
# The bits of the double nearest sqrt(1/2), read as an integer.
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

# atanh(s) / s, sin(a) / a and cos(a) as polynomials in s^2 and a^2, and exp(r) in r; lowest power first.
ATANH_TERMS = tuple(1.0 / (2 * k + 1) for k in range(11))
SINE_TERMS = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))
COSINE_TERMS = tuple((-1) ** k / math.factorial(2 * k) for k in range(9))
EXPONENTIAL_TERMS = tuple(1.0 / math.factorial(k) for k in range(14))


def log(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive, finite, normal numbers.

    With the integer ``e`` for which ``m = x / 2^e`` lies in [sqrt(1/2), sqrt(2)), and ``s = (m - 1) / (m + 1)``:
    ``log x = e log 2 + 2 atanh s``.

    Examples
    --------
    >>> import numpy as np
    >>> log(np.array([1.0, 2.0, 10.0]))
    array([0.        , 0.69314718, 2.30258509])
    """
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    exponent = (bits - SQRT_HALF_BITS) >> 52
    mantissa = (bits - (exponent << 52)).view(np.float64)
    s = mantissa - 1.0
    mantissa += 1.0
    s /= mantissa
    result = _polynomial(ATANH_TERMS, s * s)
    s *= 2.0
    result *= s
    result += exponent * LOG_2
    return result


def exp(x: FloatArray) -> FloatArray:
    """Exponential of finite numbers: with ``k = rint(x / log 2)``, ``2^k`` times a polynomial in ``x - k log 2``.

    Examples
    --------
    >>> import numpy as np
    >>> exp(np.array([0.0, 1.0, -2.0]))
    array([1.        , 2.71828183, 0.13533528])
    """
    # Beyond these limits the result is 0 or infinite anyway, and the exponent below fits a small integer.
    x = np.clip(x, -800.0, 800.0)
    power = np.rint(x / LOG_2)
    remainder = (x - power * LOG_2_HIGH) - power * LOG_2_LOW
    return np.asarray(np.ldexp(_polynomial(EXPONENTIAL_TERMS, remainder), power.astype(np.int32)), dtype=np.float64)


def cos_sin_turns(turns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cosine and sine of angles given in whole turns, of magnitude below 2^50.

    The nearest quarter turn is subtracted first, which is exact; polynomials cover the remaining eighth of a turn.

    Examples
    --------
    >>> import numpy as np
    >>> cosine, sine = cos_sin_turns(np.array([0.0, 0.25, 1 / 12]))
    >>> (cosine + 0.0).round(6), sine.round(6)
    (array([1.      , 0.      , 0.866025]), array([0. , 1. , 0.5]))
    """
    quarters = np.rint(turns * 4.0)
    angle = turns - quarters * 0.25
    angle *= TWO_PI
    square = angle * angle
    sine = _polynomial(SINE_TERMS, square)
    sine *= angle
    cosine = _polynomial(COSINE_TERMS, square)
    quadrant = quarters.astype(np.int64)
    swapped = (quadrant & 1).astype(np.bool_)
    first = np.where(swapped, sine, cosine)
    second = np.where(swapped, cosine, sine)
    # The cosine is negative in quadrants 1 and 2, the sine in 2 and 3.
    first *= 1 - ((quadrant + 1) & 2)
    second *= 1 - (quadrant & 2)
    return first, second


def inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a square matrix by Gauss-Jordan elimination; not finite if a pivot is zero.

    The pivot is the first entry of largest magnitude at or below the diagonal. LAPACK would be faster, but its order of
    operations differs between machines.

    Examples
    --------
    >>> import numpy as np
    >>> inverse(np.array([[2.0, 1.0], [0.0, 4.0]]))
    array([[ 0.5  , -0.125],
           [ 0.   ,  0.25 ]])
    """
    size = len(matrix)
    table = np.hstack([matrix, np.eye(size)])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for column in range(size):
            pivot = column + int(np.argmax(np.abs(table[column:, column])))
            table[[column, pivot]] = table[[pivot, column]]
            table[column] /= table[column, column]
            factors = table[:, column].copy()
            factors[column] = 0.0
            table -= factors[:, None] * table[column]
    # Adding zero turns -0.0 into 0.0.
    return table[:, size:] + 0.0


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Matrix product ``left @ right``, every sum taken from the first term to the last.

    Examples
    --------
    >>> import numpy as np
    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    array([[13., 16.]])
    """
    rows, inner = left.shape
    result = np.zeros((rows, right.shape[1]))
    width = max(64, 2**15 // max(rows, 1))
    for start in range(0, right.shape[1], width):
        block = slice(start, start + width)
        for term in range(inner):
            result[:, block] += left[:, term, None] * right[term, block]
    return result


def _polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    result = x * coefficients[-1]
    result += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result *= x
        result += coefficient
    return result


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
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= int(seed) <= LARGEST_SEED:
            raise InputError(f"a public seed must be an integer from 0 to 2**256 - 1; got {brief(seed)}")
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
            radius = np.sqrt(-2.0 * log(u))
            cosine, sine = cos_sin_turns(v)
            np.multiply(radius, cosine, out=result[block, 0])
            np.multiply(radius, sine, out=result[block, 1])
        return result.reshape(-1)[:count]

    def cauchys(self, count: int) -> FloatArray:
        """Draw standard Cauchy numbers, ``tan(pi (u - 1/2))`` as a quotient of sine and cosine, one word each."""
        result = np.empty(_checked(count))
        for block in _blocks(count):
            u = self._uniforms(block.stop - block.start)
            cosine, sine = cos_sin_turns((u - 0.5) * 0.5)
            np.divide(sine, cosine, out=result[block])
        return result

    def laplaces(self, count: int) -> FloatArray:
        """Draw standard Laplace numbers (density ``exp(-|x|) / 2``), one word each.

        ``t = 2 u - 1`` gives the sign of ``t`` times ``-log(1 - |t|)``.
        """
        result = np.empty(_checked(count))
        for block in _blocks(count):
            t = 2.0 * self._uniforms(block.stop - block.start) - 1.0
            np.copysign(log(1.0 - np.abs(t)), t, out=result[block])
        return result

    def stables(self, count: int, p: float) -> FloatArray:
        """Draw symmetric p-stable numbers, characteristic function ``exp(-|t|^p)``, two words each.

        Chambers, Mallows and Stuck's formula: ``(u, v)`` gives ``theta = (u - 1/2) / 2`` turns, an exponential
        ``E = -log v`` and the number ``sin(p theta) cos(theta)^(-1/p) (cos((p - 1) theta) / E)^((1 - p) / p)``, its
        powers through `log` and `exp`. It is tan(theta), Cauchy, at p = 1 and 2 sqrt(E) sin(theta),
        normal of variance 2, at p = 2.

        Parameters
        ----------
        count : int
            How many numbers.
        p : float
            Stability, from 1 to 2.
        """
        if not 1.0 <= p <= 2.0:
            raise InputError(f"the stability p must lie between 1 and 2; got {brief(p)}")
        result = np.empty(_checked(count))
        for block in _blocks(count):
            u, v = self._uniform_pairs(block.stop - block.start)
            theta = (u - 0.5) * 0.5
            cosine, _ = cos_sin_turns(theta)
            _, sine = cos_sin_turns(p * theta)
            tilted_cosine, _ = cos_sin_turns((p - 1.0) * theta)
            log_ratio = log(tilted_cosine) - log(-log(v))
            log_power = ((1.0 - p) / p) * log_ratio - (1.0 / p) * log(cosine)
            np.multiply(sine, exp(log_power), out=result[block])
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
