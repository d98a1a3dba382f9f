"""`lsq-rff`: random Fourier features with Laplace noise, as published.

Source: Algorithm 1 with section 3.1 of Wagner et al. (2023). I single-phase features, independent Laplace noise
on every sum, answers by the mean or a median of J means. Here on integers, with the count paid for (the paper divides
by n as if it were public under add/remove neighbours).

Guarantee. One record changes every integer sum by at most r, so the vector by at most l1 = I r (2 I r when a record is
replaced). Discrete Laplace noise of rate e_f / l1 on each coordinate multiplies the probability of any output by at
most exp(rate * l1) = exp(e_f); the count at e_c composes to e_f + e_c = epsilon.

Error. With P the mean kernel value: MSE = P / I + 4 I f^2 / (e_f n)^2 + (P sd(count) / n)^2, f = 1 (add/remove) or 2
(replace). The first term is Var(2 cos(w.x + b) cos(w.y + b)) summed over the data, at most; the second is the Laplace
variance 2 (I r / e_f)^2 times the mean square 2 of the weights 2 cos / r, over I. Options alpha and eta choose I and
J for a promised error instead (`median_of_means`).
"""

from __future__ import annotations

import math

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import TYPICAL_DENSITY, Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.published import median_of_means
from sfumato.quantizers import FourierQuantizer

NAME = "lsq-rff"
OPTIONS = ("n_features", "groups", *median_of_means.OPTIONS)
MOST_FEATURES = 20_000
RADIUS = 2**15 - 1


def best_features(epsilon: float, n: float, density: float = TYPICAL_DENSITY, factor: int = 1) -> int:
    """I that balances the two error terms: e n sqrt(P) / (2 f)."""
    return max(1, round(epsilon * n * math.sqrt(density) / (2 * factor)))


def predicted_rmse(features: int, epsilon: float, n: float, density: float, factor: int = 1) -> float:
    """Root mean square error of one answer, without the count's part."""
    return math.sqrt(density / features + 4 * features * factor**2 / (epsilon * n) ** 2)


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, ShiftInvariantKernel):
        return f"it needs a shift-invariant kernel, not {request.kernel.name}"
    return request.too_tight(width=1)


def _sizes(request: Request) -> tuple[int, int]:
    request.check_options(*OPTIONS)
    most = min(request.most_terms(width=1), request.most_terms_of_a_record)
    if median_of_means.wanted(request):
        sizes = median_of_means.median_of_means(request)
        if sizes.features > most:
            raise InputError(f"alpha and eta take {sizes.features} features, and the budgets allow {most}")
        return sizes.features, sizes.groups
    best = best_features(float(request.feature_epsilon), request.n, request.density, request.factor)
    features = request.size_option("n_features", min(best, MOST_FEATURES), most)
    groups = request.positive_option("groups", 1)
    if groups > features:
        raise InputError(f"groups ({groups}) must not exceed n_features ({features})")
    return features, groups


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost; a median of J > 1 means has about pi / 2 times the variance."""
    features, groups = _sizes(request)
    rmse = predicted_rmse(features, float(request.feature_epsilon), request.n, density, request.factor)
    variance = rmse**2 * (math.pi / 2 if groups > 1 else 1) + request.typical_count_error(density)
    work = float(features * request.dimension)
    return Prediction(
        rmse=math.sqrt(variance),
        integers=features,
        file_size=request.file_size(features, width=1),
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": features, "groups": groups},
    )


def build(request: Request) -> Mechanism:
    """Choose I from the request and draw the features."""
    features, groups = _sizes(request)
    promise = {name: request.options[name] for name in median_of_means.OPTIONS if name in request.options}
    if promise:
        promise["for_at_least"] = request.n  # with fewer records than were hinted at, the promise does not hold
    assert isinstance(request.kernel, ShiftInvariantKernel)
    quantizer = FourierQuantizer.draw(
        request.kernel,
        request.dimension,
        features,
        request.feature_seed,
        layout="phase",
        radius=RADIUS,
        bounds=request.bounds,
        outside=request.outside,
    )
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        DiscreteLaplace.at_most(request.feature_epsilon / (request.factor * quantizer.bound.l1)),
        parameters={"n_features": features, "groups": groups, **promise},
        groups=groups,
    )


METHOD = Method(NAME, "Fourier features with Laplace noise, as published", OPTIONS, refuse, predict, build, pure=True)
