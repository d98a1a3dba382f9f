"""`fourier-gaussian`: Fourier pairs with discrete Gaussian noise, in groups where there are many records; delta > 0.

Source: the Gaussian mechanism on random Fourier features, the rate of Hall, Rinaldo and Wasserman (appendix C.3 of
Wagner et al. (2023)) as a function release, linear in the dimension.

Guarantee. A record's m_g pairs have l2 norm at most D = sqrt(m_g) s (f times that between neighbours), and discrete
Gaussian noise calibrated to f D is (e_f, delta)-DP (`privacy.gaussian`, with its proof). With G > 1 groups that holds
given the records' secret coins (`quantizers.fourier`), which do not depend on the data: f records touch f groups at
most, and the norms of what they change add up to f D at most. Averaging over the coins keeps the bound, because the
hockey-stick divergence is jointly convex; revealing them would not change it either, so the loss composes as a Gaussian
one. The count at pure e_c composes to (epsilon, delta).

Error of one answer, m = G m_g pairs, c = sigma / D: MSE = P / (2 m) + (c f)^2 G / n^2 + (P sd(count) / n)^2, and with
G > 1 also + 1 / (2 n m_g). A record's work is m_g pairs: of the sizes with nearly the least error those of least work
are taken, so that many records cost no more than under pure epsilon.
"""

from __future__ import annotations

import math

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.gaussian import gaussian_multiplier, gaussian_noise, largest_length
from sfumato.quantizers import FourierQuantizer, ShardedFourier
from sfumato.quantizers.phases import Phases

NAME = "fourier-gaussian"
OPTIONS = ("n_features", "per_group")
USUAL_RADIUS, LARGEST_RADIUS = 2**15 - 1, 2**26
LARGEST_EPSILON = 16  # beyond, exp(epsilon) makes the lattice count beside delta, and pure noise is small enough
PAIRS = (500, 1000, 2000, 4000, 10_000, 20_000, 2**15)
PER_GROUP = (16, 32, 64, 125, 250, 500, 1000, 2000)
MOST_WORK = 10_000  # pairs of one record
# Mean square error, beside the least, at which less work is preferred.
NEARLY = 1.1


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not request.delta:
        return "it needs delta > 0"
    if request.epsilon > LARGEST_EPSILON:
        return f"it takes an epsilon up to {LARGEST_EPSILON}: with more, pass delta=0"
    if not isinstance(request.kernel, ShiftInvariantKernel):
        return f"it needs a shift-invariant kernel, not {request.kernel.name}"
    return request.too_tight(width=2)


def _mean_square_error(request: Request, density: float, pairs: int, per_group: int) -> float:
    """Predicted error, without the count's part."""
    multiplier = gaussian_multiplier(float(request.feature_epsilon), request.delta)
    noise = (multiplier * request.factor / request.n) ** 2 * (pairs / per_group)
    sampling = request.read_share / (2 * request.n * per_group) if pairs > per_group else 0.0
    return density / (2 * pairs) + noise + sampling


def _sizes(request: Request) -> tuple[int, int]:
    """Pairs in all and pairs of one group: nearly the least error, and then the least work for a record."""
    return request.once(NAME, lambda: _chosen_sizes(request))


def _chosen_sizes(request: Request) -> tuple[int, int]:
    request.check_options(*OPTIONS)
    most = request.most_terms(width=2)
    most_own = min(request.most_terms_of_a_record, MOST_WORK, most)
    wanted = sorted({min(pairs, most) for pairs in PAIRS})
    if "n_features" in request.options:
        wanted = [request.size_option("n_features", 1, most)]
    own: tuple[int, ...] = (*PER_GROUP, most_own)
    if "per_group" in request.options:
        own = (request.size_option("per_group", 1, most_own),)
    elif "n_features" in request.options and wanted[0] <= most_own:
        own = (wanted[0],)  # so many features were one group before there were groups
    sizes = {_whole_groups(pairs, min(per_group, pairs, most_own), most) for pairs in wanted for per_group in own}
    errors = {size: _mean_square_error(request, request.density, *size) for size in sizes}
    least = NEARLY * min(errors.values())
    return min((size for size in sizes if errors[size] <= least), key=lambda size: (size[1], size[0]))


def _whole_groups(pairs: int, per_group: int, most: int) -> tuple[int, int]:
    return per_group * max(1, min(round(pairs / per_group), most // per_group)), per_group


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    pairs, per_group = _sizes(request)
    error = _mean_square_error(request, density, pairs, per_group)
    return Prediction(
        rmse=math.sqrt(error + request.typical_count_error(density)),
        integers=2 * pairs,
        file_size=request.file_size(pairs, width=2),
        work_per_record=float(per_group * request.dimension),
        work_per_query=float(pairs * request.dimension),
        parameters={"n_features": pairs, "per_group": per_group},
    )


def _radius(epsilon: float, delta: float, multiplier: float, pairs: int) -> int:
    """Integer radius of a pair, finer where exp(epsilon) would make the lattice's slack large beside delta."""
    slack = (1 + math.exp(epsilon)) * math.sqrt(2 * pairs / 287) / 2
    needed = math.sqrt(slack * 2000 / delta) / multiplier
    return min(max(USUAL_RADIUS, math.ceil(needed)), LARGEST_RADIUS)


def build(request: Request) -> Mechanism:
    """Draw the pairs and calibrate the noise."""
    epsilon = float(request.feature_epsilon)
    pairs, per_group = _sizes(request)
    assert isinstance(request.kernel, ShiftInvariantKernel)
    scale = request.factor * math.sqrt(per_group)
    largest = int(largest_length(scale, epsilon, request.delta))
    multiplier = gaussian_multiplier(epsilon, request.delta)
    radius = min(_radius(epsilon, request.delta, multiplier * scale, per_group), largest)
    if radius < 16:
        raise InputError("so little budget for so many features does not fit 64-bit noise; pass fewer n_features")
    phases = Phases.draw(
        request.kernel, request.dimension, pairs, request.feature_seed, request.bounds, request.outside
    )
    grouped = pairs > per_group
    quantizer = ShardedFourier(phases, per_group, radius) if grouped else FourierQuantizer(phases, "pair", radius)
    l2_squared = request.factor**2 * quantizer.bound.l2_squared
    touched = min(2 * per_group * request.factor, quantizer.size)
    noise, loss = gaussian_noise(l2_squared, touched, epsilon, request.delta)
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        parameters={
            "n_features": pairs,
            "per_group": per_group,
            "noise_multiplier": noise.sigma / math.nextafter(math.sqrt(l2_squared), math.inf),
        },
        feature_loss=loss,
    )


METHOD = Method(NAME, "Fourier pairs with Gaussian noise", OPTIONS, refuse, predict, build)
