"""`laplace-queries`: the Laplace mechanism on the answers to a given list of queries.

Source: appendix C.3 of Wagner et al. (2023). Corrected: sums instead of means, and the count is paid for.

Guarantee. A record adds to each of the m answers an integer from 0 to s, so adding, removing or replacing one changes
them by at most l1 = m s. Discrete Laplace noise of rate e_f / l1 multiplies the probability of any output by at most
exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 (m / (e_f n))^2 of noise, nothing else but the count.
"""

from __future__ import annotations

from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.published.common import dense_prediction
from sfumato.published.queries import KernelQueries
from sfumato.published.query_lists import OPTIONS, SCALE, listed, records_box, refuse_list

NAME = "laplace-queries"


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_list(request)


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    size = len(listed(request))
    variance = 2 * (request.records_per_user * size / (float(request.feature_epsilon) * request.n)) ** 2
    return dense_prediction(request, variance, size, float(size * request.dimension), {}, density, query_work=1)


def build(request: Request) -> Mechanism:
    """Build the mechanism for the request's queries."""
    queries = listed(request)
    quantizer = KernelQueries(request.kernel, records_box(request, queries), queries, SCALE)
    return Mechanism(
        method=NAME,
        kernel=request.kernel,
        quantizer=quantizer,
        noise=DiscreteLaplace.at_most(request.feature_epsilon / (request.records_per_user * quantizer.bound.l1)),
        count_law=request.count_law,
        guarantee=request.guarantee(quantizer.box.condition()),
        parameters={"queries": len(queries), "n_hint": request.n},
    )


METHOD = Method(NAME, "Laplace noise on a list of answers", OPTIONS, refuse, predict, build, baseline=True, pure=True)
