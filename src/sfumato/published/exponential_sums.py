"""`exponential-sums-published`: a copy of `lsq-rff` for each exponential, with even budgets, as published.

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

import numpy as np

from sfumato.central import exponential_sums
from sfumato.kernels import Rational
from sfumato.kernels.rational import ExponentialSum, exponential_sum
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.published import lsq_rff
from sfumato.quantizers.exponential_sums import ExponentialSums, draw_terms
from sfumato.quantizers.fourier import FourierQuantizer

NAME = "exponential-sums-published"
OPTIONS = ("n_features", "tolerance")
LEAST_FEATURES = 2


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, Rational):
        return f"it is for the kernel rational, not {request.kernel.name}"
    return request.too_tight(width=1)


def _sizes(request: Request) -> tuple[ExponentialSum, int]:
    """Terms, and features of each."""
    request.check_options(*OPTIONS)
    kernel = request.kernel
    assert isinstance(kernel, Rational)
    made = exponential_sum(kernel.power, exponential_sums.tolerance(request))
    weights = np.array(made.weights)
    varies = 2 * exponential_sums.pair_variances(kernel, made.rates, request.density)
    room = float(request.feature_epsilon) * request.n / (2 * request.factor * len(weights))
    best = room * math.sqrt((weights**2 @ varies) / (weights @ weights))
    most = min(request.most_terms(width=1), request.most_terms_of_a_record) // len(weights)
    usual = max(LEAST_FEATURES, round(min(best, lsq_rff.MOST_FEATURES / len(weights))))
    return made, request.size_option("n_features", usual, max(most, LEAST_FEATURES))


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    made, features = _sizes(request)
    kernel, weights = request.kernel, np.array(made.weights)
    assert isinstance(kernel, Rational)
    varies = 2 * exponential_sums.pair_variances(kernel, made.rates, density)
    terms = len(weights)
    noise = 4 * features * (terms * request.factor / (float(request.feature_epsilon) * request.n)) ** 2
    variance = float(weights**2 @ (varies / features + noise)) + made.error**2
    work = float(terms * features * request.dimension)
    described = terms * (exponential_sums.STRUCTURE_BYTES + exponential_sums.COLUMN_BYTES * request.dimension)
    return Prediction(
        rmse=math.sqrt(variance + request.typical_count_error(density)),
        integers=terms * features,
        file_size=request.file_size(terms * features, width=1) + described,
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": features, "tolerance": exponential_sums.tolerance(request)},
    )


def build(request: Request) -> Mechanism:
    """Draw the features of every term."""
    made, features = _sizes(request)
    kernel = request.kernel
    assert isinstance(kernel, Rational)
    counts = (features,) * len(made.rates)
    drawn = draw_terms(kernel, made, request.dimension, counts, request.feature_seed, request.bounds, request.outside)
    parts = tuple(FourierQuantizer(phases, "phase", lsq_rff.RADIUS) for phases in drawn)
    quantizer = ExponentialSums(made, parts)
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        DiscreteLaplace.at_most(request.feature_epsilon / (request.factor * quantizer.bound.l1)),
        parameters={"n_features": features, "tolerance": exponential_sums.tolerance(request)},
    )


METHOD = Method(
    NAME,
    "a copy of lsq-rff for each exponential, as published",
    OPTIONS,
    refuse,
    predict,
    build,
    baseline=True,
    pure=True,
)
