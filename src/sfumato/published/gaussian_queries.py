"""`gaussian-queries`: the Gaussian mechanism on the answers to a given list of queries.

Source: appendix C.3 of Wagner et al. (2023). Corrected: sums instead of means, the count is paid for, and the noise
is calibrated exactly instead of by the textbook bound, which holds for epsilon below 1 only.

Guarantee. A record adds to each of the m answers an integer from 0 to s, so adding, removing or replacing one changes
them by at most sqrt(m) s in l2. Discrete Gaussian noise, calibrated as in `privacy.gaussian` (its proof covers
any integers of bounded l2 sensitivity), makes them (e_f, delta)-DP; the count at e_c composes to (epsilon, delta).

Error of one answer: (c sqrt(m) / n)^2 of noise, c = sigma over the sensitivity, and the count.
"""

from __future__ import annotations

import math

from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy import gaussian
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.published.common import dense_prediction
from sfumato.published.queries import KernelQueries
from sfumato.published.query_lists import OPTIONS, SCALE, listed, records_box, refuse_list

NAME = "gaussian-queries"
SMALLEST_SCALE = 16


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_list(request) or refuse_no_delta(request)


def refuse_no_delta(request: Request) -> str | None:
    """Say so when Gaussian noise is asked for a pure guarantee."""
    return None if request.delta else "it needs delta > 0"


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    size = len(listed(request))
    multiplier = gaussian.gaussian_multiplier(float(request.feature_epsilon), request.delta)
    variance = (multiplier * request.records_per_user / request.n) ** 2 * size
    return dense_prediction(request, variance, size, float(size * request.dimension), {}, density, query_work=1)


def build(request: Request) -> Mechanism:
    """Build the mechanism for the request's queries."""
    queries = listed(request)
    scale = fitting_scale(request, request.records_per_user * math.sqrt(len(queries)))
    quantizer = KernelQueries(request.kernel, records_box(request, queries), queries, scale)
    noise, loss = gaussian_noise(request, request.records_per_user**2 * quantizer.bound.l2_squared, quantizer.size)
    return Mechanism.of(
        request,
        NAME,
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


METHOD = Method(NAME, "Gaussian noise on a list of answers", OPTIONS, refuse, predict, build, baseline=True)
