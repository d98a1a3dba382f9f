"""Scores of many public rows: the answers of a release without their error bars, as fast as its features allow.

Rows of a pool are public and their scores are post-processing, so nothing here has to be exact: Fourier features are
computed in single precision, a matrix product and one pass of cosines for each block of rows. A row's score then
differs from `Release.query` by about 1e-6 of the size of the terms, far below the noise. Other releases are asked by
`Release.query`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import Distance
from sfumato.quantizers import FourierQuantizer, ShardedFourier
from sfumato.quantizers.base import Floats
from sfumato.quantizers.cosines import pair_amplitudes
from sfumato.release import Release

ROW_BLOCK = 256
LARGEST_TURNS = 64.0  # beyond, single precision loses the phase
Scorer = Callable[[NDArray[Any]], Floats]


def scorer(release: Release) -> Scorer:
    """Return the function that scores rows: the mean similarity to the records, or minus the mean distance.

    A row that is not made of finite numbers has the score minus infinity.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(1000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=5.0, n_hint=1000, method="lsq-rff").fit(points).release_
    >>> near, far, odd = scorer(release)(np.array([[0.0, 0.0], [9.0, 9.0], [np.nan, 0.0]]))
    >>> bool(near > far > odd)
    True
    """
    sign = -1.0 if isinstance(release.kernel, Distance) else 1.0

    def ask(rows: NDArray[Any]) -> Floats:
        return sign * release.query(rows)

    quick = _fourier(release)

    def score(rows: NDArray[Any]) -> Floats:
        # One pass: a sum of squares is finite only if all are; it is cheaper than asking every number.
        if np.isfinite(np.einsum("ij,ij->", rows, rows)):
            return quick(rows) if quick is not None else ask(rows)
        finite = np.isfinite(rows).all(axis=1)
        if finite.all():
            return ask(rows)
        scores = np.full(len(rows), -np.inf)
        if finite.any():
            scores[finite] = score(rows[finite])
        return scores

    return score


def _fourier(release: Release) -> Scorer | None:
    """Quick way for Fourier features, where the release has them."""
    quantizer, sums = release.quantizer, release.values.astype(np.float64)
    if not isinstance(quantizer, FourierQuantizer | ShardedFourier) or release.groups > 1:
        return None
    if isinstance(quantizer, FourierQuantizer) and quantizer.layout == "phase":
        lengths, shifts = 2 * sums, np.zeros(quantizer.terms)
    else:
        lengths, shifts = pair_amplitudes(sums)
    if isinstance(quantizer, ShardedFourier):
        lengths = lengths * quantizer.groups
    phases = quantizer.phases
    unit = 2.0**-phases.bits
    turns = phases.frequencies * (unit / phases.lattice.steps[:, None])
    # The lattice's centre goes into the offsets: rows are taken as they are.
    centre = phases.lattice.centre * phases.lattice.steps
    offsets = phases.offsets * unit - shifts - centre @ turns
    single = turns.astype(np.float32)
    heights = (lengths / (quantizer.gain * quantizer.terms * release.count.value)).astype(np.float32)
    offsets32 = (offsets - np.rint(offsets)).astype(np.float32)
    longest = float(np.sqrt(np.square(turns).sum(axis=0).max()))

    def score(rows: NDArray[Any]) -> Floats:
        if np.sqrt(np.einsum("ij,ij->i", rows, rows).max(initial=0.0)) * longest > LARGEST_TURNS:
            return release.query(rows)
        scores, space = np.empty(len(rows)), np.empty((ROW_BLOCK, len(heights)), dtype=np.float32)
        for start in range(0, len(rows), ROW_BLOCK):
            block = rows[start : start + ROW_BLOCK].astype(np.float32, copy=False)
            product = np.dot(block, single, out=space[: len(block)])
            weigh_cosines(product, offsets32, heights, scores[start : start + len(block)])
        return scores

    return score


@njit(nogil=True, cache=True, fastmath=True)
def weigh_cosines(turns, offsets, heights, scores):  # type: ignore[no-untyped-def]
    """Sum over j of heights[j] cos(2 pi (turns[i, j] + offsets[j])), for each row."""
    for i in range(turns.shape[0]):
        total = np.float32(0.0)
        for j in range(turns.shape[1]):
            t = turns[i, j] + offsets[j]
            t = abs(t - np.rint(t))
            # cos(2 pi t) = sin(2 pi (1/4 - t)), an odd series on a quarter turn each way
            u = np.float32(6.2831855) * (np.float32(0.25) - t)
            s = u * u
            sine = s * np.float32(-2.5052108e-08) + np.float32(2.7557319e-06)
            sine = s * sine - np.float32(1.9841270e-04)
            sine = s * sine + np.float32(8.3333333e-03)
            sine = s * sine - np.float32(1.6666667e-01)
            total += heights[j] * (u + u * s * sine)
        scores[i] = total
