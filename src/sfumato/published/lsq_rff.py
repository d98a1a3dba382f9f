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
J for a promised error instead (the rest of this text).

(alpha, eta) guarantees: how many features and groups a promised error takes, and how many records. Source: Lemma 2.5
and appendix C.2 of Wagner et al. (2023), here with explicit constants and a private count.

One query. The answer is the median of J means of I' terms, I = I' J, divided by the noisy count. Write e for the budget
of the features, f for how many records differ between neighbours, P for the mean kernel value between two records, and
a = (alpha (n - z) - z) / n for what the count leaves of alpha (see 5).

1. A term at y is T = 2 c(y) mean_x c(x), c(x) = cos(w.x + b). With A + iB = mean_x exp(i w.(x - y)) its mean is
   E A = KDE(y) and its variance is E[A^2 + B^2] + E[A^2 - B^2] / 2 - KDE(y)^2 <= 3 P / 2, because E[A^2 + B^2] = P.
2. Its noise has variance 2 (f I / (e n))^2 E[4 c(y)^2] = (2 f I / (e n))^2 and mean 0.
3. So a mean of I' terms has variance v = (3 P / 2 + (2 f I / (e n))^2) / I'. Where v <= a^2 / 8, it is off by more
   than a with probability at most p = 1/8 (Chebyshev).
4. The median is off by more than a only if at least J / 2 of the J independent means are, which has probability at
   most (4 p (1 - p))^(J/2) = (7/16)^(J/2) (Chernoff). J = 2 ln(1 / eta') / ln(16/7) groups bring it down to eta'.
   p = 1/8 is, to two digits, the p that needs the fewest records.
5. The count is off by Z, and |Z| <= z but for a probability of 2 q^(z+1) / (1 + q), q = exp(-count's epsilon), which is
   made eta / 10. If the sum is off by at most n a, the answer is off by at most (n a + z) / (n - z) = alpha.

v is least at I' = sqrt(3 P / 2) e n / (2 J f), so the condition of 3 can be met from n = 32 f J sqrt(3 P / 2) / (e a^2)
records on, which is the O(log(1 / eta) / (epsilon alpha^2)) of the paper; the smallest I' that meets it is used.

All queries of the box at once (Gaussian kernel). In units u of the bandwidth the kernel changes by at most sqrt(2/e)
|du|, and a mean of terms by at most 2 (1 + B) W |du| if no frequency is longer than W and no noise larger than B. |w|^2
/ 2 is chi-squared with d degrees of freedom and noise has exponential tails: both hold for all I features but for eta /
20 each. A median of Lipschitz functions is Lipschitz. So on a grid of cells of side g = 2 (a / 10) / (sqrt(d) L), L the
sum of both constants, an error of at most 0.9 a at the centres is one of at most a everywhere, and eta' = 0.8 eta /
(number of cells) pays for all centres (union bound).

SLACK covers what the integer tables add to terms and noise, below one part in five hundred. The guarantee is about the
kernel sum of the records as encoded: clipped to the bounds and on their grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Gaussian, ShiftInvariantKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import TYPICAL_DENSITY, Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.codec import brief
from sfumato.quantizers import FourierQuantizer
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box

PROMISE = ("alpha", "eta", "all_queries")
GROUP_FAILURE = 1 / 8
GROUPS_PER_NAT = 2 / math.log(1 / (4 * GROUP_FAILURE * (1 - GROUP_FAILURE)))
COUNT_PART, FREQUENCY_PART, NOISE_PART = 0.1, 0.05, 0.05
NET_PART = 0.1
SLACK = 1.01
SMALLEST = 1e-12  # of alpha and eta
KERNEL_SLOPE = math.sqrt(2 / math.e)
MOST_RECORDS = 10**15


@dataclass(frozen=True)
class MedianOfMeans:
    """Sizes for which ``Pr[|answer - truth| <= alpha] >= 1 - eta``, for each query or for all at once.

    Attributes
    ----------
    alpha, eta : float
        Largest error, and probability with which it may be exceeded.
    all_queries : bool
        Whether the probability is for all queries in the bounds together.
    groups, per_group : int
        J and I'.
    density : float
        The P up to which the guarantee holds; 1 makes no assumption about the data.
    """

    alpha: float
    eta: float
    all_queries: bool
    groups: int
    per_group: int
    density: float

    @property
    def features(self) -> int:
        """I."""
        return self.groups * self.per_group


def wanted(request: Request) -> bool:
    """Whether the options ask for a guarantee."""
    return any(name in request.options for name in PROMISE)


def median_of_means(request: Request) -> MedianOfMeans:
    """Sizes for the guarantee in the request's options ``alpha``, ``eta`` and ``all_queries``.

    Raises
    ------
    InputError
        If there are too few records for it; the text says how many it takes.
    """
    _check(request)
    sizes = _promised(request)
    if sizes is None:
        few = f"{request.n} records at epsilon {float(request.epsilon):g} are too few for an error of at most "
        raise InputError(
            f"{few}alpha = {request.options['alpha']:g} with probability 1 - {request.options['eta']:g}: it takes "
            f"{records_needed(request)}; pass a larger epsilon, alpha or eta, or a smaller density if one is public"
        )
    return sizes


def records_needed(request: Request) -> int:
    """Smallest n for which the guarantee in the request's options can be given."""
    _check(request)
    low, high = 0, 1
    while _promised(replace(request, n=high)) is None:
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            raise InputError("no number of records is enough for this alpha and eta; pass larger ones")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _promised(replace(request, n=middle)) is None else (low, middle)
    return high


def _check(request: Request) -> None:
    for name in ("alpha", "eta"):
        value = request.options.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST <= value < 1:
            raise InputError(
                f"options alpha and eta must both be numbers between 0 and 1, got {name} = {brief(value)}; "
                f"{SMALLEST:g} is the least"
            )
    for name in ("n_features", "groups"):
        if name in request.options:
            raise InputError(f"options alpha and eta choose {name} themselves; leave it out")
    if not isinstance(request.options.get("all_queries", False), bool):
        raise InputError(f"option all_queries must be True or False, got {brief(request.options['all_queries'])}")
    if request.options.get("all_queries", False):
        if not isinstance(request.kernel, Gaussian):
            raise InputError(f"all_queries needs the Gaussian kernel, not {request.kernel.name}")
        if request.bounds is None:
            raise InputError("all_queries needs bounds=, the box that holds the queries")


def _promised(request: Request) -> MedianOfMeans | None:
    """Choose groups and features for the request's n; None if it is too small."""
    alpha, eta = float(request.options["alpha"]), float(request.options["eta"])
    all_queries = bool(request.options.get("all_queries", False))
    density = request.density if "density" in request.options else 1.0
    offset = _count_offset(request, COUNT_PART * eta)
    left = (alpha * (request.n - offset) - offset) / request.n
    if left <= 0:
        return None
    at_point = (1 - NET_PART) * left if all_queries else left
    groups = _groups(-math.log((1 - COUNT_PART) * eta))
    while True:
        per_group = _terms(request, at_point, groups, 1.5 * density)
        if per_group is None or not all_queries:
            break
        # More groups mean more features, a finer net, and so more groups: repeat until they suffice.
        enough = _groups_for_the_net(request, left, eta, groups * per_group)
        if enough <= groups:
            break
        groups = enough
    return None if per_group is None else MedianOfMeans(alpha, eta, all_queries, groups, per_group, density)


def _groups(nats: float) -> int:
    """J that brings a failure down to exp(-nats)."""
    return max(1, math.ceil(GROUPS_PER_NAT * nats))


def _terms(request: Request, error: float, groups: int, variance: float) -> int | None:
    """Smallest I' with (variance + (2 f I' J / (e n))^2) / I' <= p error^2, the smaller root; None if there is none."""
    noise = SLACK * (2 * request.factor * groups / (float(request.feature_epsilon) * request.n)) ** 2
    allowed = GROUP_FAILURE * error**2
    root = allowed**2 - 4 * noise * SLACK * variance
    if root < 0:
        return None
    terms = math.ceil(2 * SLACK * variance / (allowed + math.sqrt(root)))
    return terms if SLACK * variance / terms + noise * terms <= allowed else None


def _groups_for_the_net(request: Request, error: float, eta: float, features: int) -> int:
    """Count the groups that hold the error at the centres of all cells of the net together."""
    dimension = request.dimension
    from scipy.stats import chi2  # slow to load, and few plans ask for a promise

    longest = math.sqrt(2 * float(chi2.isf(FREQUENCY_PART * eta / features, dimension)))
    scale = request.factor * features / (float(request.feature_epsilon) * request.n)
    largest_noise = scale * math.log(2 * features / (NOISE_PART * eta))
    slope = 2 * SLACK * (1 + largest_noise) * longest + KERNEL_SLOPE
    side = 2 * NET_PART * error / (math.sqrt(dimension) * slope)
    cells = np.maximum(1.0, np.ceil(_extents(request) / side))
    part = 1 - COUNT_PART - FREQUENCY_PART - NOISE_PART
    return _groups(float(np.log(cells).sum()) - math.log(part * eta))


def _extents(request: Request) -> Floats:
    """Widths, in bandwidths, of a box around the image of the bounds."""
    assert isinstance(request.kernel, Gaussian)
    widths = 2 * Box.from_bounds(request.bounds, request.dimension).half_widths
    return np.asarray(np.abs(request.kernel.scale.divide(np.diag(widths))).sum(axis=0))


def _count_offset(request: Request, failure: float) -> int:
    """Smallest z that the count's noise exceeds with at most this probability; 0 when n is public."""
    if request.count_law is None:
        return 0
    rate = float(request.count_law.rate)
    return max(0, math.ceil(math.log(2 / (failure * (1 + math.exp(-rate)))) / rate) - 1)


NAME = "lsq-rff"
OPTIONS = ("n_features", "groups", *PROMISE)
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
    if wanted(request):
        sizes = median_of_means(request)
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
    promise = {name: request.options[name] for name in PROMISE if name in request.options}
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
