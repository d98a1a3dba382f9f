"""`landmarks`: features spanned by a public sample, with noise for the ball they lie in (Gaussian for delta > 0).

For records in many dimensions that resemble public points: public texts in the same embedding, last year's published
table. `quantizers.landmarks` explains integers, answers and biases.

Guarantee. One record's integers have l1 norm at most B1 = floor(s sqrt(r)) (r >= 4) and l2 norm at most s, the residual
included; f records differ between neighbours (add/remove 1, replace 2, times the records of a user). Pure: ball noise
of rate e_f / (f s) on all r + 1 sums (`privacy.ball`) multiplies the probability of any output by at most exp(e_f); so
does discrete Laplace noise of rate e_f / (f B1), where that has less variance or the ball's does not fit. delta > 0:
discrete Gaussian noise for the l2 sensitivity f s, calibrated as in `privacy.gaussian`. The count at e_c composes to
(epsilon, delta). The landmarks are public: nothing about them is protected.

Error of one answer, G the mean of |g(y)|^2 and b the bias on held-out public points: MSE = (r + 2) G (f / (e_f n))^2
+ b^2 + (P sd(count) / n)^2 with ball noise (2 r for r + 2 with Laplace noise), G (c f / n)^2 + b^2 + ... with Gaussian
noise. Both G and b come from the public sample, so the prediction assumes that the records resemble it; the release
itself shows whether they do. Where it could not show it, because the noise is too large or the public points hardly
resemble each other, b is the whole residual, as in the release's error bars.

The check. Half of the budget buys Fourier sums of the same records (`central.checking`, with its guarantee), which
show what the landmarks miss, whatever the records are: noise is as above at the other half. What is left of b^2 is in
`checking`, for H = (1 - G) / L by chance.
Kernels without Fourier features have no check, and the resemblance that the release shows decides their bars.

The rank r is chosen from n, epsilon and the public sample: the one of a short list with the least noise plus bias as
if the public sample completed nothing, so that a release says what its records say wherever the budget allows, instead
of repeating the public sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.central import checking
from sfumato.errors import InputError
from sfumato.kernels import Kernel, ScaledKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import INTEGER_BYTES, Request, header_size
from sfumato.privacy.ball import LARGEST_MEAN_LENGTH, BallNoise, ball_fits
from sfumato.privacy.gaussian import gaussian_multiplier, gaussian_noise, largest_length
from sfumato.privacy.laws import StackedNoise
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, rounded_down
from sfumato.quantizers import Box, CheckedLandmarks, LandmarkQuantizer, Quantizer
from sfumato.quantizers.nystrom import Estimate, PublicSample, Spectrum, estimates
from sfumato.quantizers.resemblance import can_be_shown
from sfumato.quantizers.similarities import Similarities, similarities
from sfumato.threads import one_blas_thread

NAME = "landmarks"
OPTIONS = (checking.SIZE_OPTION, checking.OPTION, "n_features")
RANKS = (4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
SCALE, SMALLEST_SCALE, SMALLEST_BALL_SCALE = 2**18, 16, 2**12
KERNELS = ("angular", "jaccard")
Noise = DiscreteLaplace | BallNoise | DiscreteGaussian


@dataclass(frozen=True, eq=False)
class Fit:
    """What a public sample says about a kernel, at every rank of the list."""

    fitted: Similarities
    spectrum: Spectrum
    ranks: tuple[Estimate, ...]

    def at(self, rank: int) -> Estimate:
        """Estimate at any rank."""
        if rank > self.spectrum.rank:
            raise InputError(
                f"option n_features is {rank}, and these landmarks span {self.spectrum.rank}; pass that or fewer, or "
                "more landmarks"
            )
        known = {estimate.rank: estimate for estimate in self.ranks}
        return known[rank] if rank in known else estimates(self.fitted, [rank])[0]


@lru_cache(maxsize=4)
def fit(sample: PublicSample, kernel: Kernel, box: Box | None, outside: str) -> Fit:
    """Decompose the sample's kernel matrix, once for all plans and releases that share it.

    On one thread of BLAS, for several round otherwise: sites with other processors must get the same numbers.
    """
    bounds = None if box is None else list(zip(box.lower, box.upper, strict=True))
    fitted = similarities(kernel, sample.points, bounds, outside)
    with one_blas_thread():
        spectrum = Spectrum.of(fitted.matrix())
        ranks = [rank for rank in RANKS if rank < spectrum.rank] or [spectrum.rank]
        return Fit(fitted, spectrum, tuple(estimates(fitted, ranks)))


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    kernel = request.kernel
    if request.landmarks is None:
        return "it needs public points that resemble the records: pass landmarks="
    if not kernel.portable:
        return "it needs a kernel that a release file can carry, and this one is its author's own"
    if not isinstance(kernel, ScaledKernel) and kernel.name not in KERNELS:
        return f"it needs a positive definite kernel with k(x, x) = 1, not {kernel.name}"
    try:
        _estimate(request)
    except InputError as reason:  # landmarks too far apart, a rank beyond them, budgets too tight
        return str(reason)
    return None


def _fit(request: Request) -> Fit:
    assert request.landmarks is not None
    box = None
    if request.bounds is not None:
        box = Box.from_bounds(request.bounds, request.dimension, request.outside)
    return fit(request.landmarks, request.kernel, box, request.outside)


def _estimate(request: Request) -> Estimate:
    """Choose the rank; a function of public facts only."""
    found, check = _fit(request), checking.design(request)
    if "n_features" in request.options:
        choices: tuple[Estimate, ...] = (found.at(request.positive_option("n_features", 1)),)
    else:
        choices = found.ranks
    fitting = [estimate for estimate in choices if fits(request, estimate.rank, check, _landmarks(request))]
    if not fitting:
        landmarks, rank = _landmarks(request), choices[0].rank
        work, size = work_of(request, rank, landmarks), file_size(request, rank, landmarks)
        raise InputError(
            f"{landmarks} landmarks take a file of {size} bytes and {work} multiplications for each "
            "record and query, which the budgets do not allow: pass fewer landmarks"
        )
    return min(
        fitting, key=lambda each: answer_noise(request, each) + _bias(request, found, each) ** 2 + each.missed**2
    )


def _bias(request: Request, found: Fit, estimate: Estimate) -> float:
    """Bias of records that resemble the landmarks, or all that is missed where a release could not show it."""
    return estimate.bias if _shows(request, found, estimate) else estimate.residual


def _shows(request: Request, found: Fit, estimate: Estimate) -> bool:
    """Tell whether a release of records that resemble the landmarks would show it."""
    noise = answer_noise(request, estimate) / max(estimate.strength, 1e-300)
    law, rank = request.count_law, min(estimate.rank, found.spectrum.rank)
    strength = float(np.square(found.spectrum.reference(rank)).sum())
    count_share = 0.0 if law is None else law.variance / request.n**2
    return can_be_shown(found.spectrum.spread(rank), strength, rank, noise, count_share)


def _missed(request: Request, found: Fit, estimate: Estimate, density: float) -> checking.Missed:
    """Return what is missed of records like the sample by chance, or of any records where that could not be shown."""
    bias, size = _bias(request, found, estimate), _landmarks(request)
    by_chance = estimate.residual / size
    energy = by_chance if _shows(request, found, estimate) else density
    spread = estimate.bias * math.sqrt(2 / size)
    return checking.Missed(bias**2, estimate.bias**2, energy, by_chance, spread, estimate.residual)


def _landmarks(request: Request) -> int:
    assert request.landmarks is not None
    return len(request.landmarks.points)


def work_of(request: Request, rank: int, size: int) -> int:
    """Return the multiplications for a record or a query, with so many landmarks."""
    return size * (request.dimension + rank)


def file_size(request: Request, rank: int, size: int) -> int:
    """Return the bytes of a release with so many landmarks, or of one of its copies: the landmarks are stored once."""
    shared = -(-(size * (request.dimension + rank + 1) + rank) // request.copies)
    return header_size(request.kernel, request.dimension) + INTEGER_BYTES * (shared + rank + 1)


def fits(request: Request, rank: int, check: checking.Check | None, landmarks: int) -> bool:
    """Tell whether the limits allow a rank of so many landmarks, with its check."""
    limits, work, size = request.limits, work_of(request, rank, landmarks), file_size(request, rank, landmarks)
    if check is None:
        return work <= min(limits.work_per_record, limits.work_per_query) and size <= limits.file_size
    return (
        work + check.work_per_record <= limits.work_per_record
        and work + check.work_per_query <= limits.work_per_query
        and size + check.file_size <= limits.file_size
    )


def answer_noise(request: Request, estimate: Estimate) -> float:
    """Variance of an answer's noise."""
    check_share, share = checking.share_of(request), request.factor / request.n
    request = checking.landmarks_part(request, check_share)
    epsilon = float(request.feature_epsilon)
    if request.delta:
        multiplier = gaussian_multiplier(epsilon, request.delta)
        return estimate.strength * (multiplier * share) ** 2 / float(1 - check_share)
    reach = estimate.rank if estimate.rank >= 4 else (1 + estimate.rank / 4) ** 2
    return spread(request, reach, estimate.rank + 1) * estimate.strength * (share / epsilon) ** 2


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost, for records that resemble the landmarks."""
    request.check_options(*OPTIONS)
    found, estimate, check = _fit(request), _estimate(request), checking.design(request)
    variance = answer_noise(request, estimate) + request.typical_count_error(density)
    work = float(work_of(request, estimate.rank, _landmarks(request)))
    made = Prediction(
        rmse=math.sqrt(variance + _bias(request, found, estimate) ** 2),
        integers=estimate.rank + 1,
        file_size=file_size(request, estimate.rank, _landmarks(request)),
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": estimate.rank},
    )
    if check is None:
        return made
    return replace(
        made,
        rmse=math.sqrt(variance + check.remaining(_missed(request, found, estimate, density), density)),
        integers=made.integers + check.integers,
        file_size=made.file_size + check.file_size,
        work_per_record=work + check.work_per_record,
        work_per_query=work + check.work_per_query,
    )


def build(request: Request) -> Mechanism:
    """Choose the rank and calibrate the noise."""
    request.check_options(*OPTIONS)
    found, estimate, check = _fit(request), _estimate(request), checking.design(request)
    parameters: dict[str, Any] = {"n_features": estimate.rank, "landmarks": _landmarks(request)}
    made: Quantizer
    noise: Noise | StackedNoise
    if check is None:
        own = LandmarkQuantizer.fit(found.fitted, estimate, scale_of(request, SCALE, estimate.rank + 1), found.spectrum)
        made, (noise, loss) = own, noise_for(request, own.bound.l1, own.bound.l2_squared, own.size)
    else:
        made, noise, loss = _checked(request, found, estimate, check)
        parameters |= {checking.OPTION: str(check.share), checking.SIZE_OPTION: check.pairs}
    return Mechanism.of(
        request,
        NAME,
        made,
        noise,
        "the landmarks are public and not protected",
        parameters=parameters,
        feature_loss=loss,
    )


def _checked(
    request: Request, found: Fit, estimate: Estimate, check: checking.Check
) -> tuple[CheckedLandmarks, Noise | StackedNoise, Loss | None]:
    """Put the pairs of the check beside the landmarks' features, with the noise of both."""
    part = checking.landmarks_part(request, check.share)
    if request.delta:
        longest = largest_length(request.factor / math.sqrt(1 - check.share), float(part.feature_epsilon), part.delta)
        scale = min(SCALE, int(longest))
        pairs: Any = checking.gaussian_pairs(check, scale)
    else:
        scale = scale_of(part, SCALE, estimate.rank + 1)
        pairs, pairs_noise = checking.pure_pairs(check)
    own = LandmarkQuantizer.fit(_within(found.fitted, pairs.box), estimate, scale, found.spectrum)
    made = CheckedLandmarks(own, pairs)
    if request.delta:
        touched = min(request.factor * (own.size + 2 * check.per_group), made.size)
        squares = request.factor**2 * made.bound.l2_squared
        return made, *gaussian_noise(squares, touched, part.feature_epsilon, request.delta)
    noise, _ = noise_for(part, own.bound.l1, own.bound.l2_squared, own.size)
    return made, StackedNoise((noise, pairs_noise), (own.size, pairs.size)), None


def _within(fitted: Similarities, box: Box) -> Similarities:
    """Return the same kernel integers for records of the box in which phases are exact."""
    if not box.declared and not box.holds(fitted.points).all():
        raise InputError(
            f"the landmarks reach beyond {max(box.upper):g}, where the default box ends; pass bounds=, one (lower, "
            "upper) pair per column"
        )
    return replace(fitted, box=box)  # type: ignore[type-var]


def _ball_scale(request: Request, usual: int, coordinates: int) -> int | None:
    """Largest scale up to the usual one at which ball noise can be drawn; None where integers would be too coarse."""
    budget = request.feature_epsilon / request.factor
    scale = min(usual, math.floor(budget * LARGEST_MEAN_LENGTH / (math.isqrt(coordinates) + 1)))
    if scale < SMALLEST_BALL_SCALE or not ball_fits(coordinates, budget / scale):
        return None
    return scale


def spread(request: Request, reach: float, coordinates: int, usual: int = SCALE) -> float:
    """Variance of the pure noise on one sum, in units of (f s / e_f)^2; `reach` is the l1 norm over s, squared."""
    if coordinates + 1 < 2 * reach and _ball_scale(request, usual, coordinates) is not None:
        return coordinates + 1.0
    return 2 * reach


def scale_of(request: Request, usual: int, coordinates: int) -> int:
    """Take the usual scale, or a smaller one where little budget makes the noise too wide."""
    if not request.delta:
        return (_ball_scale(request, usual, coordinates) if coordinates > 1 else None) or usual
    scale = min(usual, int(largest_length(request.factor, float(request.feature_epsilon), request.delta)))
    if scale < SMALLEST_SCALE:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or fewer records per user")
    return scale


def noise_for(request: Request, l1: int, l2_squared: int, coordinates: int) -> tuple[Noise, Loss | None]:
    """Noise for one record's l1 and l2 norms, and what it reveals where more is known than the guarantee says.

    Parameters
    ----------
    request : Request
        Budget and relation. With a delta the noise is Gaussian; without, it is the ball's or Laplace noise, whichever
        has less variance.
    l1, l2_squared : int
        Largest l1 norm and squared l2 norm of one record's integers.
    coordinates : int
        Number of sums.
    """
    if not request.delta:
        budget, length = request.feature_epsilon / request.factor, math.isqrt(l2_squared - 1) + 1
        if (coordinates + 1) * length**2 < 2 * l1**2 and ball_fits(coordinates, budget / length):
            return BallNoise(coordinates, rounded_down(budget / length)), None
        return DiscreteLaplace(budget / l1), None
    return gaussian_noise(request.factor**2 * l2_squared, coordinates, request.feature_epsilon, request.delta)


METHOD = Method(NAME, "features spanned by public landmarks that the records resemble", OPTIONS, refuse, predict, build)
