"""Audits of `landmarks`, `inner-product` and `inner-product-signs`; importing this module registers them.

Landmarks of one column: five public points, of which one or four directions are used. One direction shows the residual
at its dearest, half of a record's length in the feature and three quarters in the residual.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.audit import ExactCase
from sfumato.audit.attacks import CentralCase, low_bits
from sfumato.audit.cases import planes
from sfumato.audit.cases.central import one_more, opposites, register_central
from sfumato.audit.cases.published import every_record
from sfumato.central import inner_product, landmarks
from sfumato.kernels import Gaussian, InnerProduct
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.quantizers.nystrom import PublicSample

PUBLIC = PublicSample.of([[-1.0], [-0.5], [0.0], [0.5], [1.0]], dimension=1)


def small(method: str, epsilon: int, neighbours: str = "add-remove", delta: float = 0.0, **options: Any) -> Mechanism:
    """Build a mechanism with few integers of one column."""
    request = Request(
        kernel=Gaussian(1.0) if method == landmarks.NAME else InnerProduct(1.0),
        dimension=1,
        epsilon=Fraction(epsilon),
        n=100,
        feature_seed=7,
        delta=delta,
        neighbours=neighbours,
        bounds=(-8, 8),
        options=options,
        landmarks=PUBLIC,
    )
    return METHODS.build(method, request)


@cache
def landmark_cases() -> dict[str, CentralCase]:
    """Cases of `landmarks`, with both kinds of noise; an attack on ball noise shows more of a larger epsilon."""
    single = one_more(small(landmarks.NAME, 3, n_features=1))
    return {
        "one more": single,
        "second": one_more(small(landmarks.NAME, 4, n_features=2), already=1),
        "opposites": opposites(small(landmarks.NAME, 4, "replace", n_features=1)),
        "gaussian": one_more(small(landmarks.NAME, 1, delta=0.05, n_features=4)),
        "low bits": replace(single, name="digits behind the point", statistic=low_bits),
    }


@cache
def inner_product_cases() -> dict[str, CentralCase]:
    """Cases of `inner-product`, with all kinds of noise: the ball's in the plane, Laplace noise in one column."""
    return {
        "one more": planes.sampled(3),
        "plane, replaced": planes.sampled(3, "replace"),
        "one column": one_more(small(inner_product.NAME, 1)),
        "opposites": opposites(small(inner_product.NAME, 1, "replace")),
        "clipped": one_more(small(inner_product.NAME, 1, clip=0.5)),
        "gaussian": one_more(small(inner_product.NAME, 1, delta=0.05)),
    }


@cache
def signs_cases() -> dict[str, CentralCase]:
    """Cases of `inner-product-signs`."""
    return {
        "one more": one_more(small(inner_product.SIGNS, 1, n_features=2)),
        "opposites": opposites(small(inner_product.SIGNS, 1, "replace", n_features=2)),
    }


def _exact(method: str, **options: Any) -> list[ExactCase]:
    return [every_record(small(method, 1, neighbours, **options)) for neighbours in ("add-remove", "replace")]


register_central(landmarks.NAME, landmark_cases, lambda: _exact(landmarks.NAME, n_features=1))
register_central(inner_product.NAME, inner_product_cases, lambda: [*_exact(inner_product.NAME), *planes.exact_planes()])
register_central(inner_product.SIGNS, signs_cases, lambda: _exact(inner_product.SIGNS, n_features=2))
