"""`race`: hashed counters with Laplace or Gaussian noise, for kernels that are collision probabilities.

Source: the private RACE sketch of Coleman and Shrivastava (2021) with four changes: integer noise without rounding down
(which biased every counter by -1/2), rehash collisions taken off by the row's own sum (`quantizers.hashing`), hash
functions spread evenly (`quantizers.hashes.projections`), and sizes from public facts.

Guarantee. A record adds 1 to one counter of each of R rows. f records differ between neighbours (one, or the records
of a user), so the table moves by at most f R in l1 and f sqrt(R) in l2; replacing a record moves two counters of a row
by one each, 2 R in l1 and sqrt(2 R) in l2. Pure: discrete Laplace noise of rate e / l1 on every counter. With delta:
discrete Gaussian noise calibrated as in `privacy.gaussian`, on counters in steps of s; only the counters that differ
count for its distance from the rounded Gaussian, at most f R of them, because the others have the same independent law
under both neighbours.

Count. Every record adds 1 to every row, so the mean of the noisy row sums is an unbiased count that costs nothing, of
variance W v / R (v that of one counter). Where that is too rough, a share of the budget buys a count apart. The option
own_count says which; otherwise it is the one of least predicted error.

Error of one answer, P the mean kernel value, V the variance of one row over hashes (`quantizers.hashing`): MSE = V / R
+ c v / (R n^2), v = 2 (f R / e)^2 or sigma^2. c is W / (W - 1) with a rehash and 1 without; a count from the sketch
adds W P^2 (its noise is uncorrelated with that of a debiased row) or, without a rehash, W P^2 - 2 P. A count that is
bought adds (P sd(count) / n)^2. Pure: the best R is (e n / f) sqrt(V / (2 c)), where MSE = 2 sqrt(2 V c) f / (e n);
with delta the noise does not depend on R.

V is A + B / (W - 1), which depends on the data. On eighteen pairs of data set and kernel A was between 0.02 and 4 P^2,
most often near P^2 / 4 for functions that are spread evenly and near P^2 / 2 for independent ones; predictions take
that, and B = P - P^2 - A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import INTEGER_BYTES, MOST_TERMS, Request, header_size
from sfumato.privacy.gaussian import gaussian_multiplier, gaussian_noise, largest_length
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import CountNoise, DiscreteGaussian, DiscreteLaplace
from sfumato.public.codec import brief
from sfumato.public.ranges import check_size
from sfumato.quantizers.base import Integers
from sfumato.quantizers.hashes import HashFamily, family_for
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.release import Count

NAME = "race"
SIZE_OPTIONS = ("rows", "width", "groups")
OPTIONS = (*SIZE_OPTIONS, "own_count")
# Mean kernel values of hashed kernels, which have heavy tails, are larger than the papers' typical ones.
HASHED_DENSITY = 0.1
WIDTHS = tuple(2**power for power in range(1, 9))
MOST_ROWS, FEWEST_GAUSSIAN_ROWS = 4096, 256
MOST_WORK = 2**18  # multiplications for one record
GAUSSIAN_STEP = 2**10


@dataclass(frozen=True)
class Terms:
    """What the error of a sketch consists of, from public facts.

    Attributes
    ----------
    request : Request
        The facts.
    rehashed : bool
        Whether buckets share counters.
    own_count : bool
        Whether the count comes from the sketch.
    spread : bool
        Whether the hash functions are spread evenly.
    """

    request: Request
    rehashed: bool
    own_count: bool
    spread: bool = True

    @property
    def epsilon(self) -> Fraction:
        """What the counters cost."""
        return self.request.epsilon if self.own_count else self.request.feature_epsilon

    @property
    def count_law(self) -> CountNoise | None:
        """Noise of a count that is bought."""
        return None if self.own_count else self.request.count_law

    def hash_variance(self, density: float, width: int) -> float:
        """Typical V, see the module's text."""
        bucket = density**2 / (4 if self.spread else 2)
        others = max(density - density**2 - bucket, 0.0)
        return bucket + (others / (width - 1) if self.rehashed else 0.0)

    def noise_factor(self, density: float, width: int) -> float:
        """Return c, see the module's text."""
        factor = width / (width - 1) if self.rehashed else 1.0
        if not self.own_count:
            return factor
        return factor + width * density**2 - (0.0 if self.rehashed else 2 * density)

    def counter_variance(self, rows: int) -> float:
        """Return v, in units of records."""
        request = self.request
        if request.delta:
            return gaussian_multiplier(float(self.epsilon), request.delta) ** 2 * l2_squared(request, rows)
        return DiscreteLaplace(self.epsilon / (request.factor * rows)).variance

    def mean_square_error(self, density: float, rows: int, width: int) -> float:
        """Predict the error of one answer."""
        noise = self.noise_factor(density, width) * self.counter_variance(rows) / (rows * self.request.n**2)
        bought = 0.0 if self.own_count else self.request.count_error(density)
        return self.hash_variance(density, width) / rows + noise + bought

    def best_rows(self, density: float, width: int) -> int:
        """R that balances hashes and noise; with delta, enough of them to leave a tenth of the noise."""
        request = self.request
        variance, factor = self.hash_variance(density, width), self.noise_factor(density, width)
        if request.delta:
            noise = gaussian_multiplier(float(self.epsilon), request.delta) ** 2 * l2_squared(request, 1)
            return max(FEWEST_GAUSSIAN_ROWS, min(MOST_ROWS, int(10 * variance * request.n**2 / (factor * noise))))
        best = float(self.epsilon) * request.n / request.factor * math.sqrt(variance / (2 * factor))
        return max(1, min(MOST_ROWS, round(best)))


Predictor = Callable[[Terms, float, int, int], float]


@dataclass(frozen=True)
class Sizes:
    """Rows, counters a row, groups of the median of means, and what the error consists of."""

    rows: int
    width: int
    groups: int
    terms: Terms


def l2_squared(request: Request, rows: int) -> int:
    """Squared l2 sensitivity of the counters: a replaced record leaves one counter of a row and enters another."""
    return 2 * rows if request.neighbours == "replace" else request.factor**2 * rows


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    family = family_for(request.kernel)
    if family is None:
        return f"it needs a kernel that is a collision probability, not {request.kernel.name}"
    reason = family.refuse(request.kernel, request.dimension, request.bounds)
    if reason is None and _most_rows(request, family, 2) < 1:
        reason = "the budgets leave no room for a single row of counters"
    return reason


def _most_rows(request: Request, family: type[HashFamily], width: int) -> int:
    """Most rows that the limits allow."""
    limits = request.limits
    work = family.work(request.kernel, request.dimension, request.bounds)
    room = (limits.file_size - header_size(request.kernel, request.dimension)) / (INTEGER_BYTES * width)
    return int(max(0.0, min(room, limits.work_per_query / work, limits.work_per_record / work, MOST_TERMS)))


def sizes_of(
    request: Request, own_count: bool, spread: bool, predictor: Predictor, widths: Sequence[int] = WIDTHS
) -> Sizes:
    """Read the sizes from the options, or take those of least predicted error."""
    family = family_for(request.kernel)
    assert family is not None
    buckets = family.buckets(request.kernel, request.dimension, request.bounds)
    if "width" in request.options:
        widths = (request.positive_option("width", 2),)
    if buckets is not None and buckets <= max(widths):
        widths = (buckets,)
    if min(widths) < 2:
        raise InputError("option width must be 2 or more: one counter a row tells nothing")
    groups = request.positive_option("groups", 1)
    # A median of means needs independent functions.
    terms = Terms(request, buckets is None or buckets > max(widths), own_count, spread and groups == 1)
    density = request.density if "density" in request.options else HASHED_DENSITY
    swiftest = max(1, int(MOST_WORK / family.work(request.kernel, request.dimension, request.bounds)))

    def rows_of(width: int) -> int:
        best = min(terms.best_rows(density, width), swiftest)
        return request.size_option("rows", best, _most_rows(request, family, width))

    fitting = [width for width in widths if _most_rows(request, family, width) >= 1] or [min(widths)]
    width = min(fitting, key=lambda width: predictor(terms, density, rows_of(width), width))
    # The counters, and the numbers that the hash functions are drawn from.
    check_size(rows_of(width) * max(width, int(family.work(request.kernel, request.dimension, request.bounds))))
    if groups > rows_of(width):
        raise InputError(f"groups ({groups}) must not exceed rows ({rows_of(width)})")
    return Sizes(rows_of(width), width, groups, terms)


def choose_sizes(request: Request) -> Sizes:
    """Read the sizes, and where the count is from, from the options, or choose them from public facts."""
    request.check_options(*OPTIONS)
    own = request.options.get("own_count")
    if own is not None and not isinstance(own, bool):
        raise InputError(f"option own_count must be True or False, got {brief(own)}")
    if own and (request.neighbours == "replace" or "count_share" in request.options):
        raise InputError("own_count=True reads a private count off the counters: leave count_share and 'replace' out")
    if request.neighbours == "replace" or "count_share" in request.options:
        own = False
    sources = (False, True) if own is None else (own,)
    both = [sizes_of(request, count, spread=True, predictor=Terms.mean_square_error) for count in sources]
    density = request.density if "density" in request.options else HASHED_DENSITY
    return min(both, key=lambda sizes: sizes.terms.mean_square_error(density, sizes.rows, sizes.width))


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost; a median of J > 1 means has about pi / 2 times the variance."""
    sizes = choose_sizes(request)
    error = sizes.terms.mean_square_error(density, sizes.rows, sizes.width)
    found = prediction(request, sizes, error * (math.pi / 2 if sizes.groups > 1 else 1))
    return replace(found, parameters={**found.parameters, "own_count": sizes.terms.own_count})


def prediction(request: Request, sizes: Sizes, mean_square_error: float) -> Prediction:
    """Put a predicted error together with the costs of the sizes."""
    family = family_for(request.kernel)
    assert family is not None
    work = sizes.rows * family.work(request.kernel, request.dimension, request.bounds)
    return Prediction(
        rmse=math.sqrt(mean_square_error),
        integers=sizes.rows * sizes.width,
        file_size=header_size(request.kernel, request.dimension) + INTEGER_BYTES * sizes.rows * sizes.width,
        work_per_record=work,
        work_per_query=work,
        parameters={"rows": sizes.rows, "width": sizes.width, "groups": sizes.groups},
    )


def draw(request: Request, sizes: Sizes, debias: bool = True) -> HashingQuantizer:
    """Draw the hash functions of a request."""
    return HashingQuantizer.draw(
        request.kernel,
        request.dimension,
        sizes.rows,
        request.feature_seed,
        width=sizes.width,
        bounds=request.bounds,
        outside=request.outside,
        debias=debias,
        spread=sizes.terms.spread,
    )


def build(request: Request) -> Mechanism:
    """Choose R and W from the request and draw the hash functions."""
    sizes = choose_sizes(request)
    return assemble(request, sizes, draw(request, sizes))


def assemble(request: Request, sizes: Sizes, quantizer: HashingQuantizer) -> Mechanism:
    """Calibrate the noise for counters that are drawn already."""
    terms, loss = sizes.terms, None
    noise: NoiseLaw
    if request.delta:
        quantizer, noise, loss = _gaussian(request, terms, quantizer)
    else:
        noise = DiscreteLaplace(terms.epsilon / (request.factor * quantizer.bound.l1))
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        count_law=terms.count_law,
        parameters={**parameters(request, sizes), "own_count": terms.own_count},
        groups=sizes.groups,
        feature_loss=loss,
        count_reader=partial(read_count, quantizer, noise.variance) if terms.own_count else None,
    )


def parameters(request: Request, sizes: Sizes) -> dict[str, int]:
    """Public parameters, for the record."""
    return {"rows": sizes.rows, "width": sizes.width, "groups": sizes.groups, "n_hint": request.n}


def _gaussian(
    request: Request, terms: Terms, quantizer: HashingQuantizer
) -> tuple[HashingQuantizer, DiscreteGaussian, Loss]:
    """Count in steps so fine that discrete and rounded noise are the same for all purposes."""
    epsilon, rows = float(terms.epsilon), quantizer.terms
    squared = l2_squared(request, rows)
    step = min(GAUSSIAN_STEP, int(largest_length(math.sqrt(squared), epsilon, request.delta)))
    if step < 1:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or fewer rows")
    changed = min(request.factor * rows, quantizer.size)
    return replace(quantizer, value=step), *gaussian_noise(step**2 * squared, changed, epsilon, request.delta)


def read_count(quantizer: HashingQuantizer, noise_variance: float, values: Integers) -> Count:
    """Read the count off noisy counters."""
    variance = quantizer.width * noise_variance / (quantizer.terms * quantizer.value**2)
    return Count(max(1, int(np.rint(quantizer.count(values)))), variance, public=False)


METHOD = Method(NAME, "hashed counters (RACE) with Laplace or Gaussian noise", OPTIONS, refuse, predict, build)
