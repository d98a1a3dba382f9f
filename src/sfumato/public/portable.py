"""Elementary functions whose every bit is the same on every machine and in every language.

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
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

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
