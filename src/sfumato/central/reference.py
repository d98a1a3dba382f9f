"""`reference`: landmarks without a public sample, drawn from a normal law whose moments are bought first (pure).

For 5 to 16 bounded columns. A tenth of epsilon (`reference_share`) buys means and covariances (`covariances`); points
drawn from the normal law that they describe serve as `landmarks`, with the rest of epsilon. What landmarks see of a
record is exact whatever they are, so a law that suits the records badly costs accuracy and no honesty: the check's
Fourier sums measure what is missed (`checking`, `quantizers.checked`), and bars come from that.

Guarantee. f records differ between neighbours, and each has integers of l2 norm at most S and of l1 norm at most S_1
(`covariances`). Ball noise of rate e_m / (f S), or Laplace noise of rate e_m / (f S_1) where the ball's does not fit,
is e_m-DP (`privacy.ball`). Landmarks are a function of these noisy sums, the noisy count and public numbers; for any
landmarks the release of `central.landmarks` is private at what is left. Adaptive composition gives epsilon: one
promise, and an entry in the ledger for the count, for the moments and for the sums. The data are read twice.

Error, for normal records of equal spread in all columns, for which P = (1 + 4 s^2)^(-d/2), s in bandwidths: landmarks
are drawn around such records with the moments' noise, which tells for every rank the mean G of |g(y)|^2 and the part H
of P that they miss. Records that are not normal leave more: a tenth is added, as on the cod-rna table. The check
corrects what is missed, with its own error at H, so MSE = noise of the landmarks + (1 - G) (error of Fourier sums at H)
+ count. Where little is known of the records, this is a guess: at worst H = P, and answers are those of Fourier sums
with 0.45 of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sfumato.central import checking, landmarks
from sfumato.central.covariances import OWN, Covariances
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import SMALLEST_SHARE, Request
from sfumato.privacy.ball import BallNoise, ball_fits
from sfumato.privacy.guarantee import exact_epsilon
from sfumato.privacy.noise import DiscreteLaplace, rounded_down
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.nystrom import Estimate, PublicSample, Spectrum

NAME, MOMENTS = "reference", "moments"
SHARE_OPTION, SHARE = "reference_share", Fraction(1, 10)
OPTIONS = (*landmarks.OPTIONS, SHARE_OPTION)
FEWEST_COLUMNS, MOST_COLUMNS = 5, 16
LANDMARKS, RECORDS = 800, 600  # drawn, and records assumed in a plan
SCALES = (128, 64, 32, 16)  # B, the largest at which ball noise can be drawn
LEAST_REACH = 2.0  # half widths in assumed deviations: zeros and ones, and narrower columns, have no normal law
LARGEST_ERROR = 0.5  # of a moment, in assumed variances: beyond, the law would be noise
MOST_WORK = 5e10  # of all records, some ten seconds of a core: beyond, it is taken where it is asked for
UNLIKE = 0.1  # of P, what records miss by not being normal


@dataclass(frozen=True, eq=False)
class Purchase:
    """What is bought first, from public facts, and the mechanism that follows from it.

    Attributes
    ----------
    request : Request
        All that is asked for.
    share : Fraction
        The moments' part of epsilon.
    moments : Covariances
        What is summed for them.
    noise : BallNoise or DiscreteLaplace
        Its noise.
    unspent : float
        A delta that was allowed and is not needed.
    """

    request: Request
    share: Fraction
    moments: Covariances
    noise: BallNoise | DiscreteLaplace
    unspent: float = 0.0

    @classmethod
    def of(cls, request: Request) -> Purchase:
        """Choose the integers' scale and their noise."""
        share = _share(request)
        budget = request.epsilon * share / request.factor
        for scale in SCALES:
            moments = Covariances(request.box, scale)
            size, bound = moments.size, moments.bound
            length = math.isqrt(bound.l2_squared - 1) + 1
            if (size + 1) * length**2 < 2 * bound.l1**2 and ball_fits(size, budget / length):
                return cls(request, share, moments, BallNoise(size, rounded_down(budget / length)))
        return cls(request, share, moments, DiscreteLaplace.at_most(budget / bound.l1))

    @property
    def epsilon(self) -> Fraction:
        """What the moments cost."""
        return self.request.epsilon * self.share

    @property
    def error(self) -> float:
        """Deviation of a released square of u."""
        return math.sqrt(self.noise.variance) / (OWN * self.moments.scale**2 * self.request.n)

    @property
    def rest(self) -> Request:
        """What is asked of the landmarks."""
        options = {name: value for name, value in self.request.options.items() if name != SHARE_OPTION}
        return replace(self.request, epsilon=self.request.epsilon - self.epsilon, options=options)

    @cached_property
    def design(self) -> Design:
        """Choose the rank of least predicted error; a function of public facts only."""
        found = min(_designs(self), key=lambda each: each.mean_square_error(self.request.density), default=None)
        if found is None:
            raise InputError("the budgets for time and space leave no room for synthetic landmarks; pass larger ones")
        return found

    def drawn(self, values: Integers, count: float) -> PublicSample:
        """Draw the landmarks that noisy moments describe."""
        box, (means, covariances) = self.moments.bounds, self.moments.read(values, max(count, 1.0))
        stream = PublicStream(self.request.feature_seed, "reference/landmarks")
        places = _normal(means, covariances, self.error, LANDMARKS, stream)
        return PublicSample.of(box.centre + box.half_widths * places, box.dimension)

    def outline(self) -> Mechanism:
        """Build what follows from the moments that a plan assumes: of the size of the real one, before it is paid."""
        return self.mechanism(self.moments.assumed(_variances(self.request), self.request.n), self.request.n)

    def mechanism(self, values: Integers, count: float) -> Mechanism:
        """Build what the rest of the budget pays for: landmarks that the noisy moments describe."""
        asked, request = replace(self.rest, landmarks=self.drawn(values, count)), self.request
        assert asked.landmarks is not None
        spanned = landmarks.fit(asked.landmarks, asked.kernel, self.moments.bounds, asked.outside).spectrum.rank
        made = landmarks.build(asked.with_options(n_features=min(self.design.rank, spanned)))
        unspent = {"unspent_delta": self.unspent} if self.unspent else {}
        return replace(
            made,
            method=NAME,
            guarantee=request.guarantee(
                self.moments.bounds.condition(),
                "means and covariances are bought first, for synthetic landmarks",
            ),
            parameters={**made.parameters, SHARE_OPTION: str(self.share), **unspent},
            bought=self.epsilon,
        )


@dataclass(frozen=True, eq=False)
class Design:
    """A rank, with what is predicted of it.

    Attributes
    ----------
    request : Request
        What is asked of the landmarks.
    check : Check or None
        Sizes of the check.
    rank : int
        r.
    strength, missed : float
        G, and H over P.
    """

    request: Request
    check: checking.Check
    rank: int
    strength: float
    missed: float

    def mean_square_error(self, density: float) -> float:
        """Predict the error of one answer."""
        features = Estimate(self.rank, self.strength, 1 - self.strength, 0.0, 0.0, 0.0)
        missed = self.check.variance(self.missed * density / checking.MISSED)
        noise = landmarks.answer_noise(self.request, features)
        return noise + (1 - self.strength) * missed + self.request.typical_count_error(density)


def _share(request: Request) -> Fraction:
    value = request.options.get(SHARE_OPTION, SHARE)
    share = value if isinstance(value, Fraction) else exact_epsilon(value)
    if not SMALLEST_SHARE <= share <= 1 - SMALLEST_SHARE:
        raise InputError(f"{SHARE_OPTION} must be a number above 0 and below 1, got {float(share):g}")
    return share


def _reaches(request: Request) -> Floats:
    """Half widths of the box, in bandwidths."""
    assert isinstance(request.kernel, Gaussian)
    return np.asarray(request.box.half_widths / request.kernel.column_scales(request.dimension))


def _variances(request: Request) -> Floats:
    """Variances of u that are assumed, see the module's text; no column has more than an even spread."""
    squared = (request.density ** (-2 / request.dimension) - 1) / 4
    return np.asarray(np.minimum(squared / _reaches(request) ** 2, 1 / 3))


def _normal(means: Floats, covariances: Floats, least: float, count: int, stream: PublicStream) -> Floats:
    """Draw points of a normal law within the box of u; directions have a variance of `least` or more."""
    weights, directions = np.linalg.eigh(covariances)
    root = directions * np.sqrt(np.maximum(weights, least))
    drawn = stream.normals(count * len(means)).reshape(count, len(means))
    return np.asarray(np.clip(means + drawn @ root.T, -1.0, 1.0))


@lru_cache(maxsize=8)
def _seen(
    variances: tuple[float, ...], reaches: tuple[float, ...], error: float
) -> tuple[tuple[int, float, float], ...]:
    """Rank, G and H / P of landmarks whose moments have this error, for normal records; see the module's text."""
    columns, stream = len(variances), PublicStream(0, "reference/plan")
    spread = np.diag(variances)
    noise = error * stream.normals(columns**2).reshape(columns, columns)
    noise = np.triu(noise) + np.triu(noise, 1).T
    around = _normal(error * stream.normals(columns), spread + noise, error, LANDMARKS, stream) * reaches
    records = _normal(np.zeros(columns), spread, 0.0, RECORDS, stream) * reaches
    kernel = Gaussian(1.0)
    spectrum = Spectrum.of(kernel.value(around, around))
    features = kernel.value(records, around) @ spectrum.projection(spectrum.rank)
    similar = _between(kernel.value(records, records).sum(), RECORDS)
    strengths = np.cumsum(np.square(features).mean(axis=0))
    explained = np.cumsum(_between(np.square(features.sum(axis=0)), np.square(features).sum(axis=0)))
    ranks = [rank for rank in landmarks.RANKS if rank <= spectrum.rank] or [spectrum.rank]
    return tuple(
        (rank, min(float(strengths[rank - 1]), 1.0), float(np.clip(1 - explained[rank - 1] / similar, 0.0, 1.0)))
        for rank in ranks
    )


def _between(whole: Any, own: Any) -> Any:
    """Mean over pairs of different records."""
    return (whole - own) / (RECORDS * (RECORDS - 1))


def _designs(purchase: Purchase) -> Iterator[Design]:
    request, check = purchase.rest, checking.design(purchase.rest)
    if check is None:
        raise InputError("synthetic landmarks need their check: leave check_share as it is")
    variances, reaches = _variances(purchase.request), _reaches(purchase.request)
    seen = _seen(tuple(variances.tolist()), tuple(reaches.tolist()), purchase.error)
    if "n_features" in request.options:
        wanted = request.positive_option("n_features", 1)
        seen = ((wanted, *next((each[1:] for each in seen if each[0] >= wanted), seen[-1][1:])),)
    for rank, strength, missed in seen:
        if landmarks.fits(request, rank, check, LANDMARKS):
            yield Design(request, check, rank, strength, min(missed + UNLIKE, 1.0))


def _purchase(request: Request) -> Purchase:
    return request.once(NAME, lambda: Purchase.of(request))


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    kernel = request.kernel
    if request.landmarks is not None:
        return "public points are given: landmarks takes those"
    if not isinstance(kernel, Gaussian) or not kernel.separable:
        return "it needs the Gaussian kernel with one bandwidth, or one for each column"
    if request.bounds is None:
        return "it needs public bounds: pass bounds=, one (lower, upper) pair for each column"
    if not FEWEST_COLUMNS <= request.dimension <= MOST_COLUMNS:
        return f"it is for {FEWEST_COLUMNS} to {MOST_COLUMNS} columns"
    if request.projected:
        return "it does not project its records"
    if LEAST_REACH**2 * float(_variances(request).max()) > 1:
        return "a column's bounds are too narrow for a normal law: zeros and ones are better as categories"
    try:
        purchase = _purchase(request)
        if purchase.error > LARGEST_ERROR * float(np.median(_variances(request))):
            return "the moments would be noise: it needs more records or a larger epsilon"
        work = request.n * landmarks.work_of(request, purchase.design.rank, LANDMARKS)
        if work > MOST_WORK and SHARE_OPTION not in request.options:
            return f"it would take {work:.0e} multiplications for so many records: pass {SHARE_OPTION} to have it so"
    except InputError as reason:
        return str(reason)
    return None


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    request.check_options(*OPTIONS)
    design = _purchase(request).design
    check, rank = design.check, design.rank
    work = float(landmarks.work_of(request, rank, LANDMARKS))
    return Prediction(
        rmse=math.sqrt(design.mean_square_error(density)),
        integers=rank + 1 + check.integers,
        file_size=landmarks.file_size(request, rank, LANDMARKS) + check.file_size,
        work_per_record=work + check.work_per_record,
        work_per_query=work + check.work_per_query,
        parameters={"n_features": rank},
    )


def build(request: Request) -> Purchase:
    """Choose what is bought first; what follows is its `Purchase.mechanism`."""
    request.check_options(*OPTIONS)
    return _purchase(request)


METHOD = Method(NAME, "landmarks of a normal law whose moments are bought", OPTIONS, refuse, predict, build, pure=True)
