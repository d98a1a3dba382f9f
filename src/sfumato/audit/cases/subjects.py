"""Requests of every central method on which its calibration is checked; importing this module registers the checks.

Every option that a method knows is used in one of its requests. Sizes are small, so that some record is as bad as the
mechanism must fear; the requests named "default" leave the sizes to the method.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.audit.cases.variants import Subject, register_subjects
from sfumato.central import exponential_sums, fourier, fourier_gaussian, grid, inner_product, landmarks, race
from sfumato.kernels import Gaussian, InnerProduct, Laplacian, Rational
from sfumato.methods.registry import METHODS
from sfumato.published import (
    bernstein,
    even_trig,
    gaussian_queries,
    histogram,
    hrw,
    laplace_queries,
    lsq_fgt,
    lsq_rff,
    noisy_sample,
    pmw,
    smalldb,
)
from sfumato.published import exponential_sums as exponential_sums_published
from sfumato.published import race as race_published
from sfumato.quantizers.nystrom import PublicSample

PUBLIC = PublicSample.of([[-1.0], [-0.5], [0.0], [0.5], [1.0]], dimension=1)
SMOOTH: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 1, "bounds": (-8, 8)}
PLANE: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 2, "bounds": (-2, 2)}
HASHED: dict[str, Any] = {"kernel": Laplacian(1.0), "dimension": 1, "bounds": (-8, 8)}
DIRECTED: dict[str, Any] = {"kernel": InnerProduct(1.0), "dimension": 2, "bounds": (-1, 1)}
SUMMED: dict[str, Any] = {"kernel": Rational(1.0, "sqeuclidean"), "dimension": 1, "bounds": (-1000, 1000)}
NEAR: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 1, "bounds": (0, 24)}
RESEMBLED = {**SMOOTH, "landmarks": PUBLIC}


def _asked(method: str, name: str, facts: dict[str, Any], **options: Any) -> Subject:
    return Subject(method, name, facts, options, METHODS.build)


HALF = {"count_share": Fraction(1, 2)}
register_subjects(
    _asked(lsq_rff.NAME, "2 features", SMOOTH, n_features=2),
    _asked(lsq_rff.NAME, "half for the count", SMOOTH, n_features=2, **HALF),
    _asked(lsq_rff.NAME, "dropped outside, 6 features in 3 groups", SMOOTH, n_features=6, groups=3, outside="drop"),
    _asked(lsq_rff.NAME, "sizes for an error", {**SMOOTH, "n": 10**6}, alpha=0.5, eta=0.1, all_queries=True),
    _asked(lsq_rff.NAME, "projected", PLANE, n_features=2, project="dense", project_to=1),
    _asked(lsq_rff.NAME, "projected fast", PLANE, n_features=2, project="fast", project_to=1),
    _asked(lsq_rff.NAME, "default", PLANE),
    _asked(fourier.NAME, "1 feature", SMOOTH, n_features=1),
    _asked(fourier.NAME, "4 features in groups of 2", SMOOTH, n_features=4, per_group=2),
    _asked(fourier.NAME, "default", PLANE),
    _asked(fourier_gaussian.NAME, "2 features", SMOOTH, n_features=2),
    _asked(fourier_gaussian.NAME, "default", PLANE),
    _asked(grid.NAME, "steps", {**SMOOTH, "bounds": (-1, 1)}, degree=0, spacing=0.8),
    _asked(grid.NAME, "cubes in buckets", PLANE, degree=3, spacing=0.8, buckets=16),
    _asked(grid.NAME, "default", PLANE),
    _asked(exponential_sums.NAME, "2 features each", SUMMED, tolerance=0.1, n_features=2),
    _asked(exponential_sums.NAME, "even split", SUMMED, tolerance=0.1, n_features=2, split="even", density=0.3),
    _asked(exponential_sums_published.NAME, "1 feature each", SUMMED, tolerance=0.1, n_features=1),
    _asked(landmarks.NAME, "1 direction", RESEMBLED, n_features=1),
    _asked(landmarks.NAME, "default", RESEMBLED),
    _asked(inner_product.NAME, "plain", DIRECTED),
    _asked(inner_product.NAME, "clipped", DIRECTED, clip=0.5),
    _asked(inner_product.SIGNS, "2 features", DIRECTED, n_features=2),
    _asked(race.NAME, "2 rows of 2", HASHED, rows=2, width=2, own_count=False),
    _asked(race.NAME, "2 rows of 2, own count", HASHED, rows=2, width=2, own_count=True),
    _asked(race.NAME, "4 rows in 2 groups", HASHED, rows=4, width=4, groups=2),
    _asked(race.NAME, "default", {**HASHED, "dimension": 2}),
    _asked(race_published.NAME, "2 rows of 2", HASHED, rows=2, width=2, groups=1),
    _asked(lsq_fgt.NAME, "3 orders", {**SMOOTH, "bounds": (0, 2)}, rho=3),
    _asked(lsq_fgt.NAME, "2 groups, fixed cut-off", {**SMOOTH, "bounds": (0, 2)}, rho=2, groups=2, cutoff="fixed"),
    _asked(histogram.NAME, "few cells", {**SMOOTH, "bounds": (-1, 1)}, spacing=0.8),
    _asked(histogram.NAME, "default", PLANE),
    _asked(bernstein.NAME, "a narrow box", {**SMOOTH, "bounds": (0, 0.1)}, degree=1),
    _asked(bernstein.NAME, "a wide box", {**SMOOTH, "bounds": (0, 8)}, degree=1),
    _asked(even_trig.NAME, "degree 1", {**SMOOTH, "bounds": (-1, 1)}, degree=1),
    _asked(even_trig.NAME, "degree 4", {**SMOOTH, "bounds": (-1, 1)}, degree=4),
    _asked(laplace_queries.NAME, "2 queries", SMOOTH, queries=[[0.0], [0.1]]),
    _asked(gaussian_queries.NAME, "2 queries", SMOOTH, queries=[[0.0], [0.1]]),
    _asked(hrw.NAME, "2 queries", SMOOTH, queries=[[0.0], [1.0]]),
    _asked(hrw.NAME, "2 queries far apart", SMOOTH, queries=[[-7.0], [7.0]]),
    _asked(pmw.NAME, "3 nodes, 1 round", NEAR, spacing=8.0, rounds=1),
    _asked(pmw.NAME, "default", PLANE),
    _asked(smalldb.NAME, "sets of 2 of 3 nodes", NEAR, spacing=8.0, points=2),
    _asked(noisy_sample.NAME, "10 of 100", {**NEAR, "n": 100}, spacing=8.0, sample=10),
)
