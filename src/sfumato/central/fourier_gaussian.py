"""`fourier-gaussian`: Fourier pairs with one discrete Gaussian, for delta > 0.

Source: the Gaussian mechanism on random Fourier features, the rate of Hall, Rinaldo and Wasserman (appendix C.3 of
Wagner et al. (2023)) as a function release, linear in the dimension.

Guarantee. A record's m pairs have l2 norm at most D = sqrt(m) s (2 D when a record is replaced), and discrete Gaussian
noise calibrated to it is (e_f, delta)-DP (`privacy.gaussian`, with its proof); the count at pure e_c composes to
(epsilon, delta).

Error of one answer: MSE = P / (2 m) + (c f / n)^2 + (P sd(count) / n)^2 with c = sigma / D: the noise does not depend
on m, which compute alone limits.
"""

from __future__ import annotations

import math

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.gaussian import gaussian_multiplier, gaussian_noise, largest_length
from sfumato.quantizers import FourierQuantizer

NAME = "fourier-gaussian"
OPTIONS = ("n_features",)
USUAL_RADIUS, LARGEST_RADIUS = 2**15 - 1, 2**26
LARGEST_EPSILON = 16  # beyond, exp(epsilon) makes the lattice count beside delta, and pure noise is small enough
MOST_PAIRS, FEWEST_PAIRS = 10_000, 500


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not request.delta:
        return "it needs delta > 0"
    if request.epsilon > LARGEST_EPSILON:
        return f"it takes an epsilon up to {LARGEST_EPSILON}: with more, pass delta=0"
    if not isinstance(request.kernel, ShiftInvariantKernel):
        return f"it needs a shift-invariant kernel, not {request.kernel.name}"
    return request.too_tight(width=2)


def _pairs(request: Request, multiplier: float) -> int:
    """Enough pairs to bring P / (2 m) to a tenth of the noise, within what compute and the limits allow."""
    request.check_options(*OPTIONS)
    enough = 5 * request.density * (request.n / (multiplier * request.factor)) ** 2
    most = min(request.most_terms(width=2), request.most_terms_of_a_record)
    return request.size_option("n_features", int(min(MOST_PAIRS, max(FEWEST_PAIRS, enough))), most)


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    multiplier = gaussian_multiplier(float(request.feature_epsilon), request.delta)
    pairs = _pairs(request, multiplier)
    noise = (multiplier * request.factor / request.n) ** 2
    work = float(pairs * request.dimension)
    return Prediction(
        rmse=math.sqrt(density / (2 * pairs) + noise + request.count_error(density)),
        integers=2 * pairs,
        file_size=request.file_size(pairs, width=2),
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": pairs},
    )


def _radius(epsilon: float, delta: float, multiplier: float, pairs: int) -> int:
    """Integer radius of a pair, finer where exp(epsilon) would make the lattice's slack large beside delta."""
    slack = (1 + math.exp(epsilon)) * math.sqrt(2 * pairs / 287) / 2
    needed = math.sqrt(slack * 2000 / delta) / multiplier
    return min(max(USUAL_RADIUS, math.ceil(needed)), LARGEST_RADIUS)


def build(request: Request) -> Mechanism:
    """Draw the pairs and calibrate the noise."""
    epsilon = float(request.feature_epsilon)
    multiplier = gaussian_multiplier(epsilon, request.delta)
    pairs = _pairs(request, multiplier)
    assert isinstance(request.kernel, ShiftInvariantKernel)
    scale = request.factor * math.sqrt(pairs)
    largest = int(largest_length(scale, epsilon, request.delta))
    radius = min(_radius(epsilon, request.delta, multiplier * scale, pairs), largest)
    if radius < 16:
        raise InputError("so little budget for so many features does not fit 64-bit noise; pass fewer n_features")
    quantizer = FourierQuantizer.draw(
        request.kernel,
        request.dimension,
        pairs,
        request.feature_seed,
        layout="pair",
        radius=radius,
        bounds=request.bounds,
        outside=request.outside,
    )
    l2_squared = request.factor**2 * quantizer.bound.l2_squared
    noise, loss = gaussian_noise(l2_squared, quantizer.size, epsilon, request.delta)
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        parameters={
            "n_features": pairs,
            "noise_multiplier": noise.sigma / math.nextafter(math.sqrt(l2_squared), math.inf),
        },
        feature_loss=loss,
    )


METHOD = Method(NAME, "Fourier pairs with Gaussian noise", OPTIONS, refuse, predict, build)
