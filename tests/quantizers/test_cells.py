"""Bars of cells: a bias that is relative to the answer stays so where noise hides how many records a cell has.

What the check of landmarks measures in a cell is what they miss of that cell's records.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.kernels import Gaussian, Overlap, Product
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import Box, Cells, CheckedLandmarks, GridQuantizer, LandmarkQuantizer, ShardedFourier
from sfumato.quantizers.answer import Known
from sfumato.quantizers.nystrom import estimates
from sfumato.quantizers.phases import Phases
from sfumato.quantizers.similarities import similarities


def test_a_cell_without_records_has_no_large_bias() -> None:
    """Counted by the records that its noisy sums show, fewer than none, the bias would be most of the noise itself."""
    grid = GridQuantizer(Gaussian(1.0), Box((-4.0, -4.0), (4.0, 4.0)), 0.8, 1)
    cells = Cells(Product(Gaussian(1.0), {2: Overlap(["a", "b"])}), grid)
    random = np.random.default_rng(1)
    noise = random.normal(0, 30 * grid.scale, cells.size)
    noise[grid.size :] -= noise[grid.size :].mean() + 1
    queries = np.column_stack([random.uniform(-3, 3, (30, 2)), np.ones(30)])
    answer = cells.read(queries, noise, Known(900.0 * grid.scale**2, count=1e5))
    assert np.median(answer.bias) < 0.1 * np.median(answer.standard_error) / 1e5


def _landmarks_in_cells(seed: int) -> Cells:
    """Build landmarks around the middle, with their check, in two cells that are a fifth similar."""
    kernel = Gaussian(1.0)
    fitted = similarities(kernel, np.random.default_rng(1).normal(0, 0.7, (60, 2)), (-4, 4))
    own = LandmarkQuantizer.fit(fitted, estimates(fitted, [20])[0], scale=2**15)
    own = replace(own, completion=np.zeros_like(own.completion))
    pairs = ShardedFourier(Phases.draw(kernel, 2, 400, seed, (-4, 4)), 400, 2**12)
    return Cells(Product(kernel, {2: Overlap(["a", "b"], mismatch=0.2)}), CheckedLandmarks(own, pairs))


def test_a_cell_whose_records_lie_beyond_the_landmarks_is_answered_honestly() -> None:
    """The other cell's records are like the landmarks: only this one's own check can show what is missed.

    Noise of three records on the landmarks' sums, and an eighth of that on the pairs'. Draws of frequencies are
    independent, and the answers of one may go together: that two-deviation bars hold half of all answers or fewer takes
    ten bad draws of twenty, a chance below 1e-7.
    """
    random, variances = np.random.default_rng(2), ((3 * 2**15) ** 2, (3 * 2**12) ** 2)
    near = np.column_stack([random.normal(0, 0.5, (3000, 2)), np.zeros(3000)])
    far = np.column_stack([random.normal((2.6, -2.6), 0.4, (1000, 2)), np.ones(1000)])
    rows, queries = np.vstack([near, far]), np.vstack([near[:20], far[:20]])
    known = Known(float(variances[0]), count=float(len(rows)), noise_parts=tuple(map(float, variances)))
    within, errors, missed = [], [], []
    for seed in range(20):
        cells = _landmarks_in_cells(seed)
        inner, truth = cells.inner, cells.kernel.value(queries, rows).sum(axis=1)
        assert isinstance(inner, CheckedLandmarks)
        exact = np.zeros(cells.size, dtype=np.int64)
        assert cells.accumulate(rows, exact, SecureBits.seeded(seed)) == len(rows)
        deviations = np.sqrt(np.repeat(variances, [inner.landmarks.size, inner.pairs.size]))
        sums = exact + random.normal(size=cells.size) * np.tile(deviations, 2)
        answer = cells.read(queries, sums, known)
        bars = np.hypot(answer.standard_error, answer.bias * len(rows))
        errors.append(answer.total - truth)
        within.append(np.abs(errors[-1]) < 2 * bars)
        limit = cells.bias_bound(queries, sums, known) * len(rows)
        assert (np.abs(errors[-1]) < limit + 6 * answer.standard_error).all()
        features = inner.landmarks.features(queries[20:, :2])[1]
        seen = (cells.similarities(1) @ sums.reshape(2, -1))[: inner.landmarks.rank]
        missed.append(features @ seen / inner.landmarks.amplitude - truth[20:])
    assert np.mean(within) > 0.5 and np.mean(np.array(within)[:, 20:]) > 0.5
    assert np.square(np.array(errors)[:, 20:]).mean() < 0.01 * np.square(missed).mean(), "the difference is corrected"
