"""`exponential-sums`: smooth kernels, the budget split over the terms of a short sum of exponentials (pure epsilon).

Source: Theorem 3.3 of Backurs et al. (2024), which gives every term of sum_j a_j exp(-t_j h) the same part of the
budget (option ``split="even"``). Here term j gets what makes the total error least.

Guarantee. Each term has a structure of Fourier pairs in groups (`quantizers.exponential_sums`); structure j is e_j-DP
by the argument of `central.fourier`, and the e_j and the count's e_c add up to at most epsilon.

Error of one answer, term j with m_j pairs in groups of g_j, f = 1 (add/remove) or 2 (replace):
MSE = sum_j a_j^2 (V_j / m_j + kappa_j m_j f^2 / (e_j n)^2 + 1 / (2 n g_j)) + error^2 + (P sd(count) / n)^2,
V_j the variance of one pair over the draw, `error` the proven one of the sum of exponentials. Best m_j:
e_j n sqrt(V_j / kappa) / f. Then term j adds a_j^2 sqrt(V_j) / e_j, up to a constant, and the best e_j is proportional
to a_j V_j^(1/4): the total is (sum_j a_j V_j^(1/4))^2 / epsilon. One draw for the whole kernel (`fourier` takes it,
with frequencies of the mixture) has sqrt(V) / epsilon with V about the mean of the V_j, which by Jensen's inequality is
larger: wide terms vary little, and one draw pays for them as for the others. With delta > 0 there is no such gain,
because Gaussian noise does not depend on the number of pairs: `fourier-gaussian` draws from the mixture.

V_j = (P_j + Q_j) / 2 - P_j^2, with P_j and Q_j the mean of exp(-t_j h) for two records and for a record and the mirror
image of another in a query, whose distances are about sqrt(3) times as long. They follow from the public guess of P: h
between two records is taken to spread like a Gamma variable, which gives a mean of exp(-t h) of (1 + t mean(h) /
shape)^-shape. Predictions take a shape of 4 (2 for squares), as on the papers' data sets. Sizes are chosen for half of
that, a wider spread, which costs a few percent: a guess that is too narrow would starve terms that clusters need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.central import fourier
from sfumato.errors import InputError
from sfumato.kernels import Rational
from sfumato.kernels.rational import ExponentialSum, exponential_sum
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.body import LARGEST_MEAN_RADIUS, DiscNoise, StackedDiscs
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats
from sfumato.quantizers.exponential_sums import ExponentialSums, check_terms, draw_terms
from sfumato.quantizers.fourier import ShardedFourier
from sfumato.roots import brentq

NAME = "exponential-sums"
OPTIONS = ("n_features", "split", "tolerance")
SPLITS = ("best", "even")
SHARE_STEPS = 2**16
LEAST_SHARE = 2**-10
LEAST_PAIRS = 2  # or a structure has no error bar
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = 1e-6, 0.05
TYPICAL_SHAPE, CAUTIOUS_SHAPE = 4.0, 2.0  # of distances between records, see above; half as much for squares
PART_OF_ERROR = 0.1  # of the error that one draw for the whole kernel would have
STRUCTURE_BYTES, COLUMN_BYTES = 400, 6


@dataclass(frozen=True)
class Design:
    """Terms and sizes, all public.

    Attributes
    ----------
    approximation : ExponentialSum
        Terms.
    shares : tuple of Fraction
        Parts of the budget.
    pairs, per_group : tuple of int
        Pairs of each structure, and of one group of it.
    """

    approximation: ExponentialSum
    shares: tuple[Fraction, ...]
    pairs: tuple[int, ...]
    per_group: tuple[int, ...]

    def variance(self, epsilon: float, n: float, factor: int, pair_variances: Floats) -> float:
        """Mean square error of one answer without the count's part, see the module's text."""
        total = self.approximation.error**2
        rows = zip(self.approximation.weights, self.shares, self.pairs, self.per_group, pair_variances, strict=True)
        for weight, share, pairs, per_group, each in rows:
            noise = fourier.kappa(per_group) * pairs * factor**2 / (float(share) * epsilon * n) ** 2
            sampling = 1 / (2 * n * per_group) if pairs > per_group else 0.0
            total += weight**2 * (each / pairs + noise + sampling)
        return total


def pair_variances(kernel: Rational, rates: tuple[float, ...], density: float, shape: float = TYPICAL_SHAPE) -> Floats:
    """V_j for a mean kernel value; no variance for a density of 0, and the largest possible for 1, which limits all."""
    if not 0 < density < 1:
        return np.full(len(rates), 0.5 if density >= 1 else 0.0)
    squares = kernel.distance == "sqeuclidean"
    shape, mirrored = (shape / 2, 3.0) if squares else (shape, math.sqrt(3.0))
    steps = np.array(rates) * _typical_distance(kernel.power, shape, density) / shape
    between, across = (1 + steps) ** -shape, (1 + mirrored * steps) ** -shape
    return np.asarray(np.maximum((between + across) / 2 - between**2, 0.0))


@lru_cache(maxsize=256)
def _typical_distance(power: float, shape: float, density: float) -> float:
    """Mean of h for which the mean kernel value is `density`."""
    made = exponential_sum(power, 1e-8)
    rates, weights = np.array(made.rates), np.array(made.weights) / math.fsum(made.weights)

    def excess(log_distance: float) -> float:
        return float(weights @ (1 + rates * math.exp(log_distance) / shape) ** -shape) - density

    lowest, highest = -40.0, 200.0
    if excess(lowest) <= 0 or excess(highest) >= 0:
        return math.exp(lowest if excess(lowest) <= 0 else highest)
    return math.exp(float(brentq(excess, lowest, highest, xtol=1e-9)))


def design(request: Request) -> Design:
    """Choose terms, budgets and sizes from the request."""
    request.check_options(*OPTIONS)
    kernel, epsilon, n = request.kernel, float(request.feature_epsilon), request.n
    assert isinstance(kernel, Rational)
    approximation = exponential_sum(kernel.power, tolerance(request))
    check_terms(kernel, request.dimension, len(approximation.rates))
    varies = pair_variances(kernel, approximation.rates, request.density, CAUTIOUS_SHAPE)
    shares = _shares(request, np.array(approximation.weights) * varies**0.25)
    budgets = np.array([float(share) for share in shares]) * epsilon
    best = budgets * n * np.sqrt(varies / fourier.kappa(fourier.PER_GROUP)) / request.factor
    most = min(request.most_terms(width=2), fourier.MOST_PAIRS)
    total = request.size_option("n_features", round(max(best.sum(), 1.0)), most)
    sizes = np.maximum(LEAST_PAIRS, np.round(best * (total / max(best.sum(), 1e-300)))).astype(np.int64)
    touched = max(1, min(fourier.PER_GROUP, request.most_terms_of_a_record // len(shares)))
    per_group = [min(touched, int(size)) for size in sizes]
    pairs = [group * max(1, round(int(size) / group)) for size, group in zip(sizes, per_group, strict=True)]
    return Design(approximation, shares, tuple(pairs), tuple(per_group))


def tolerance(request: Request) -> float:
    """Return the largest error of the sum of exponentials: the option, or a tenth of what the release would have."""
    epsilon, density = float(request.feature_epsilon), request.density
    pairs = min(fourier.best_pairs(epsilon, request.n, density, request.factor), fourier.MOST_PAIRS)
    shared = fourier.predicted_rmse(pairs, fourier.PER_GROUP, epsilon, request.n, density, request.factor)
    usual = min(max(PART_OF_ERROR * shared, SMALLEST_TOLERANCE), LARGEST_TOLERANCE)
    value = request.options.get("tolerance", usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST_TOLERANCE <= value <= 0.1:
        raise InputError(f"tolerance must be a number from {SMALLEST_TOLERANCE:g} to 0.1, got {brief(value)}")
    return float(value)


def _shares(request: Request, needs: Floats) -> tuple[Fraction, ...]:
    """Parts of the budget in proportion to the needs, or even ones, rounded down to whole steps."""
    split = request.options.get("split", "best")
    if split not in SPLITS:
        raise InputError(f"split must be 'best' or 'even', got {brief(split)}")
    if split == "even":
        needs = np.ones(len(needs))
    raised = np.maximum(needs / needs.sum(), LEAST_SHARE)
    steps = np.floor(SHARE_STEPS * raised / raised.sum()).astype(np.int64)
    return tuple(Fraction(int(step), SHARE_STEPS) for step in steps)


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, Rational):
        return f"it is for the kernel rational, not {request.kernel.name}"
    if request.most_terms_of_a_record < 1 or request.most_terms(width=2) < LEAST_PAIRS:
        return request.too_tight(width=2) or "the budgets leave no room for a structure of each term"
    if request.feature_epsilon * Fraction(LEAST_SHARE) < _least_budget(request, fourier.PER_GROUP):
        return "so little budget, split over terms, does not fit 64-bit noise"
    return None


def _least_budget(request: Request, per_group: int) -> Fraction:
    """Budget below which disc noise would be too wide for integers."""
    return Fraction(fourier.SMALLEST_RADIUS * (2 * per_group + 1) * request.factor, LARGEST_MEAN_RADIUS)


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    made, kernel = design(request), request.kernel
    assert isinstance(kernel, Rational)
    varies = pair_variances(kernel, made.approximation.rates, density)
    variance = made.variance(float(request.feature_epsilon), request.n, request.factor, varies)
    pairs, terms = sum(made.pairs), len(made.pairs)
    described = terms * (STRUCTURE_BYTES + COLUMN_BYTES * request.dimension)
    return Prediction(
        rmse=math.sqrt(variance + request.typical_count_error(density)),
        integers=2 * pairs,
        file_size=request.file_size(pairs, width=2) + described,
        work_per_record=float(sum(made.per_group) * request.dimension),
        work_per_query=float(pairs * request.dimension),
        parameters={"n_features": pairs, "tolerance": tolerance(request)},
    )


def build(request: Request) -> Mechanism:
    """Choose the terms, draw their frequencies and split the budget."""
    made, kernel = design(request), request.kernel
    assert isinstance(kernel, Rational)
    drawn = draw_terms(
        kernel,
        made.approximation,
        request.dimension,
        made.pairs,
        request.feature_seed,
        request.bounds,
        request.outside,
    )
    parts, noises = [], []
    for phases, per_group, share in zip(drawn, made.per_group, made.shares, strict=True):
        epsilon = request.feature_epsilon * share
        radius = fourier.disc_radius(epsilon, per_group, request.factor)
        parts.append(ShardedFourier(phases, per_group, radius))
        noises.append(DiscNoise(per_group, epsilon / (request.factor * radius)))
    quantizer = ExponentialSums(made.approximation, tuple(parts))
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        StackedDiscs(tuple(noises), tuple(part.groups for part in parts)),
        parameters={
            "n_features": sum(made.pairs),
            "tolerance": tolerance(request),
            "split": request.options.get("split", "best"),
            "shares": [str(share) for share in made.shares],
        },
    )


METHOD = Method(NAME, "a structure of Fourier pairs for each exponential", OPTIONS, refuse, predict, build, pure=True)
