"""`race-published` and `exponential-sums-published`: two defaults with the noise and the budgets of their sources.

`race-published`: the private RACE sketch as published, at any number of rows and counters.

Source: Algorithms 1 and 2 of Coleman and Shrivastava (2021): Laplace noise of scale R / epsilon on every counter,
rounded down, answers by the mean of one counter a row, divided by the mean row sum. Circulating code divides the noise
by the number of records as well, which leaves no privacy; here it is as the paper proves it. Buckets are rehashed into
W counters by the library's universal hash, whose collisions the paper does not take off: they bias every answer by (1 -
k) / W, and rounding down by -1/2 a counter.

Guarantee. Rounding the Laplace mechanism down is post-processing. The counters are whole numbers, so it adds noise of
the law of floor(Laplace), which is sampled exactly (`FlooredLaplace`): for l1 sensitivity f R, rate epsilon / (f R).

Error of one answer, in the notation of `race`, with K = P + (1 - P) q the chance of a shared counter:
MSE = ((1 - P) q)^2 + V (1 - q)^2 / R + (1 - 2 K + W K^2) v / (R n^2) + (1 / (2 n))^2 (W K - 1)^2.

`exponential-sums-published`: a copy of `lsq-rff` for each exponential, with even budgets, as published.

Source: Theorem 3.3 of Backurs et al. (2024) with the structure of Wagner et al. (2023) (its Theorem 2.3): L
terms sum_j a_j exp(-t_j h), each with I single-phase Fourier features and a budget of epsilon / L. Here on integers,
with the count paid for, and with the terms of `kernels.rational`.

Guarantee. One record changes every one of the L I integer sums by at most r, so the vector by at most l1 = L I r (2 L I
r when a record is replaced). Discrete Laplace noise of rate e_f / l1 on each is e_f-DP; the count composes to epsilon.

Error. MSE = sum_j a_j^2 (W_j / I + 4 I (L f)^2 / (e_f n)^2) + error^2 + (P sd(count) / n)^2, with W_j the variance of
one phase, at most twice that of a pair (`central.exponential_sums`), which is what the prediction takes.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sfumato.central import exponential_sums as sums
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
from sfumato.kernels import Rational
from sfumato.kernels.rational import ExponentialSum, exponential_sum
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace, FlooredLaplace
from sfumato.published import lsq_rff
from sfumato.quantizers.exponential_sums import ExponentialSums, draw_terms
from sfumato.quantizers.fourier import FourierQuantizer

RACE = "race-published"
WIDTHS = tuple(2**power for power in range(1, 11))


def _refuse_race(request: Request) -> str | None:
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


def _race_sizes(request: Request) -> Sizes:
    request.check_options(*SIZE_OPTIONS)
    return sizes_of(request, request.neighbours == "add-remove", False, mean_square_error, WIDTHS)


def _predict_race(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    sizes = _race_sizes(request)
    return prediction(request, sizes, mean_square_error(sizes.terms, density, sizes.rows, sizes.width))


def _build_race(request: Request) -> Mechanism:
    """Draw the hash functions."""
    sizes = _race_sizes(request)
    quantizer = draw(request, sizes, debias=False)
    noise = FlooredLaplace(sizes.terms.epsilon / (request.factor * quantizer.bound.l1))
    own_count = sizes.terms.own_count
    return Mechanism.of(
        request,
        RACE,
        quantizer,
        noise,
        count_law=None,
        parameters=parameters(request, sizes),
        groups=sizes.groups,
        count_reader=partial(read_count, quantizer, noise.variance) if own_count else None,
    )


RACE_METHOD = Method(
    RACE,
    "hashed counters (RACE) with rounded Laplace noise, as published",
    SIZE_OPTIONS,
    _refuse_race,
    _predict_race,
    _build_race,
    baseline=True,
    pure=True,
)


EXPONENTIAL_SUMS = "exponential-sums-published"
SUMS_OPTIONS = ("n_features", "tolerance")
LEAST_FEATURES = 2


def _refuse_sums(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, Rational):
        return f"it is for the kernel rational, not {request.kernel.name}"
    return request.too_tight(width=1)


def _sums_sizes(request: Request) -> tuple[ExponentialSum, int]:
    """Terms, and features of each."""
    request.check_options(*SUMS_OPTIONS)
    kernel = request.kernel
    assert isinstance(kernel, Rational)
    made = exponential_sum(kernel.power, sums.tolerance(request))
    weights = np.array(made.weights)
    varies = 2 * sums.pair_variances(kernel, made.rates, request.density)
    room = float(request.feature_epsilon) * request.n / (2 * request.factor * len(weights))
    best = room * math.sqrt((weights**2 @ varies) / (weights @ weights))
    most = min(request.most_terms(width=1), request.most_terms_of_a_record) // len(weights)
    usual = max(LEAST_FEATURES, round(min(best, lsq_rff.MOST_FEATURES / len(weights))))
    return made, request.size_option("n_features", usual, max(most, LEAST_FEATURES))


def _predict_sums(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    made, features = _sums_sizes(request)
    kernel, weights = request.kernel, np.array(made.weights)
    assert isinstance(kernel, Rational)
    varies = 2 * sums.pair_variances(kernel, made.rates, density)
    terms = len(weights)
    noise = 4 * features * (terms * request.factor / (float(request.feature_epsilon) * request.n)) ** 2
    variance = float(weights**2 @ (varies / features + noise)) + made.error**2
    work = float(terms * features * request.dimension)
    described = terms * (sums.STRUCTURE_BYTES + sums.COLUMN_BYTES * request.dimension)
    return Prediction(
        rmse=math.sqrt(variance + request.typical_count_error(density)),
        integers=terms * features,
        file_size=request.file_size(terms * features, width=1) + described,
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": features, "tolerance": sums.tolerance(request)},
    )


def _build_sums(request: Request) -> Mechanism:
    """Draw the features of every term."""
    made, features = _sums_sizes(request)
    kernel = request.kernel
    assert isinstance(kernel, Rational)
    counts = (features,) * len(made.rates)
    drawn = draw_terms(kernel, made, request.dimension, counts, request.feature_seed, request.bounds, request.outside)
    parts = tuple(FourierQuantizer(phases, "phase", lsq_rff.RADIUS) for phases in drawn)
    quantizer = ExponentialSums(made, parts)
    return Mechanism.of(
        request,
        EXPONENTIAL_SUMS,
        quantizer,
        DiscreteLaplace.at_most(request.feature_epsilon / (request.factor * quantizer.bound.l1)),
        parameters={"n_features": features, "tolerance": sums.tolerance(request)},
    )


EXPONENTIAL_SUMS_METHOD = Method(
    EXPONENTIAL_SUMS,
    "a copy of lsq-rff for each exponential, as published",
    SUMS_OPTIONS,
    _refuse_sums,
    _predict_sums,
    _build_sums,
    baseline=True,
    pure=True,
)
