"""A Fourier series on a box as bits: which modes are sent, and how often.

Every bit costs the same and has the same noise, whatever its weight in an answer, so that a mode of a large coefficient
is sent several times (`quantizers.lattice`). With k_j pairs of mode j, a = 4 V / n^2 + 1 / (2 n) the variance of one
mean of bits in units of the range, an answer has the mean square error

    4 a sum over the modes sent of c_j^2 / k_j + 2 sum over the others of c_j^2 + wrapping^2,

and more where queries lie near the records (`quantizers.lattice`), by which periods and numbers are compared.

What one more pair gains falls with every pair of its mode, from 2 c_j^2 (1 - 2 a) for the first to 4 a c_j^2 / (k (k +
1)) for the one after k, so that taking the largest gains one after the other is best. V depends on how many pairs there
are, not on which.

How many: a pair costs everybody two messages, and past the modes that matter all it buys is averaging over bits. Up
to `FEW` messages the error alone decides; more are asked for where these have over `WORTH` times the least error, and
then no more than come within twice the least.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.request import Request
from sfumato.quantizers import Box, LatticeQuantizer
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.series import MARGINS, MOST_MODE, Modes, modes

MOST_COLUMNS = 3
MOST_PAIRS = 1024
SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)  # numbers of instances
FEW, WORTH = 192, 4


def refuse(request: Request) -> str | None:
    """Why a series does not apply."""
    kernel = request.kernel
    if not isinstance(kernel, ShiftInvariantKernel) or not kernel.separable or not kernel.portable:
        return "a Fourier series on a box needs a kernel by name that is a product over the columns"
    if request.bounds is None:
        return "a Fourier series needs public bounds: pass bounds=, one (lower, upper) pair for each column"
    if request.dimension > MOST_COLUMNS:
        return f"a Fourier series is for up to {MOST_COLUMNS} columns"
    if max(_extents(kernel, _box(request))) > MOST_MODE:
        return f"the bounds span more than {MOST_MODE} bandwidths: pass tighter bounds or larger bandwidths"
    return None


def _box(request: Request) -> Box:
    return Box.from_bounds(request.bounds, request.dimension)


def _extents(kernel: ShiftInvariantKernel, box: Box) -> tuple[float, ...]:
    return tuple(float(length) for length in 2 * box.half_widths / kernel.column_scales(box.dimension))


def best_series(request: Request, pairs: int, variance: float) -> LatticeQuantizer:
    """Choose periods and pairs of least predicted error.

    Parameters
    ----------
    request : Request
        The public facts.
    pairs : int
        How many.
    variance : float
        V, of one sum of bits.
    """
    assert isinstance(request.kernel, ShiftInvariantKernel)
    kernel, box = request.kernel, _box(request)
    mean = 4 * variance / request.n**2 + 1 / (2 * request.n)
    choices = [modes(kernel, _extents(kernel, box), margin, MOST_PAIRS) for margin in MARGINS]
    repeats = [allotted(found.coefficients, pairs, mean) for found in choices]
    pairs_of = zip(choices, repeats, strict=True)
    errors = [_error(found, each, mean, request.density) for found, each in pairs_of]
    best = int(np.argmin(errors))
    chosen = np.repeat(choices[best].modes, repeats[best], axis=0)
    return LatticeQuantizer(kernel, box, choices[best].periods, chosen, np.ones(pairs, dtype=np.int64))


def allotted(coefficients: Floats, pairs: int, mean: float) -> Integers:
    """Share pairs out among modes, see the module's text.

    Examples
    --------
    >>> allotted(np.array([0.3, 0.1, 0.01]), 8, mean=0.01)
    array([5, 2, 1])
    """
    # Every mode before the i-th has as many pairs as it, so that it has the i-th part of all at most.
    most = pairs // np.arange(1, len(coefficients) + 1)
    which = np.repeat(np.arange(len(coefficients)), most)
    before = np.arange(len(which)) - np.repeat(np.cumsum(most) - most, most)
    later = 2 * mean / (np.maximum(before, 1) * (before + 1.0))
    gains = np.square(coefficients)[which] * np.where(before == 0, max(1 - 2 * mean, mean), later)
    order = np.argsort(-gains, kind="stable")[:pairs]
    return np.bincount(which[order], minlength=len(coefficients))


def _error(found: Modes, repeats: Integers, mean: float, density: float) -> float:
    sizes, repeats = np.abs(found.coefficients[repeats > 0]), repeats[repeats > 0]
    missed = found.missed(sizes.sum(), np.square(sizes).sum(), density)
    return 4 * mean * float((np.square(sizes) / repeats).sum()) + float(missed)
