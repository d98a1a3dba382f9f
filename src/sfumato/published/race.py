"""`race-published`: the private RACE sketch as published, at any number of rows and counters.

Source: Algorithms 1 and 2 of Coleman and Shrivastava (2021): Laplace noise of scale R / epsilon on every counter,
rounded down, answers by the mean of one counter a row, divided by the mean row sum. Circulating code divides the noise
by the number of records as well, which leaves no privacy; here it is as the paper proves it. Buckets are rehashed into
W counters by the library's universal hash, whose collisions the paper does not take off: they bias every answer by (1 -
k) / W, and rounding down by -1/2 a counter.

Guarantee. Rounding the Laplace mechanism down is post-processing. The counters are whole numbers, so it adds noise of
the law of floor(Laplace), which is sampled exactly (`FlooredLaplace`): for l1 sensitivity f R, rate epsilon / (f R).

Error of one answer, in the notation of `race`, with K = P + (1 - P) q the chance of a shared counter:
MSE = ((1 - P) q)^2 + V (1 - q)^2 / R + (1 - 2 K + W K^2) v / (R n^2) + (1 / (2 n))^2 (W K - 1)^2.
"""

from __future__ import annotations

from functools import partial

from sfumato.central.race import (
    SIZE_OPTIONS,
    Sizes,
    Terms,
    draw,
    parameters,
    prediction,
    read_count,
    sizes_of,
)
from sfumato.central.race import refuse as refuse_hashing
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import FlooredLaplace

NAME = "race-published"
WIDTHS = tuple(2**power for power in range(1, 11))


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if "count_share" in request.options:
        return "it reads the count off its counters: leave count_share out, or use race"
    return refuse_hashing(request)


def mean_square_error(terms: Terms, density: float, rows: int, width: int) -> float:
    """Predict the error of one answer, see the module's text."""
    collision = 1 / width if terms.rehashed else 0.0
    shared = density + (1 - density) * collision
    noise = (1 - 2 * shared + width * shared**2) if terms.own_count else 1.0
    floor = (width * shared - 1) if terms.own_count else 1.0
    n = terms.request.n
    return (
        ((1 - density) * collision) ** 2
        + terms.hash_variance(density, width) * (1 - collision) ** 2 / rows
        + noise * terms.counter_variance(rows) / (rows * n**2)
        + (floor / (2 * n)) ** 2
    )


def _sizes(request: Request) -> Sizes:
    request.check_options(*SIZE_OPTIONS)
    return sizes_of(request, request.neighbours == "add-remove", False, mean_square_error, WIDTHS)


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    sizes = _sizes(request)
    return prediction(request, sizes, mean_square_error(sizes.terms, density, sizes.rows, sizes.width))


def build(request: Request) -> Mechanism:
    """Draw the hash functions."""
    sizes = _sizes(request)
    quantizer = draw(request, sizes, debias=False)
    noise = FlooredLaplace(sizes.terms.epsilon / (request.factor * quantizer.bound.l1))
    own_count = sizes.terms.own_count
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        count_law=None,
        parameters=parameters(request, sizes),
        groups=sizes.groups,
        count_reader=partial(read_count, quantizer, noise.variance) if own_count else None,
    )


METHOD = Method(
    NAME,
    "hashed counters (RACE) with rounded Laplace noise, as published",
    SIZE_OPTIONS,
    refuse,
    predict,
    build,
    baseline=True,
    pure=True,
)
