"""`laplace-queries` and `gaussian-queries`: noise on the answers to a given list of queries.

Source: appendix C.3 of Wagner et al. (2023). Corrected: sums instead of means, the count is paid for, and Gaussian
noise is calibrated exactly instead of by the textbook bound, which holds for epsilon below 1 only.

Guarantee of `laplace-queries`. A record adds to each of the m answers an integer from 0 to s, so adding, removing or
replacing one changes them by at most l1 = m s. Discrete Laplace noise of rate e_f / l1 multiplies the probability of
any output by at most exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 (m / (e_f n))^2 of noise, nothing else but the count.

Guarantee of `gaussian-queries`. A record adds to each of the m answers an integer from 0 to s, so adding, removing or
replacing one changes them by at most sqrt(m) s in l2. Discrete Gaussian noise, calibrated as in `privacy.gaussian` (its
proof covers any integers of bounded l2 sensitivity), makes them (e_f, delta)-DP; the count at e_c composes to (epsilon,
delta).

Error of one answer: (c sqrt(m) / n)^2 of noise, c = sigma over the sensitivity, and the count.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy import gaussian
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.published.common import dense_prediction, public_box
from sfumato.published.queries import KernelQueries, around
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.quantizers.portable_kernels import refuse_kernel

OPTIONS = ("queries",)
SCALE = 2**15 - 1
MOST_QUERIES = 2**16


def refuse_list(request: Request) -> str | None:
    """Why a mechanism for a list of queries does not apply."""
    reason = refuse_kernel(request.kernel)
    if reason is None and "queries" not in request.options:
        reason = "it answers a given list of queries: pass options={'queries': array}, one row a query"
    return reason


def listed(request: Request) -> Floats:
    """Read the list."""
    request.check_options(*OPTIONS)
    try:
        queries = np.array(request.options["queries"], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("option queries must be numbers, one row a query") from None
    if queries.ndim != 2 or queries.shape[1] != request.dimension or not len(queries):
        raise InputError(f"option queries must have shape (m, {request.dimension}), got {queries.shape}")
    if not (np.abs(queries) <= LARGEST_LENGTH).all():
        raise InputError(f"option queries must hold finite numbers within {LARGEST_LENGTH:g} of 0; use other units")
    if len(queries) > MOST_QUERIES:
        raise InputError(f"{len(queries)} queries are too many for a list; {MOST_QUERIES} fit")
    return queries


def records_box(request: Request, queries: Floats) -> Box:
    """Return the request's box, or one so wide that records outside it are far from every query."""
    if request.bounds is not None:
        return public_box(request)
    return around(queries, request.kernel.column_scales(request.dimension), request.outside)  # type: ignore[attr-defined]


LAPLACE = "laplace-queries"


def _predict_laplace(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    size = len(listed(request))
    variance = 2 * (request.records_per_user * size / (float(request.feature_epsilon) * request.n)) ** 2
    return dense_prediction(request, variance, size, float(size * request.dimension), {}, density, query_work=1)


def build_laplace(request: Request) -> Mechanism:
    """Build the mechanism for the request's queries."""
    queries = listed(request)
    quantizer = KernelQueries(request.kernel, records_box(request, queries), queries, SCALE)
    return Mechanism.of(
        request,
        LAPLACE,
        quantizer,
        DiscreteLaplace.at_most(request.feature_epsilon / (request.records_per_user * quantizer.bound.l1)),
        parameters={"queries": len(queries)},
    )


LAPLACE_METHOD = Method(
    LAPLACE,
    "Laplace noise on a list of answers",
    OPTIONS,
    refuse_list,
    _predict_laplace,
    build_laplace,
    baseline=True,
    pure=True,
)


GAUSSIAN = "gaussian-queries"
SMALLEST_SCALE = 16


def _refuse_gaussian(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_list(request) or refuse_no_delta(request)


def refuse_no_delta(request: Request) -> str | None:
    """Say so when Gaussian noise is asked for a pure guarantee."""
    return None if request.delta else "it needs delta > 0"


def _predict_gaussian(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    size = len(listed(request))
    multiplier = gaussian.gaussian_multiplier(float(request.feature_epsilon), request.delta)
    variance = (multiplier * request.records_per_user / request.n) ** 2 * size
    return dense_prediction(request, variance, size, float(size * request.dimension), {}, density, query_work=1)


def build_gaussian(request: Request) -> Mechanism:
    """Build the mechanism for the request's queries."""
    queries = listed(request)
    scale = fitting_scale(request, request.records_per_user * math.sqrt(len(queries)))
    quantizer = KernelQueries(request.kernel, records_box(request, queries), queries, scale)
    noise, loss = gaussian_noise(request, request.records_per_user**2 * quantizer.bound.l2_squared, quantizer.size)
    return Mechanism.of(
        request,
        GAUSSIAN,
        quantizer,
        noise,
        parameters={"queries": len(queries)},
        feature_loss=loss,
    )


def fitting_scale(request: Request, sensitivity: float) -> int:
    """Largest integer scale for which noise against `sensitivity` (in units of 1) fits the sampler."""
    scale = min(SCALE, int(gaussian.largest_length(sensitivity, float(request.feature_epsilon), request.delta)))
    if scale < SMALLEST_SCALE:
        raise InputError("so little budget for so many queries does not fit 64-bit noise; pass fewer queries")
    return scale


def gaussian_noise(request: Request, l2_squared: int, coordinates: int) -> tuple[DiscreteGaussian, Loss]:
    """Calibrate noise to integers of this squared l2 sensitivity, and say what they reveal."""
    return gaussian.gaussian_noise(l2_squared, coordinates, request.feature_epsilon, request.delta)


GAUSSIAN_METHOD = Method(
    GAUSSIAN,
    "Gaussian noise on a list of answers",
    OPTIONS,
    _refuse_gaussian,
    _predict_gaussian,
    build_gaussian,
    baseline=True,
)
