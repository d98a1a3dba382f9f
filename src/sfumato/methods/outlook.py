"""Whether answers will be worth having, from what is public: the range of P, and a verdict.

P, the mean kernel value between two records, decides how large answers are. It is private, but bounds and bandwidth
imply a range. Pessimist: records spread evenly over the bounds, which makes two of them as unlike as records that fill
the bounds can be. Optimist: records spread evenly over a box half as wide in every column. For a product over the
columns both are exact, one integral a column, E k(L T) with T the triangular law of |x - y| / L; for other kernels they
are means over public pseudo-random points.

The verdict compares the predicted error with that of the constant answer (`ranking`), over the range: *useful* if the
error is at most half of it for every P there, *noise* if it is not smaller for any, and *marginal* between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel, Product
from sfumato.kernels.shift_invariant import ShiftInvariantKernel
from sfumato.methods.request import SMALLEST_DENSITY, TYPICAL_DENSITY, Request
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box

USEFUL, MARGINAL, NOISE = "useful", "marginal", "noise"
# Mean similarities beyond which a density looks flat, and below which answers drown in errors of some thousandths.
FLAT_DENSITY, SMALL_DENSITY = 0.5, 1e-3
NARROWER = 0.5  # part of each column's width that the optimist's records fill
POINTS = 512
MOST_NUMBERS = 1 << 18  # of a sample: in very many columns fewer points tell as much
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class Outlook:
    """What is known or assumed of P.

    Attributes
    ----------
    low, high : float
        Its range: one value where P is public.
    assumed : float
        The value of the range that predictions are shown for: the one nearest to the typical P.
    source : str
        Where it comes from, in words.
    apart : float or None
        How many bandwidths two points are apart that are spread evenly over the bounds.
    """

    low: float
    high: float
    assumed: float
    source: str
    apart: float | None = None

    @classmethod
    def of(cls, request: Request, told: str | None = None) -> Outlook:
        """Gather what a request implies; `told` says where its density comes from."""
        if "density" in request.options:
            return cls(request.density, request.density, request.density, told or "given")
        kernel, typical = request.kernel, TYPICAL_DENSITY
        if request.bounds is None or isinstance(kernel, Product):
            return cls(typical, typical, typical, "typical; bounds, a public sample or the density would tell more")
        box = request.box
        low, high = (even_density(kernel, _narrowed(box, share)) for share in (1.0, NARROWER))
        high = max(low, high)
        words = "records spread evenly over the bounds, or over half of each column"
        return cls(low, high, min(max(typical, low), high), words, _apart(kernel, box))


def even_density(kernel: Kernel, box: Box) -> float:
    """Mean kernel value between two points spread evenly over a box.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> round(even_density(Gaussian(1.0), Box.from_bounds((0, 10), 2)), 4)
    0.028
    >>> even_density(Gaussian(0.2), Box.from_bounds((0, 1), 784)) < 1e-300
    True
    """
    widths = 2 * box.half_widths
    if isinstance(kernel, ShiftInvariantKernel) and kernel.separable:
        lengths = widths / kernel.column_scales(box.dimension)
        different, times = np.unique(lengths, return_counts=True)
        with np.errstate(divide="ignore", under="ignore"):
            return float(np.exp(np.log([_column(kernel, length) for length in different]) @ times.astype(np.float64)))
    count = max(16, min(POINTS, MOST_NUMBERS // box.dimension))
    first, second = (
        np.asarray(box.lower) + PublicStream(0, name).uniforms(count * box.dimension).reshape(count, -1) * widths
        for name in ("records", "queries")
    )
    try:
        return float(np.clip(kernel.exact_density(first, second).mean(), 0.0, 1.0))
    except InputError:  # a kernel of directions, or one that these columns do not suit
        return TYPICAL_DENSITY


def _column(kernel: ShiftInvariantKernel, length: float) -> float:
    """Integral of 2 (1 - t) k(t L) over [0, 1]: up to a few bandwidths closely, and the rest."""
    total, start = 0.0, 0.0
    for end in [*(edge for edge in (0.25, 1.0, 4.0, 16.0, 256.0) if edge < length), length]:
        differences = start + (end - start) * (NODES + 1) / 2
        factor = np.asarray(kernel.column_profile(differences))
        total += float(WEIGHTS @ (2 * (1 - differences / length) * factor)) * (end - start) / 2
        start = end
    return min(1.0, max(total / length, 0.0))


def _narrowed(box: Box, share: float) -> Box:
    half = box.half_widths * share
    return Box(tuple((box.centre - half).tolist()), tuple((box.centre + half).tolist()), box.outside)


def _apart(kernel: Kernel, box: Box) -> float | None:
    """Root mean square distance of two even points, in bandwidths."""
    if not isinstance(kernel, ShiftInvariantKernel):
        return None
    return math.sqrt(float(np.square(2 * box.half_widths / kernel.column_scales(box.dimension)).sum()) / 6)


def apart_text(apart: float) -> str:
    """Say how far apart two points are.

    Examples
    --------
    >>> apart_text(57.2)
    'two points are about 57 bandwidths apart'
    """
    return f"two points are about {apart:.2g} bandwidths apart"


def verdict(ratios: tuple[float, float]) -> str:
    """Judge the error in units of the constant answer's, at both ends of the range of P.

    Examples
    --------
    >>> verdict((0.1, 0.3)), verdict((0.2, 4.0)), verdict((1.2, 30.0))
    ('useful', 'marginal', 'noise')
    """
    if max(ratios) <= 0.5:
        return USEFUL
    return NOISE if min(ratios) >= 1 else MARGINAL


def sample_density(kernel: Kernel, rows: Floats) -> float:
    """Mean kernel value between two different rows of a public sample, within the limits of a density."""
    values = kernel.value(rows, rows)
    mean = float((values.sum() - np.trace(values)) / (len(rows) * (len(rows) - 1)))
    return min(1.0, max(mean, SMALLEST_DENSITY))
