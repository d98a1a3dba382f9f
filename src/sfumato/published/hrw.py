"""`hrw`: Gaussian process noise on the answers to a given list of queries, or to one query after another.

Source: R. Hall, A. Rinaldo, L. Wasserman, "Differential Privacy for Functions and Functional Data", JMLR 14, 2013;
appendix C.3 of Wagner et al. (2023). Answers get Gaussian noise whose covariance is the kernel itself; its size
does not depend on the number of queries. Corrected: sums instead of means, the count is paid for, the constant is
calibrated exactly, and the noise is integer: it is added in the coordinates of `queries.WhitenedQueries`, in which
the covariance is the identity, and reaches the answers through the Cholesky factor L, K_YY = L L'.

Guarantee, batch. A record's m integers have l2 norm at most s by a hard clamp (2 s when a record is replaced), whatever
the queries. Discrete Gaussian noise, calibrated as in `privacy.gaussian`, makes the coordinates (e_f,
delta)-DP; the answers follow from them. The count at e_c composes to (epsilon, delta).

Guarantee, one at a time. Coordinate j depends on the first j queries only, so it can be published before the next query
is known, and a query may depend on all earlier answers. Let q_j be what the record in question adds to coordinate j:
it is known once the earlier outputs are, and sum_j q_j^2 <= s^2 however the queries were chosen. With continuous noise
the log likelihood ratio is sum_j (q_j G_j / sigma^2 + q_j^2 / (2 sigma^2)), and with one more coordinate of q^2 = s^2 -
sum_j q_j^2 that nobody sees, it is exactly the normal variable of a single answer of sensitivity s: a sum of
independent normals whose weights are chosen as it goes, and whose squares add up to a constant, is normal with that
variance. So the batch's calibration holds, and rounding is post-processing. Exact discrete noise in place of rounded
noise changes the law of the noise of all coordinates together by the total variation t of `privacy.gaussian`,
and so the law of the whole exchange by at most t; t is taken for the most queries that may be asked.

Error of one answer: (c f / n)^2 of noise at every query, and the count.
"""

from __future__ import annotations

import math

from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.published.common import dense_prediction
from sfumato.published.gaussian_queries import fitting_scale, gaussian_noise, refuse_no_delta
from sfumato.published.queries import WhitenedQueries
from sfumato.published.query_lists import OPTIONS, listed, records_box, refuse_list
from sfumato.quantizers.base import Floats

NAME = "hrw"
# The curator's work grows with the square of the number of queries.
MOST_QUERIES = 2**12


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_list(request) or refuse_no_delta(request)


def _queries(request: Request) -> Floats:
    queries = listed(request)
    if len(queries) > MOST_QUERIES:
        raise InputError(
            f"{len(queries)} queries take {len(queries) ** 2 / 2:.2g} multiplications for each record; "
            f"at most {MOST_QUERIES} are allowed"
        )
    return queries


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    size = len(_queries(request))
    multiplier = gaussian_multiplier(float(request.feature_epsilon), request.delta)
    variance = (multiplier * request.factor / request.n) ** 2
    work = size * request.dimension + size**2 / 2
    return dense_prediction(request, variance, size, work, {}, density, query_work=size)


def build(request: Request) -> Mechanism:
    """Build the mechanism for the request's queries."""
    return mechanism(request, _queries(request))


def mechanism(request: Request, queries: Floats, most: int = 0) -> Mechanism:
    """Build the mechanism for these queries, of `most` that may come."""
    scale = fitting_scale(request, float(request.factor))
    most = max(most, len(queries))
    quantizer = WhitenedQueries(request.kernel, records_box(request, queries), queries, scale, most)
    noise, loss = gaussian_noise(request, request.factor**2 * quantizer.bound.l2_squared, most)
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        parameters={
            "queries": len(queries),
            "noise_multiplier": _multiplier(noise.sigma, quantizer),
        },
        feature_loss=loss,
    )


def _multiplier(sigma: int, quantizer: WhitenedQueries) -> float:
    return sigma / math.sqrt(quantizer.bound.l2_squared)


METHOD = Method(NAME, "Gaussian process noise on a list of answers", OPTIONS, refuse, predict, build, baseline=True)
