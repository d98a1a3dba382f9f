"""Requests, points and queries that the tests of the published mechanisms share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.kernels import Gaussian
from sfumato.methods.request import Request

BOUNDS = ((0.0, 6.0), (0.0, 4.0))
KERNEL = Gaussian(1.0)
N = 2000
POINTS = np.clip(np.random.default_rng(0).normal(size=(N, 2)) * [1.1, 0.7] + [2.7, 2.2], 0, [6, 4])
QUERIES = np.random.default_rng(1).uniform(0, [6, 4], size=(40, 2))
TRUTH = KERNEL.exact_density(POINTS, QUERIES)
DENSITY = float(KERNEL.value(POINTS[:500], POINTS[500:1000]).mean())
LISTS = ("laplace-queries", "gaussian-queries", "hrw")
GAUSSIAN = ("gaussian-queries", "hrw")
LINEAR = ("lsq-fgt", "histogram", "bernstein", "even-trig", *LISTS)
ALL = (*LINEAR, "pmw", "smalldb", "noisy-sample")


def facts(name: str, **options: Any) -> dict[str, Any]:
    """Delta and options that a method needs."""
    listed = {"queries": QUERIES} if name in LISTS else {}
    return {"delta": 1e-6 if name in GAUSSIAN else 0.0, "options": {**listed, **options}}


def request(**arguments: Any) -> Request:
    """Make a request about the points."""
    settings: dict[str, Any] = {
        "kernel": KERNEL,
        "dimension": 2,
        "epsilon": Fraction(1),
        "n": N,
        "feature_seed": 1,
        "bounds": BOUNDS,
    }
    return Request(**{**settings, **arguments})
