"""The estimated number of people in a region, with an interval.

What is estimated. A release knows the density only after smoothing, so a record at x counts in the region R with the
share of its own kernel bump that lies in R:

    people(R) = sum over records x of  (integral of k(x, y) over y in R) / (integral of k(x, y) over all y)

that is n times the integral of the normalised density over R. Records well inside R (many bandwidths from its edge)
count as one, those well outside as zero, and those near the edge in part. Compared with the sharp count this moves
people across the edge both ways; the interval is for the smoothed number. `sharp` counts without smoothing, where the
release allows that.

How. The integral is a sum over nodes of w_q * answer(y_q) (`quadrature`). All answers share the same noise, so
variances of answers must not be added. The functional itself is decoded instead:

- linear releases: the weights of the sum are G = sum w_q g(y_q), and its noise variance is `variance * |G|^2`; its
  bias for a record at x is f(x).G minus the integral, which is computed at places in the region, likelier where people
  are; records may all stand where it has one sign, so their biases are added up whole;
- Monte Carlo releases: each term t_i(y) gives one number sum w_q t_i(y_q); these are uncorrelated with one mean, so
  their spread gives the variance of their mean, approximation and noise together (see `quantizers.answer`).

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
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.maps.interval import LEVEL, Estimate
from sfumato.maps.quadrature import check_nodes, quadrature, side_counts, sides_of
from sfumato.public.codec import brief
from sfumato.quantizers.base import Encoder, Floats, Mesh
from sfumato.quantizers.box import Box
from sfumato.release import Release

BLOCK_NUMBERS = 1 << 22
UNSEEN_SHARE = 1.5  # half of the 3 in I terms that may be missing, see the module's text
WAVE_PRODUCTS = 8  # that take as long as a cosine and a sine
MOST_PRODUCTS = 4 * 10**9  # of weights and sums, for all quadrature nodes together: a minute or so
PROBES, PROBE_SEED = 128, 7


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
    if not isinstance(release, Release):
        raise InputError(f"people are counted in a release, got {brief(release)}")
    if not isinstance(release.kernel, ShiftInvariantKernel):
        raise InputError("counting people needs a shift-invariant kernel that the release carries; use query")
    lengths = release.kernel.column_scales(release.dimension)
    integral = _box_integral(release, region, lengths) or _integral(release, *quadrature(region, lengths))
    total, variance, extent = integral
    volume = math.exp(release.kernel.log_integral(release.dimension))
    if not volume:
        raise InputError("the kernel is too narrow for counting people: change the units of the columns")
    total, variance = total / volume, variance / volume / volume  # the square of a small volume may be 0
    if release.reader.terms > 1:
        unseen = UNSEEN_SHARE * release.count.value * (extent / volume) / release.reader.terms
        variance += unseen * unseen  # infinite where a power would raise
    return Estimate(total, math.sqrt(variance), level)


def _box_integral(release: Release, region: Any, lengths: Floats) -> tuple[float, float, float] | None:
    """Value, variance and extent of the integral over a box, if the reader can take its columns apart."""
    if isinstance(region, Mapping):
        return None
    box = Box.from_bounds(region, len(lengths))
    nodes = float(side_counts(box, lengths).sum())
    check_nodes(nodes)
    _check_work(nodes, WAVE_PRODUCTS * release.reader.terms)
    sides = sides_of(box, lengths)
    mesh, weights = Mesh(tuple(nodes for nodes, _ in sides)), [own for _, own in sides]
    found = release.reader.combined_mesh(mesh, weights, release.values.astype(np.float64), release.known)
    if found is None:
        return None
    return found.total, found.variance, math.prod((float(own.sum()) for own in weights), start=1.0)


def _integral(release: Release, nodes: Floats, weights: Floats) -> tuple[float, float, float]:
    _check_work(len(nodes), release.reader.query_products)
    return *functional(release, nodes, weights), float(weights.sum())


def _check_work(nodes: float, products: int) -> None:
    if nodes * products > MOST_PRODUCTS:
        raise InputError(
            f"the region takes {nodes:,.0f} queries of {products:,} products each, too many; cut it into smaller "
            "regions"
        )


def functional(release: Release, nodes: Floats, weights: Floats) -> tuple[float, float]:
    """Value and variance of ``sum_q weights[q] * n * answer(nodes[q])``, the errors of all answers taken together."""
    found = release.reader.combined(nodes, weights, release.values.astype(np.float64), release.known)
    if not found.stated:
        return found.total, found.variance
    bias = found.stated
    if found.weights is not None and isinstance(release.reader, Encoder):
        misfit = _misfit(release, release.reader, found.weights, nodes, weights, found.answers)
        # An encoder that hashes has its randomness in the misfit of single records: there the stated biases are less.
        # Where no answer shows anybody, no places can be probed, and only the stated biases are known.
        bias = bias if math.isinf(misfit) else min(misfit * max(found.total, 0.0), bias)
    return found.total, found.variance + bias**2


def _misfit(
    release: Release, encoder: Encoder, combined: Floats, nodes: Floats, weights: Floats, answers: Floats
) -> float:
    """Root mean square of |f(x).G - integral of k(x, y)| over places x in the region, likelier where people are.

    Infinite where the answers show nobody.
    """
    inside = encoder.box.holds(nodes)
    chances = np.where(inside, weights * np.maximum(answers, 0), 0.0)
    if release.kernel is None or not 0 < (whole := float(chances.sum())) < math.inf:
        return math.inf
    chosen = np.random.default_rng(PROBE_SEED).choice(len(nodes), size=PROBES, p=chances / whole)
    missed = np.empty(PROBES)
    for part in _blocks(PROBES, max(len(nodes), encoder.size)):
        probes = nodes[chosen[part]]
        missed[part] = encoder.encode(probes) @ combined - release.kernel.value(probes, nodes) @ weights
    return math.sqrt(float(np.square(missed).mean()))


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Cut `count` rows of `width` numbers into blocks that fit in memory."""
    block = max(1, BLOCK_NUMBERS // width)
    return (slice(start, start + block) for start in range(0, count, block))
