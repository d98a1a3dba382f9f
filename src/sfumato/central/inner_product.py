"""`inner-product`: a noisy mean of records no longer than a public radius, the default for the inner product.

The mean inner product with y is y times the mean record, so the sums of the coordinates answer every query.
`quantizers.inner_product` explains integers and bounds.

Guarantee. One record's integers have l2 norm at most s and l1 norm at most B1 = floor(s sqrt(d)) (less where clipped
coordinates say so); f records differ between neighbours. Pure: ball noise of rate e_f / (f s) on all sums
(`privacy.ball`), or, in one column and where ball noise does not fit, discrete Laplace noise of rate e_f / (f B1) on
every sum. delta > 0: discrete Gaussian noise for the l2 sensitivity f s,
calibrated as in `privacy.gaussian`. The count at e_c composes to (epsilon, delta).

Error of one answer to a query of length |y| = radius: MSE = (d + 1) (f / (e_f n))^2 + (P sd(count) / n)^2 with ball
noise (2 d for d + 1 with Laplace noise), (c f / n)^2 + ... with Gaussian noise. There is no approximation, unless
option clip asks for rotated and clipped coordinates: then erfc(clip / sqrt(2)) of the answer is lost for the longest
records.

`inner-product-signs`: the random-sign family of Wagner (2025) (A.3) with Laplace noise, to be measured
against. l1 <= I floor(s sqrt(d)). MSE = (1 + P^2) / I + 2 I d (f / (e_f n))^2 + ..., so I = e_f n sqrt((1 + P^2) / (2
d)) / f is best.
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.central.landmarks import noise_for, scale_of, spread
from sfumato.kernels import InnerProduct
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import INTEGER_BYTES, Request, header_size
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers import InnerProductQuantizer, InnerProductSigns
from sfumato.quantizers.clamping import Ball

NAME, SIGNS = "inner-product", "inner-product-signs"
OPTIONS = ("clip",)
SIGNS_OPTIONS = ("n_features",)
SCALE, SMALLEST_SCALE = 2**18, 64
SIGNS_SCALE, MOST_SIGNS = 2**12, 20_000


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, InnerProduct):
        return f"it is for the inner product, not {request.kernel.name}"
    limits, size = request.limits, _file_size(request, request.dimension)
    if request.dimension > min(limits.work_per_record, limits.work_per_query) or size > limits.file_size:
        return (
            f"a noisy mean takes a file of {size} bytes and {request.dimension} multiplications for each record and "
            "query, which the budgets do not allow"
        )
    return None


def _file_size(request: Request, sums: int) -> int:
    return header_size(request.kernel, request.dimension) + INTEGER_BYTES * sums


def _clip(request: Request) -> float | None:
    """Read the option; the quantizer checks its value."""
    request.check_options(*OPTIONS)
    clip: float | None = request.options.get("clip")
    return clip


def _work(request: Request) -> float:
    return float(request.dimension * (1 if _clip(request) is None else 1 + request.dimension))


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    share, epsilon, clip = request.factor / request.n, float(request.feature_epsilon), _clip(request)
    if request.delta:
        noise = (gaussian_multiplier(epsilon, request.delta) * share) ** 2
    else:
        length = min(1.0, clip or 1.0)  # of the longest records, in units of s
        noise = spread(request, request.dimension, request.dimension) * (length * share / epsilon) ** 2
    lost = 0.0 if clip is None else math.erfc(clip / math.sqrt(2)) * density
    return Prediction(
        rmse=math.sqrt(noise + lost**2 + request.count_error(density)),
        integers=request.dimension,
        file_size=_file_size(request, request.dimension),
        work_per_record=_work(request),
        work_per_query=_work(request),
        parameters={} if clip is None else {"clip": clip},
    )


def build(request: Request) -> Mechanism:
    """Calibrate the noise to the ball."""
    ball = _ball(request, scale_of(request, SCALE, request.dimension))
    quantizer = InnerProductQuantizer(ball, _clip(request), request.feature_seed)
    bound = quantizer.bound
    noise, loss = noise_for(request, bound.l1, bound.l2_squared, quantizer.size)
    parameters: dict[str, Any] = {}
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        ball.condition(),
        parameters=parameters if quantizer.clip is None else {**parameters, "clip": quantizer.clip},
        feature_loss=loss,
    )


def _ball(request: Request, scale: int) -> Ball:
    assert isinstance(request.kernel, InnerProduct)
    return Ball.around(request.kernel, request.dimension, scale, request.bounds, request.outside)


def refuse_signs(request: Request) -> str | None:
    """Why the random-sign family does not apply."""
    if not isinstance(request.kernel, InnerProduct):
        return f"it is for the inner product, not {request.kernel.name}"
    return request.too_tight(width=1)


def _draws(request: Request) -> int:
    request.check_options(*SIGNS_OPTIONS)
    spread = math.sqrt((1 + request.density**2) / (2 * request.dimension))
    best = round(float(request.feature_epsilon) * request.n * spread / request.factor)
    most = min(request.most_terms(width=1), request.most_terms_of_a_record)
    return request.size_option("n_features", max(1, min(best, MOST_SIGNS)), most)


def predict_signs(request: Request, density: float) -> Prediction:
    """Predict error and cost of the random-sign family."""
    draws = _draws(request)
    share = request.factor / (float(request.feature_epsilon) * request.n)
    variance = (1 + density**2) / draws + 2 * draws * request.dimension * share**2
    work = float(draws * request.dimension)
    return Prediction(
        rmse=math.sqrt(variance + request.count_error(density)),
        integers=draws,
        file_size=request.file_size(draws, width=1),
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": draws},
    )


def build_signs(request: Request) -> Mechanism:
    """Choose I from the request and draw the signs."""
    draws, ball = _draws(request), _ball(request, SIGNS_SCALE)
    quantizer = InnerProductSigns(ball, draws, request.feature_seed)
    return Mechanism.of(
        request,
        SIGNS,
        quantizer,
        DiscreteLaplace(request.feature_epsilon / (request.factor * quantizer.bound.l1)),
        ball.condition(),
        parameters={"n_features": draws},
    )


METHOD = Method(NAME, "a noisy mean, for the inner product", OPTIONS, refuse, predict, build)
SIGNS_METHOD = Method(
    SIGNS,
    "random signs with Laplace noise, as published, for the inner product",
    SIGNS_OPTIONS,
    refuse_signs,
    predict_signs,
    build_signs,
    baseline=True,
    pure=True,
)
