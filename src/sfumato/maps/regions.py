"""The estimated number of people in a region, with an interval.

What is estimated. A release knows the density only after smoothing, so a record at x counts in the region R with the
share of its own kernel bump that lies in R:

    people(R) = sum over records x of  (integral of k(x, y) over y in R) / (integral of k(x, y) over all y)

that is n times the integral of the normalised density over R. Records well inside R (many bandwidths from its edge)
count as one, those well outside as zero, and those near the edge in part. Compared with the sharp count this moves
people across the edge both ways; the interval is for the smoothed number.

How. The integral is a quadrature: sum over nodes of w_q * answer(y_q), Gauss-Legendre with four nodes for each
bandwidth. All answers share the same noise, so variances of answers must not be added. The functional itself is
decoded instead:

- linear releases: the weights of the sum are G = sum w_q g(y_q), and its noise variance is `variance * |G|^2`; the
  answers' biases, which may go one way together, are added up whole;
- Monte Carlo releases: each term t_i(y) gives one number sum w_q t_i(y_q); these are uncorrelated with one mean, so
  their spread gives the variance of their mean, approximation and noise together (see `decoders.montecarlo`).

A Monte Carlo release has one more source of error: its random frequencies. Over a region of volume V only a share v /
V of them (v the volume of the kernel) varies slowly enough to count, and each of those counts a lot. The spread of the
drawn terms says nothing about frequencies that were not drawn: up to 3 in I may be missing at 95 % (the rule of
three), each worth up to n V / v people, that is 3 n / e with e = I v / V the effective number of terms. Half of that
is added to the standard error. For regions of a few bandwidths it is small; for regions of hundreds of kernel volumes
a release by the grid is far better.

The noisy count cancels: people(R) is a sum, not a mean. Post-processing of a release: no privacy is spent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.decoders.montecarlo import answer_from_terms
from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.maps.interval import LEVEL, Estimate
from sfumato.maps.quadrature import quadrature
from sfumato.quantizers.base import Floats, LinearQuantizer, Quantizer
from sfumato.release import Release

BLOCK_NUMBERS = 1 << 22
UNSEEN_SHARE = 1.5  # half of the 3 in I terms that may be missing, see the module's text
MOST_PRODUCTS = 4 * 10**10  # quadrature nodes times sums of the release: about a minute


def people(release: Release, region: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate how many people (records) are in a region, smoothed by the kernel.

    Parameters
    ----------
    release : Release
        With a shift-invariant kernel.
    region : pairs, or GeoJSON mapping
        One (lower, upper) pair per column, or a GeoJSON Polygon, MultiPolygon, Feature or FeatureCollection in the
        units of a two-column release.
    level : float
        Probability with which the interval holds the smoothed number.

    Returns
    -------
    Estimate
        Subtract the estimates of two releases for their difference with its interval.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(5000, 2))
    >>> release = PrivateKDE(bandwidth=0.5, epsilon=2, n_hint=5000, bounds=(-4, 4)).fit(points).release_
    >>> right = people(release, [(0, 6), (-6, 6)])
    >>> bool(right.lower < 2700 and right.upper > 2300)
    True
    """
    if not isinstance(release.kernel, ShiftInvariantKernel):
        raise InputError("counting people needs a shift-invariant kernel that the release carries; use query")
    nodes, weights = quadrature(region, release.kernel.column_scales(release.dimension))
    if len(nodes) * release.quantizer.size > MOST_PRODUCTS:
        raise InputError(
            f"the region takes {len(nodes):,} queries of {release.quantizer.size:,} sums each, too many; cut it into "
            "smaller regions"
        )
    volume = math.exp(release.kernel.log_integral(release.dimension))
    total, variance = functional(release, nodes, weights / volume)
    if not isinstance(release.quantizer, LinearQuantizer):
        effective_terms = release.quantizer.terms * volume / weights.sum()
        variance += (UNSEEN_SHARE * release.count.value / effective_terms) ** 2
    return Estimate(total, math.sqrt(variance), level)


def functional(release: Release, nodes: Floats, weights: Floats) -> tuple[float, float]:
    """Value and variance of ``sum_q weights[q] * n * answer(nodes[q])``, the errors of all answers taken together."""
    sums = release.values.astype(np.float64)
    quantizer = release.quantizer
    if isinstance(quantizer, LinearQuantizer):
        combined = _combined_weights(quantizer, nodes, weights)
        reading = quantizer.read(nodes, sums)
        variance = max(release.noise.variance, reading.spread)
        # Biases of neighbouring answers may have one sign, so they are added up whole.
        bias = release.count.value * float(weights @ reading.bias)
        return float(combined @ sums), variance * float(combined @ combined) + bias**2
    terms = np.zeros((1, quantizer.terms))
    for part in _blocks(len(nodes), quantizer.terms):
        terms[0] += weights[part] @ quantizer.term_values(nodes[part], sums)
    answer = answer_from_terms(terms, release.groups)
    return float(answer.total[0]), float(answer.standard_error[0]) ** 2


def _combined_weights(quantizer: Quantizer, nodes: Floats, weights: Floats) -> Floats:
    combined = np.zeros(quantizer.size)
    for part in _blocks(len(nodes), quantizer.size):
        combined += weights[part] @ quantizer.weights(nodes[part])
    return combined


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Cut `count` rows of `width` numbers into blocks that fit in memory."""
    block = max(1, BLOCK_NUMBERS // width)
    return (slice(start, start + block) for start in range(0, count, block))
