"""`fourier`: sharded Fourier pairs with disc noise, the default in many dimensions (pure epsilon).

Source: the LSQ mechanism of Wagner et al. (2023) with three changes: pairs (cos, sin) instead of a random offset;
noise shaped like the product of discs in which a record's pairs lie (`privacy.body`) instead of Laplace noise; and
groups (`quantizers.fourier`), so that a record pays for m_g pairs and touches only those.

Guarantee. Given the records' coins, which are independent of each other and of the data, adding or removing a record
changes the sums of one group by a vector v with every pair in the disc of radius s. Disc noise of rate e_f / s makes
that group's output e_f-DP; the other groups' outputs do not change in law, and every group, empty or not, gets noise.
Averaging over the coins keeps the bound (quasi-convexity). Replacing a record changes two groups by one disc each or
one group by two: rate e_f / (2 s) covers both. The count at e_c composes to epsilon.

Error of one answer, m = G m_g pairs, f = 1 (add/remove) or 2 (replace), P the mean kernel value:
MSE = P / (2 m) + kappa m f^2 / (e_f n)^2 + 1 / (2 n m_g) + (P sd(count) / n)^2, kappa = (2 m_g + 1)(2 m_g + 2) / (4
m_g^2).
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import TYPICAL_DENSITY, Request
from sfumato.privacy.body import LARGEST_MEAN_RADIUS, DiscNoise
from sfumato.quantizers.fourier import ShardedFourier
from sfumato.quantizers.phases import Phases

NAME = "fourier"
OPTIONS = ("n_features", "per_group")
MOST_PAIRS = 2**15
PER_GROUP, MOST_PER_GROUP = 20, 64
RADIUS, SMALLEST_RADIUS, LARGEST_RADIUS = 2**9, 16, 2**15 - 1
STEPS_PER_NOISE = 32


def kappa(per_group: int) -> float:
    """How much more noise m_g pairs need than the limit of many."""
    return (2 * per_group + 1) * (2 * per_group + 2) / (4 * per_group**2)


def best_pairs(epsilon: float, n: float, density: float = TYPICAL_DENSITY, factor: int = 1) -> int:
    """Balance the first two error terms: m = e n sqrt(P / (2 kappa)) / f; two at least, or there is no error bar."""
    return max(2, round(epsilon * n * math.sqrt(density / (2 * kappa(PER_GROUP))) / factor))


def predicted_rmse(
    pairs: int, per_group: int, epsilon: float, n: float, density: float, factor: int = 1, read_share: float = 1.0
) -> float:
    """Root mean square error of one answer, without the count's part."""
    sampling = read_share / (2 * n * per_group) if pairs > per_group else 0.0
    noise = kappa(per_group) * pairs * factor**2 / (epsilon * n) ** 2
    return math.sqrt(density / (2 * pairs) + noise + sampling)


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, ShiftInvariantKernel):
        return f"it needs a shift-invariant kernel, not {request.kernel.name}"
    return request.too_tight(width=2)


def _sizes(request: Request) -> tuple[int, int]:
    """Pairs in all and pairs of one group: the file and the queries limit the first, the curator's work the second."""
    request.check_options(*OPTIONS)
    best = best_pairs(float(request.feature_epsilon), request.n, request.density, request.factor)
    most = request.most_terms(width=2)
    wanted = request.size_option("n_features", min(best, MOST_PAIRS), most)
    most_per_group = min(MOST_PER_GROUP, request.most_terms_of_a_record)
    per_group = min(request.size_option("per_group", PER_GROUP, most_per_group), wanted)
    groups = max(1, min(round(wanted / per_group), most // per_group))
    return per_group * groups, per_group


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    pairs, per_group = _sizes(request)
    facts = float(request.feature_epsilon), request.n, density, request.factor, request.read_share
    rmse = predicted_rmse(pairs, per_group, *facts)
    return Prediction(
        rmse=math.sqrt(rmse**2 + request.typical_count_error(density)),
        integers=2 * pairs,
        file_size=request.file_size(pairs, width=2),
        work_per_record=float(per_group * request.dimension),
        work_per_query=float(pairs * request.dimension),
        parameters={"n_features": pairs, "per_group": per_group},
    )


def disc_radius(epsilon: Fraction, per_group: int, factor: int) -> int:
    """Integer radius of a disc: finer for a large budget, whose noise is narrow; coarser where noise is too wide."""
    widest = LARGEST_MEAN_RADIUS * epsilon / ((2 * per_group + 1) * factor)
    if widest < SMALLEST_RADIUS:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or fewer records per user")
    fine = math.ceil(STEPS_PER_NOISE * epsilon / factor)
    return min(max(RADIUS, fine), LARGEST_RADIUS, int(widest))


def build(request: Request) -> Mechanism:
    """Choose the number of groups from the request and draw the features."""
    pairs, per_group = _sizes(request)
    assert isinstance(request.kernel, ShiftInvariantKernel)
    phases = Phases.draw(
        request.kernel, request.dimension, pairs, request.feature_seed, request.bounds, request.outside
    )
    radius = disc_radius(request.feature_epsilon, per_group, request.factor)
    quantizer = ShardedFourier(phases, per_group, radius)
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        DiscNoise(per_group, request.feature_epsilon / (request.factor * radius)),
        parameters={"n_features": pairs, "per_group": per_group},
    )


METHOD = Method(NAME, "sharded Fourier pairs with disc noise", OPTIONS, refuse, predict, build, pure=True)
